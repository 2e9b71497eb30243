"""The steps of LibreOffice's example with stand-ins: for one language, and for several with tags."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.stand_ins import copy_beside, run_beside

PYTHON = """for text; do [[ $text != */text ]] || break; done
[[ $* != *"-m corpus."* ]] || { mkdir -p "$text"; for side in de mul; do echo Text >"$text/test.$side"; done; }
"""
TRAIN = """mkdir -p "$3"; touch "$3"/checkpoint{1,2,3}.pt "$3/checkpoint_best.pt"
[[ $* != *six* ]] || touch "$3"/checkpoint{4,5,6}.pt
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A copy of the example beside stand-ins for all steps."""
    steps = ("clean", "preprocess", "average", "generate", "score")
    works = {"scripts/train.sh": TRAIN, **{f"scripts/{step}.sh": "" for step in steps}}
    works |= {"bin/python3": PYTHON, "bin/fairseq-train": ""}
    copy_beside(tmp_path, ["examples/libreoffice"], works)
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "tiny.yaml").touch()
    return tmp_path


def run(root: Path, *words: str) -> tuple[int, list[str], str]:
    return run_beside(root, "examples/libreoffice/run.sh", *words)


def test_from_packages_to_a_translation(root: Path) -> None:
    status, calls, error = run(root, "de", "--debs", "debs", "--max-update", "9")
    assert status == 0, error
    assert calls == [
        "python3 -m corpus.fetch de out/de/text --cache out/debs --debs debs",
        "clean.sh --input out/de/text/train --output out/de/clean --source-lang de --target-lang en --recipe "
        "configs/clean.txt",
        "preprocess.sh --source-lang de --target-lang en --train out/de/clean --valid out/de/text/valid --test "
        "out/de/text/test --dest out/de/data --bpe-merges 8000",
        "train.sh configs/tiny.yaml out/de/data out/de/checkpoints/tiny --max-update 9",
        "average.sh out/de/checkpoints/tiny out/de/checkpoints/tiny/average.pt --last 3",
        "generate.sh out/de/checkpoints/tiny/average.pt out/de/data out/de/results/tiny",
        "score.sh out/de/results/tiny",
        "python3 -m deepnmt export out/de/checkpoints/tiny/average.pt out/de/data out/de/models/tiny",
        "python3 -m deepnmt translate out/de/models/tiny",
    ]
    status, calls, error = run(root, "de", "--six")
    assert status == 0, error
    assert calls[4].endswith(" --last 5")


def test_several_languages_have_tags_and_a_folder_without_commas(root: Path) -> None:
    status, calls, error = run(root, "de,pt-br")
    assert status == 0, error
    assert [call.split()[:4] for call in calls[:4:2]] == [
        ["python3", "-m", "corpus.fetch", language] for language in ("de", "pt-br")
    ]
    assert calls[4:6] == [
        "python3 -m corpus.join out/de_pt-br/text out/de out/pt-br",
        "preprocess.sh --source-lang mul --target-lang en --train out/de_pt-br/text/train --valid "
        "out/de_pt-br/text/valid --test out/de_pt-br/text/test --dest out/de_pt-br/data --protect out/de_pt-br/tags "
        "--bpe-merges 16000",
    ]
    assert calls[-1] == "python3 -m deepnmt translate --no-split out/de_pt-br/models/tiny"
    status, calls, error = run(root, "ten", "--text")
    assert status == 0, error
    assert calls[-1] == "python3 -m corpus.join out/ten/text " + " ".join(
        f"out/{language}" for language in ("de", "fr", "es", "it", "nl", "pt-br", "cs", "ru", "ja", "zh-cn")
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "LANGUAGES and at most one RECIPE must be given (see --help)"),
        (("de,",), "LANGUAGES must be languages with commas between them, but is 'de,'"),
        (("de,,fr",), "LANGUAGES must be languages with commas between them, but is 'de,,fr'"),
        (("",), "LANGUAGES must be languages with commas between them, but is ''"),
        (("ten,de",), "LANGUAGES must have each language once, but is ten,de"),
        (("de", "none.yaml"), "RECIPE must be a file, but there is no 'none.yaml'"),
        (("de", "--debs"), "option --debs needs a value"),
    ],
)
def test_faults_are_one_line(root: Path, words: tuple[str, ...], message: str) -> None:
    status, calls, error = run(root, *words)
    assert (status, calls) == (2, [])
    assert error.splitlines()[-1] == f"run.sh: error: {message}"
