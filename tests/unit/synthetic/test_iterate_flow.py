"""`deepnmt iterate` from its first step to its last, with stand-ins for what it runs, and killed in between."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.substitution import SOURCE, TARGET, monolingual, sentences, substituted, substitution_data

from deepnmt.cli import iterate
from deepnmt.errors import UserError
from deepnmt.jobs import job
from deepnmt.jobs.job import locked
from deepnmt.synthetic.rounds import Step

LINES = sentences(6, seed=4)
OF_ZERO, OF_A_ROUND = 2 * 4, 2 * 6  # steps: both directions train, average, translate, score, or make and mix before
CHECKPOINTS = ("checkpoint1.pt", "checkpoint_best.pt", "checkpoint_last.pt")
# By round.
BLEU = (10, 12, 15)


class Killed(BaseException):
    """In place of a signal that nothing can catch."""


def work(name: str, *words: str) -> None:
    """What a step leaves."""
    if name == "train":
        Path(words[2]).mkdir(parents=True, exist_ok=True)
        for checkpoint in CHECKPOINTS:
            (Path(words[2]) / checkpoint).touch()
    elif name == "average":
        Path(words[1]).touch()
    elif name == "score":
        number = int(words[0].split("round-")[1].split("/")[0])
        scores = {"tokenised BLEU": {"score": BLEU[number]}}
        (Path(words[0]) / "scores.json").write_text(json.dumps(scores))
    else:
        folder, file = {
            "generate": (2, "generate.json"), "synthesise": (4, "preprocess.json"), "mix": (0, "preprocess.json"),
        }[name]  # fmt: skip
        Path(words[folder]).mkdir(parents=True)
        (Path(words[folder]) / file).touch()


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    data = substitution_data(tmp_path / "data")
    monolingual(tmp_path, data, TARGET, LINES, [])
    monolingual(tmp_path, data, SOURCE, [substituted(line) for line in LINES], [])
    (tmp_path / "tiny.yaml").write_text("arch: transformer\n", encoding="utf-8")
    keys = {"kind": "back", "train": "tiny.yaml", "data": "data", "mono-source": "mono-de", "mono-target": "mono-en"}
    keys |= {"rounds": "3", "min-gain": "2.5"}
    (tmp_path / "rounds.yaml").write_text("".join(f"{key}: {value}\n" for key, value in keys.items()), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(monkeypatch: pytest.MonkeyPatch, save: str, last: int = 0) -> list[str]:
    """The steps of a command, which is killed at the beginning of the last of so many."""
    calls: list[str] = []

    def stand_in(step: Step) -> None:
        calls.append(" ".join(step.command).replace(f"{save}/", "S/"))
        if len(calls) == last:
            raise Killed
        work(*step.command)

    monkeypatch.setattr(iterate, "run", stand_in)
    try:
        iterate.main(["rounds.yaml", "--save", save])
    except Killed:
        assert last
    return calls


def test_killed_in_any_kind_of_step_it_goes_on_with_that_step(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    undisturbed = run(monkeypatch, "whole")
    # The first round gains 2, less than 2.5, and is the last.
    assert len(undisturbed) == OF_ZERO + OF_A_ROUND
    assert (root / "whole" / "rounds.tsv").read_text().splitlines() == [
        "round\tforward\treverse\tgain",
        "0\t10.00\t10.00\t",
        "1\t12.00\t12.00\t2.00",
    ]
    assert capsys.readouterr().out.splitlines() == [
        "round  forward  reverse  gain",
        "0      10.00    10.00",
        "1      12.00    12.00    2.00",
        "whole is ready",
    ]
    done = 0
    # In averaging, in making pairs, in mixing.
    for last in (2, OF_ZERO, 2):
        assert run(monkeypatch, "killed", last) == undisturbed[done : done + last]
        done += last - 1
    assert run(monkeypatch, "killed") == undisturbed[done:]
    assert (root / "killed" / "rounds.tsv").read_bytes() == (root / "whole" / "rounds.tsv").read_bytes()
    # All is done.
    assert run(monkeypatch, "killed") == []


def test_a_folder_in_use_is_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "WAIT", 0.0)
    with locked(root / "held", "save"), pytest.raises(UserError, match=r"^--save must not be in use, but a command"):
        run(monkeypatch, "held")


def test_a_step_runs_its_subcommand(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    called: list[tuple[str, ...]] = []
    monkeypatch.setattr("deepnmt.cli.call", lambda name, words: called.append(("here", name, *words)))
    monkeypatch.setattr("deepnmt.jobs.child_steps.run_step", lambda *words: called.append(("process", *words)))
    for command in (("score", "folder"), ("mix", "out", "real", "pairs"), ("train", "recipe", "data", "save")):
        iterate.run(Step(0, Path("result"), command))
    assert [call[:2] for call in called] == [("here", "score"), ("process", "mix"), ("process", "train")]
    assert capsys.readouterr().err == "+ deepnmt score folder\n"
