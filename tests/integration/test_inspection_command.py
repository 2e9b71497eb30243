"""`deepnmt inspect`."""

from __future__ import annotations

import base64
import functools
import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from support.inspected import Reader, Toy, make_toy, write_data
from support.models import dictionary

import deepnmt.inspection
from deepnmt import console
from deepnmt.cli import inspect
from deepnmt.inspection import (
    Report,
    inspect_checkpoint,
    inspected,
    read_json,
    summary,
    table,
)


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    return make_toy(tmp_path_factory.mktemp("toy"))


def run(monkeypatch: pytest.MonkeyPatch, *arguments: Any) -> int:
    """The status of the command."""
    monkeypatch.setattr(sys, "argv", ["deepnmt inspect", *map(str, arguments)])
    try:
        console.run(inspect.main, "deepnmt inspect")
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def test_command(toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    files = {name: tmp_path / f"out.{name}" for name in ("json", "html")}
    status = run(
        monkeypatch, f"recipe={toy.recipe}", toy.checkpoint, "--data", toy.data, "--batches", 2, "--set",
        "encoder-norm=post", "--set", "decoder-norm=post", "--json", files["json"], "--html", files["html"],
        "--pictures", tmp_path / "new" / "pictures",
    )  # fmt: skip
    printed = capsys.readouterr()
    assert status == 0
    assert len(printed.err.splitlines()) == 2
    assert printed.err.startswith("1 of 2: recipe: 3 encoder and 2 decoder layers, loss ")
    reports = read_json(files["json"].read_text(encoding="utf-8"))
    assert [report.label for report in reports] == ["recipe", "best"]
    # Post-norm, as --set says: all variances are about 1, and in the checkpoint, pre-norm, they are not.
    variances = [[sublayer.activation_variance for sublayer in report.sublayers] for report in reports]
    assert variances[0] == pytest.approx([1.0] * 12, abs=0.05)
    assert max(variances[1]) > 1.1
    assert reports[1] == inspect_checkpoint(toy.checkpoint, toy.data, batches=2)
    assert printed.out == "\n\n".join([table(reports[0]), table(reports[1]), summary(reports)]) + "\n"
    about = json.loads(files["json"].read_text(encoding="utf-8"))["about"]
    assert about["command"].startswith("deepnmt inspect recipe=")
    assert "torch" in about["versions"]
    text = files["html"].read_text(encoding="utf-8")
    assert all(part in text for part in ("recipe: 3 encoder", "best: 3 encoder", "--set decoder-norm=post"))
    pictures = {path.name: path.read_bytes() for path in (tmp_path / "new" / "pictures").iterdir()}
    assert len(pictures) == 6
    embedded = [base64.b64decode(address.partition(",")[2]) for address in Reader(text).addresses]
    assert sorted(embedded) == sorted(pictures.values())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "out.html", "out.json"]


def test_similarity_of_the_decoders_layers(
    toy: Toy, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for theta, boundaries in (("0", "0,2"), ("1", "0,1,2")):
        words = (toy.checkpoint, "--data", toy.data, "--attention-similarity", "--theta", theta)
        assert run(monkeypatch, *words) == 0
        title, head, first, second, last = capsys.readouterr().out.splitlines()
        assert len(head) == len(first) == len(second)
        assert title == "best: similarity of the decoder's self-attention (48)"
        assert head.split() == ["layer", "1", "2"]
        matrix = [line.split() for line in (first, second)]
        assert [row[0] for row in matrix] == ["1", "2"]
        assert matrix[0][1] == matrix[1][2] == "1.000"
        assert 0 < float(matrix[0][2]) == float(matrix[1][1]) < 1
        assert last == f"--shared-attention-blocks {boundaries}  (theta {theta})"


def test_options_reach_the_measurements(
    toy: Toy, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    report, matrix = Report("x", 1, 1.0, []), [[1.0, 0.6], [0.6, 1.0]]
    found: list[tuple[Path, dict[str, Any]]] = []

    def keep(result: Any, path: Path, **given: Any) -> Any:
        found.append((path, given))
        return result

    for name in ("inspect_recipe", "inspect_checkpoint", "checkpoint_similarities"):
        result = matrix if name == "checkpoint_similarities" else report
        monkeypatch.setattr(inspected, name, functools.partial(keep, result))
    words = ("--data", toy.data, "--batches", 7, "--subset", "long", "--seed", 9)
    common = {"data": toy.data, "batches": 7, "subset": "long", "seed": 9}
    recipe = (f"r={toy.recipe}", "--set", "dropout=0.5", "--encoder-layers", "2,3", "--decoder-layers", "1")
    assert run(monkeypatch, *recipe, *words) == 0
    options = [{"dropout": "0.5", "encoder-layers": depth, "decoder-layers": "1"} for depth in "23"]
    assert found == [(toy.recipe, {"label": "r", "options": each, **common}) for each in options]
    found.clear()
    assert run(monkeypatch, f"c={toy.checkpoint}", *words) == 0
    assert found == [(toy.checkpoint, {"label": "c", **common})]
    found.clear()
    capsys.readouterr()
    # 0.6 is too little by default.
    for more, boundaries in ((), "0,1,2  (theta 0.7)"), (("--theta", 0.5), "0,2  (theta 0.5)"):
        assert run(monkeypatch, f"c={toy.checkpoint}", *words, "--attention-similarity", *more) == 0
        assert capsys.readouterr().out.splitlines()[-1] == f"--shared-attention-blocks {boundaries}"
    assert found == [(toy.checkpoint, common)] * 2


@pytest.mark.slow
def test_command_builds_recipes_at_several_depths(
    toy: Toy, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [toy.recipe, "--data", toy.data, "--batches", 1, "--encoder-layers", "1,4"]
    assert run(monkeypatch, *arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:3] for line in lines[-4:]] == [
        ["toy", "encoder", "1"], ["toy", "decoder", "2"], ["toy", "encoder", "4"], ["toy", "decoder", "2"],
    ]  # fmt: skip
    assert run(monkeypatch, *arguments, "--decoder-layers", "3,1") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[2] for line in lines[-4:]] == ["1", "3", "4", "1"]
    assert run(monkeypatch, *arguments, "--decoder-layers", "3") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[2] for line in lines[-4:]] == ["1", "3", "4", "3"]


def test_reader_that_stops_reading(toy: Toy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with (tmp_path / "out").open("w") as file:

        class Pipe(io.StringIO):
            def flush(self) -> None:
                raise BrokenPipeError

            def fileno(self) -> int:
                return file.fileno()

        monkeypatch.setattr(sys, "stdout", Pipe())
        inspected.show("text")


# Words of the command line, to which --data DATA is added where they do not have it; and the message.
BAD: dict[str, tuple[str, str]] = {
    "no source": ("none.yaml", r"SOURCE must be a file, or a name that .* lists, but there is no 'none\.yaml'"),
    "other file": ("DATA/dict.de.txt", r"SOURCE must be a recipe \(\.yaml\) or a checkpoint \(\.pt\), but is neither"),
    "no architecture": ("base.yaml", r"base\.yaml: a recipe must name an architecture \(arch:\), but does not"),
    "no batch size": ("RECIPE --set max-tokens=", "a recipe must have max-tokens or batch-size, but has neither"),
    "not a recipe": ("list.yaml", r"list\.yaml:1: a recipe must be a mapping"),
    "truncated": ("cut.pt", r"cut\.pt: must be a whole fairseq checkpoint, but is truncated"),
    "not a checkpoint": ("text.pt", r"text\.pt: must be a whole fairseq checkpoint"),
    "no data given": ("RECIPE", "the following arguments are required: --data"),
    "no data": ("RECIPE --data none", "none: no data folder made by fairseq-preprocess was found"),
    "no dictionaries": ("RECIPE --data bare", r"bare: no dict\.\*\.txt found; data must be .*"),
    "no languages": ("RECIPE --data mute", "mute: no file that names the languages was found"),
    "other dictionary": ("PT --data other", "dictionary must have the 24 types of the checkpoint's"),
    "no subset": ("RECIPE --subset dev", r"the subset must be one of long, train \(.*data\), but is dev"),
    "unknown option": ("RECIPE --frob", "unrecognized arguments: --frob"),
    "abbreviated": ("RECIPE --batch 2", "unrecognized arguments: --batch 2"),
    "no batches": ("RECIPE --batches 0", "--batches must be a whole number from 1 to 10000, but is '0'"),
    "batches in words": ("RECIPE --batches two", "--batches must be a whole number from 1 to 10000, but is 'two'"),
    "no depth": (
        "RECIPE --encoder-layers 6,0",
        "--encoder-layers must be whole numbers from 1 to .*, but is '6,0'",
    ),
    "seed below 0": ("RECIPE --seed -2", r"--seed must be a whole number from 0 to \d+, but is '-2'"),
    "pairs": (
        "RECIPE --encoder-layers 1,2 --decoder-layers 1,2,3",
        "--decoder-layers must have one number or as many as --encoder-layers, but has others",
    ),
    "depth of a checkpoint": (
        "RECIPE PT --encoder-layers 6",
        r"--encoder-layers cannot be combined with a checkpoint, .*best\.pt",
    ),
    "depth twice": (
        "RECIPE --encoder-layers 6 --set encoder-layers=2",
        "--set encoder-layers cannot be combined with --encoder-layers",
    ),
    "set without value": ("RECIPE --set dropout", "--set must be KEY=VALUE, but is 'dropout'"),
    "set unknown": ("RECIPE --set drop=1", "'drop' is not an option of fairseq-train"),
    "set wrong": ("RECIPE --set dropout=x", "given beside the recipe: dropout must be a number, but is 'x'"),
    "set for none": ("PT --set dropout=1", "--set needs a recipe among SOURCE"),
    "same label": ("RECIPE toy=PT", "labels must differ, but 'toy' names 2 sources: write LABEL=PATH"),
    "similarity of a recipe": (
        "RECIPE --attention-similarity",
        r"--attention-similarity needs a checkpoint, but .*toy\.yaml is a recipe",
    ),
    "similarity in a file": (
        "PT --attention-similarity --json x",
        "--attention-similarity cannot be combined with --json",
    ),
    "theta": ("PT --attention-similarity --theta 2", "--theta must be from 0 to 1, but is '2'"),
    "theta in words": ("PT --attention-similarity --theta high", "--theta must be from 0 to 1, but is 'high'"),
    "theta of nothing": ("PT --theta 0.7", "--theta needs --attention-similarity"),
    "output a folder": ("RECIPE --json bare", "bare: must be a file, but is a folder"),
    "output nowhere": ("RECIPE --html no/a.html", "cannot write no/a.html: No such file or directory"),
    "output in a file": ("RECIPE --pictures text.pt/a", "cannot make folder text.pt/a: Not a directory"),
    "output twice": ("RECIPE --json x --html ./x", "x: given twice"),
    "output over a source": ("RECIPE --json RECIPE", r"toy\.yaml: given twice"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_nothing_is_written(
    case: str, toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    line, message = BAD[case]
    (tmp_path / "base.yaml").write_text("max-tokens: 10\n", encoding="utf-8")
    (tmp_path / "list.yaml").write_text("- a\n", encoding="utf-8")
    (tmp_path / "cut.pt").write_bytes(toy.checkpoint.read_bytes()[:3000])
    (tmp_path / "text.pt").write_text("text", encoding="utf-8")
    (tmp_path / "bare").mkdir()
    (tmp_path / "mute").mkdir()
    dictionary(20).save(str(tmp_path / "mute" / "dict.de.txt"))
    if case == "other dictionary":
        write_data(tmp_path / "other", words=30)
    before = sorted(path.name for path in tmp_path.iterdir())
    recipe = toy.recipe.read_bytes()
    monkeypatch.chdir(tmp_path)
    if case.startswith("output"):
        for name in ("inspect_recipe", "inspect_checkpoint"):
            monkeypatch.setattr(inspected, name, lambda *_, **__: pytest.fail("measured before outputs were tried"))
    if case != "no data given" and "--data" not in line:
        line += " --data DATA"
    places = {"RECIPE": str(toy.recipe), "DATA": str(toy.data), "PT": str(toy.checkpoint)}
    words = [re.sub("RECIPE|DATA|PT", lambda found: places[found[0]], word) for word in line.split()]
    status = run(monkeypatch, *words)
    printed = capsys.readouterr()
    assert status == 2
    assert printed.out == ""
    assert re.fullmatch(rf"deepnmt inspect: error: .*{message}.*\n", printed.err), printed.err
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert toy.recipe.read_bytes() == recipe


def test_missing_matplotlib_is_said_before_anything_is_measured(
    toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in sys.modules if name.startswith("matplotlib.")] + ["matplotlib"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "deepnmt.inspection.page", raising=False)
    monkeypatch.delattr(deepnmt.inspection, "page", raising=False)
    monkeypatch.setattr(inspected, "measure", lambda arguments: pytest.fail("measured"))
    assert run(monkeypatch, toy.recipe, "--data", toy.data, "--html", tmp_path / "a.html") == 2
    assert capsys.readouterr().err == (
        "deepnmt inspect: error: matplotlib is not installed: pip install 'deepnmt[pictures]'\n"
    )


def test_help(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "--help") == 0
    assert "LABEL=PATH" in capsys.readouterr().out


def test_a_recipe_may_be_given_by_its_name() -> None:
    given = inspect.parse(["tiny", "small=multi30k/control", "--data", "data"])
    configs = Path(__file__).resolve().parents[2] / "configs"
    assert [(each.label, each.path) for each in given.sources] == [
        ("tiny", configs / "tiny.yaml"),
        ("small", configs / "multi30k" / "control.yaml"),
    ]
