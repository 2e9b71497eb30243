"""`deepnmt synthesise` with a model of fairseq's."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.flow import contents
from support.substitution import SOURCE, monolingual, sentences
from support.synthetic_runs import LINES, OPTIONS, back_command

from deepnmt.cli import synthesise
from deepnmt.errors import UserError


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return back_command(tmp_path_factory.mktemp("synthesise"))


def make(out: Path, words: list[str], shards: list[int]) -> Path:
    for shard in shards:
        more = ["--shards", str(len(shards)), "--shard", str(shard)]
        synthesise.main([*words[:4], str(out), *words[4:], *more])
    return out


@pytest.mark.slow
def test_samples_are_the_same_in_any_shards_in_any_order(command: list[str], tmp_path: Path) -> None:
    whole = make(tmp_path / "whole", [*command, *OPTIONS], [0])
    assert contents(make(tmp_path / "shards", [*command, *OPTIONS], [2, 0, 1])) == contents(whole)
    other = make(tmp_path / "other", [*command, *OPTIONS, "--seed", "2"], [0])
    sources = [(folder / "text" / "train.tok.de").read_text("utf-8").splitlines() for folder in (whole, other)]
    assert {len(lines) for lines in sources} == {LINES}
    assert sum(one == another for one, another in zip(*sources)) < LINES / 10


def test_models_that_do_not_fit_are_refused(command: list[str], tmp_path: Path) -> None:
    back, model, data, mono = command
    out = str(tmp_path / "out")
    german = monolingual(tmp_path, Path(data), SOURCE, sentences(3), [])
    with pytest.raises(UserError, match=r"model\.pt: must translate de to en, but translates en to de"):
        synthesise.main(["forward", model, data, str(german), out])
    with pytest.raises(UserError, match=r"none\.pt: no such checkpoint"):
        synthesise.main([back, "none.pt", data, mono, out])
    with (Path(data) / "dict.de.txt").open("a", encoding="utf-8") as file:
        file.write("more 1\n")
    (Path(data) / "preprocess.json").write_text(
        (Path(data) / "preprocess.json").read_text("utf-8").replace('"de": 78', '"de": 79'), encoding="utf-8"
    )
    with pytest.raises(UserError, match=r"dict\.de\.txt: must be the dictionary of .*/data, perhaps with more types"):
        synthesise.main([back, model, data, mono, out])
    with pytest.raises(
        UserError, match=r"model\.pt: must have the 79 types of .*/dict\.de\.txt in its decoder, but has 78"
    ):
        synthesise.main(["distil", model, data, out, "--reverse"])
    assert not list(tmp_path.glob("out*"))
