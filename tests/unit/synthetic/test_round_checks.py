"""`deepnmt iterate`: what is checked before the first training, and the table of the rounds."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from support.substitution import SOURCE, TARGET, monolingual, sentences, substituted, substitution_data

from deepnmt.cli import iterate
from deepnmt.errors import UserError
from deepnmt.synthetic.rounds import BEGUN, table

LINES = sentences(6, seed=4)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("iterate")
    data = substitution_data(folder / "data")
    (folder / "tiny.yaml").write_text("arch: transformer\n")
    (folder / "rounds.yaml").write_text("kind: back\ntrain: tiny.yaml\nsynthesis: --method top-k 5\n")
    return {
        "recipe": folder / "rounds.yaml",
        "data": data,
        "mono-target": monolingual(folder, data, TARGET, LINES, []),
        "mono-source": monolingual(folder, data, SOURCE, [substituted(line) for line in LINES], []),
    }


def words(folders: dict[str, Path], save: Path, **changed: object) -> list[str]:
    keys = {**folders, "save": save, **{key.replace("_", "-"): value for key, value in changed.items()}}
    recipe = keys.pop("recipe")
    return [str(recipe), *(word for key, value in keys.items() for word in (f"--{key}", str(value)))]


def begin(given: list[str]) -> None:
    with iterate.check(iterate.read_rounds(given)).begun():
        pass


def test_what_fits_is_begun_and_resumed_with_the_same(folders: dict[str, Path], tmp_path: Path) -> None:
    save = tmp_path / "save"
    begin(words(folders, save))
    begin(words(folders, save, rounds=7, min_gain=0.5))
    with pytest.raises(UserError, match=r"was begun with upsample 1, not 2; remove it or choose another --save"):
        begin(words(folders, save, upsample=2))


def test_what_was_made_anew_under_its_name_is_seen(folders: dict[str, Path], tmp_path: Path) -> None:
    places = {name: tmp_path / path.name for name, path in folders.items()}
    for name, path in folders.items():
        (shutil.copyfile if path.is_file() else shutil.copytree)(path, places[name])
    shutil.copyfile(folders["recipe"].parent / "tiny.yaml", tmp_path / "base.yaml")
    recipe = tmp_path / "tiny.yaml"
    recipe.write_text("extends: base.yaml\n")
    save = tmp_path / "save"
    begin(words(places, save))
    # A comment says nothing.
    recipe.write_text("extends: base.yaml\n# of a kind\n")
    begin(words(places, save))
    (tmp_path / "base.yaml").write_text("arch: transformer\nlr: 1\n")
    with pytest.raises(UserError, match=r"save was begun with other content of train; remove it or choose another --"):
        begin(words(places, save))
    shutil.copyfile(folders["recipe"].parent / "tiny.yaml", tmp_path / "base.yaml")
    record = places["mono-target"] / "preprocess.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), "inputs": {"news": "other"}}))
    with pytest.raises(UserError, match=r"was begun with other content of mono-target; remove it or"):
        begin(words(places, save))
    # Of an earlier version, which noted no content.
    begun = json.loads((save / BEGUN).read_text())
    (save / BEGUN).write_text(json.dumps({key: value for key, value in begun.items() if " " not in key}))
    begin(words(places, save))


def test_a_teacher_is_known_by_its_content(folders: dict[str, Path], tmp_path: Path) -> None:
    recipe, teacher, save = tmp_path / "distil.yaml", tmp_path / "a.pt", tmp_path / "save"
    recipe.write_text(f"kind: distil\ntrain: {folders['recipe'].parent / 'tiny.yaml'}\n")
    given = [str(recipe), "--data", str(folders["data"]), "--save", str(save), "--students", "2"]
    given += ["--teacher", f"{teacher}:{teacher}"]
    with pytest.raises(
        UserError, match=r"^teacher must be checkpoints with colons between them, but there is no .*a\.pt"
    ):
        begin(given)
    assert not save.exists()
    for content, fault in (
        (b"one", None),
        (b"one", None),
        (b"two", r"was begun with other content of teacher;"),
    ):
        teacher.write_bytes(content)
        if fault is None:
            begin(given)
        else:
            with pytest.raises(UserError, match=fault):
                begin(given)


def test_help_may_stand_anywhere(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        iterate.main(["recipe.yaml", "--save", "save", "--help"])
    assert capsys.readouterr().out.startswith("usage: deepnmt iterate RECIPE")


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"mono_source": "TARGET"}, "mono-en: must be text of de made by deepnmt binarise --mono, but is en"),
        ({"mono_source": "DATA"}, "data: must be text of de made by deepnmt binarise --mono, but is another"),
        ({"train": "none.yaml"}, "train must be a recipe, but there is no none.yaml"),
        ({"synthesis": "--method best"}, "--method must be beam, greedy, sampling or top-k K, but is 'best'"),
        ({"synthesis": "--nbest 3"}, "synthesis: --nbest is for distil alone"),
        ({"synthesis": "--noise delete=1"}, "synthesis: --noise delete must be at least 0 and below 1, but is 1"),
        ({"synthesis": "--tag <BT>"}, "synthesis: TARGET/dict.de.txt: must have the type <BT>, but does not"),
        ({"synthesis": "--method top-k 79"}, "synthesis: --method top-k must be at most the 78 types"),
    ],
)
def test_refused(folders: dict[str, Path], tmp_path: Path, changed: dict[str, str], fault: str) -> None:
    places = {"TARGET": str(folders["mono-target"]), "DATA": str(folders["data"])}
    given = {key: places.get(value, value) for key, value in changed.items()}
    with pytest.raises(UserError, match=re.escape(fault.replace("TARGET", places["TARGET"]))):
        iterate.check(iterate.read_rounds(words(folders, tmp_path / "save", **given)))
    assert not (tmp_path / "save").exists()


@pytest.mark.parametrize("name", ["a,b", "a:b"])
def test_a_folder_whose_name_would_be_two_is_refused(folders: dict[str, Path], tmp_path: Path, name: str) -> None:
    fault = f"save must be without a colon or a comma, which stand between models, but is {tmp_path / name}"
    with pytest.raises(UserError, match=re.escape(fault)):
        iterate.check(iterate.read_rounds(words(folders, tmp_path / name)))
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize(("side", "language"), [("mono_source", SOURCE), ("mono_target", TARGET)])
def test_lines_that_are_validated_on_are_refused_before_there_is_a_model(
    folders: dict[str, Path], tmp_path: Path, side: str, language: str
) -> None:
    held = (folders["data"] / "text" / f"valid.tok.{language}").read_text("utf-8").splitlines()[1]
    mono = monolingual(tmp_path, folders["data"], language, [held], [])
    with pytest.raises(UserError, match=rf"mono\.tok\.{language}:1: must not be a line .* but is line 2 of valid"):
        iterate.check(iterate.read_rounds(words(folders, tmp_path / "save", **{side: mono})))
    iterate.check(iterate.read_rounds(words(folders, tmp_path / "s", **{side: mono}, synthesis="--allow-overlap")))


def test_text_with_more_types_than_the_models_have_is_refused(folders: dict[str, Path], tmp_path: Path) -> None:
    mono = monolingual(tmp_path, folders["data"], TARGET, LINES, ["<BT>"])
    fault = f"dict.de.txt: must have the types of {folders['data']} and no more, but has <BT>; make"
    with pytest.raises(UserError, match=re.escape(fault)):
        iterate.check(iterate.read_rounds(words(folders, tmp_path / "save", mono_target=mono)))


def test_text_of_one_side_alone_is_refused_in_one_line(folders: dict[str, Path], tmp_path: Path) -> None:
    one = {key: path for key, path in folders.items() if key != "mono-source"}
    fault = "mono-source must be given, as mono-target is: each direction needs text of its target"
    with pytest.raises(UserError, match=f"^{folders['recipe']}: {fault}$"):
        iterate.main(words(one, tmp_path / "save"))


def test_table_of_the_rounds(folders: dict[str, Path], tmp_path: Path) -> None:
    rounds = iterate.read_rounds(words(folders, tmp_path, rounds=2, min_gain=1))
    bleu = {0: (10.0, 12.0), 1: (11.5, 12.25), 2: (11.75, 12.25)}
    assert table(rounds) == ""
    for number, scores in bleu.items():
        while (step := rounds.next_step()) is not None and step.round == number:
            step.result.parent.mkdir(parents=True, exist_ok=True)
            score = scores[step.result.parent.parent.name == "reverse"]
            step.result.write_text(json.dumps({"tokenised BLEU": {"score": score}}))
    assert table(rounds).splitlines() == [
        "round\tforward\treverse\tgain",
        "0\t10.00\t12.00\t",
        "1\t11.50\t12.25\t1.50",
        "2\t11.75\t12.25\t0.25",
    ]
