"""One bar for all stages of a preparation."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import pytest
from support.flow import corpus, preprocess
from tqdm import tqdm

from deepnmt.preparation import stage_bar
from deepnmt.preparation.stage_bar import Stages


@pytest.fixture(autouse=True)
def every_step_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_bar, "tqdm", partial(tqdm, mininterval=0, miniters=0))


def test_expected_time_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    with Stages({"one": 30, "two": 60, "three": 10}) as work:
        with work.stage("one") as done:
            done(0.5)
        with work.stage("two") as done:
            done(0.25)
            done(0.25)
        with work.stage("three"):
            pass
    shown = re.findall(r"(\w+): +(\d+)%", capsys.readouterr().err)
    assert ("one", "15") in shown
    # Half of the second stage, after the first, of which the other half is taken for done.
    assert ("two", "60") in shown
    assert shown[-1] == ("three", "100")


def test_a_preparation_has_one_bar(tmp_path: Path) -> None:
    options = ("--truecase", "--placeholders", "numbers")
    result = preprocess(corpus(tmp_path / "raw"), tmp_path / "data", *options)
    assert result.returncode == 0, result.stderr
    shown = re.findall(r"([a-z ]+): +(\d+)%", result.stderr)
    assert list(dict.fromkeys(name for name, _ in shown if name)) == [
        *(f"preparing {split}" for split in ("train", "valid", "test")),
        *("casing", "tagging", "numbering words", "learning subwords", "cutting words", "writing"),
    ]
    shares = [int(share) for _, share in shown]
    assert shares == sorted(shares)
    assert shares[-1] == 100
