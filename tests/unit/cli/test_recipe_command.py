"""`deepnmt recipe`: names, and one recipe with all that it extends."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from deepnmt.cli import recipe as command
from deepnmt.errors import UserError
from deepnmt.recipe import named_recipes
from deepnmt.recipe.recipe_file import read_stages

NAMES = named_recipes.names()


def test_the_list_begins_with_those_for_own_text(capsys: pytest.CaptureFixture[str]) -> None:
    command.main([])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == NAMES
    assert NAMES[:4] == ["tiny", "deep-12", "base", "deep-30"]
    assert len(NAMES) == len(list(Path(named_recipes.folder()).rglob("*.yaml")))
    for line in lines[:4]:
        assert re.search(r"  For [\w,]+ .*pairs.*, on .*(CPU|GPU)", line)
    # Each says something of itself.
    assert all(len(line.split()) > 3 for line in lines)


@pytest.mark.parametrize("name", NAMES)
def test_the_merged_recipe_says_the_same(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command.main([name])
    printed = tmp_path / "printed.yaml"
    printed.write_text(capsys.readouterr().out, encoding="utf-8")
    values, stages = (
        [{key: option.value for key, option in options.items()} for options in (recipe.options, *recipe.stages)]
        for recipe in (read_stages(printed), read_stages(named_recipes.find(name)))
    )
    assert values == stages
    assert "extends" not in values[0]


def test_each_value_names_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = tmp_path / "own.yaml"
    own.write_text(f"# Mine.\nextends: {named_recipes.find('deep-30')}\nlr: 0.001\ntranslate: '--lenpen 1 # no'\n")
    command.main([str(own)])
    lines = capsys.readouterr().out.splitlines()
    assert re.fullmatch(rf"lr: 0\.001 +# {own}:3", next(line for line in lines if line.startswith("lr:")))
    assert any(re.fullmatch(r"warmup-updates: 16000 +# deep-30\.yaml:\d+", line) for line in lines)
    assert any(re.fullmatch(r"optimizer: adam +# base\.yaml:\d+", line) for line in lines)
    assert any(line.startswith("translate: '--lenpen 1 # no'  ") for line in lines)


@pytest.mark.parametrize("name", ["deep-13", "../README", "/etc/passwd.yaml", ""])
def test_what_is_no_recipe_is_refused(name: str) -> None:
    with pytest.raises(UserError, match=r"RECIPE must be a file, or a name that 'deepnmt recipe' lists, but there is"):
        named_recipes.find(name)
