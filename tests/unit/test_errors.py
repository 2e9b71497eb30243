"""Faults a user can put right are shown in one line; defects keep their traceback."""

from __future__ import annotations

import errno
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.file_io import PathManager
from support.models import PLAIN, build, dictionary, task

from deepnmt.errors import UserError, show_user_errors, user_message
from deepnmt.fairseq_patches.process.refusals import refusal
from deepnmt.model.config import DLCLTransformerConfig
from deepnmt.model.transformer import DLCLTransformerModel


def shown(error: BaseException, capsys: pytest.CaptureFixture[str]) -> tuple[str, list[BaseException]]:
    passed_on: list[BaseException] = []
    show_user_errors(lambda kind, error, trace: passed_on.append(error), refusal)(type(error), error, None)
    return capsys.readouterr().err, passed_on


def test_user_error_is_shown_line_by_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(UserError("a must be b", "c must be d"), capsys) == (
        "deepnmt: error: a must be b\ndeepnmt: error: c must be d\n",
        [],
    )


def test_a_value_does_not_fill_many_screens() -> None:
    assert str(UserError("a" * 5_000, "b" * 5_001)) == "a" * 5_000 + "\n" + "b" * 5_000 + "... (5001 characters)"


@pytest.mark.parametrize("error", [UserError("a must be b"), torch.OutOfMemoryError("CUDA out of memory")])
def test_of_several_processes_the_first_speaks_at_once(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The launcher ends the others while they wait, unless the first has no fault."""
    said: list[str] = []
    monkeypatch.setattr(time, "sleep", lambda seconds: said.append(f"{seconds} s{capsys.readouterr().err}"))
    hook = show_user_errors(sys.__excepthook__, refusal)
    for rank, waits in (("0", []), ("3", ["10 s"])):
        monkeypatch.setenv("LOCAL_RANK", rank)
        hook(type(error), error, None)
        assert said == waits
        assert capsys.readouterr().err.startswith("deepnmt: error: ")


PROGRAM = """
import sys
from deepnmt.errors import UserError, show_user_errors
sys.excepthook = show_user_errors(sys.excepthook, lambda error, trace: str(error) if str(error) == "refused" else None)
if sys.argv[1] == "behind":
    hook = sys.excepthook
    sys.excepthook = lambda *args: hook(*args)
raise {"user": UserError("a", "b"), "refused": ValueError("refused"), "defect": ValueError("defect")}[sys.argv[2]]
"""


@pytest.mark.parametrize(
    ("words", "status", "lines"),
    [
        (("alone", "user"), 2, ["deepnmt: error: a", "deepnmt: error: b"]),
        (("alone", "refused"), 2, ["deepnmt: error: refused"]),
        # As torch's hook stands in a group of processes.
        (("behind", "user"), 1, ["deepnmt: error: a", "deepnmt: error: b"]),
    ],
)
def test_a_program_ends_with_the_status_of_a_command(words: tuple[str, str], status: int, lines: list[str]) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, *words], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.splitlines()) == (status, lines)


def test_a_program_ends_with_a_defect_as_ever() -> None:
    command = [sys.executable, "-c", PROGRAM, "alone", "defect"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback")


def test_user_error_that_fairseq_wrapped_is_found() -> None:
    wrapped = Exception("please ensure that the architectures match")
    wrapped.__context__ = UserError("the reason")
    assert user_message(wrapped) == "the reason"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_full_disk(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    text, passed_on = shown(OSError(number, "No room", "a.pt"), capsys)
    assert text == "deepnmt: error: cannot write a.pt: No room; earlier checkpoints are intact\n"
    assert not passed_on


def test_interruption(capsys: pytest.CaptureFixture[str]) -> None:
    text, _ = shown(KeyboardInterrupt(), capsys)
    assert text == "deepnmt: error: interrupted; run the same command again to resume from the last checkpoint\n"


@pytest.mark.parametrize("error", [ValueError("a defect"), OSError(errno.EACCES, "Permission denied")])
def test_defects_keep_their_traceback(error: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(error, capsys) == ("", [error])


def test_truncated_checkpoint_is_named(tmp_path: Path) -> None:
    whole, cut = tmp_path / "whole.pt", tmp_path / "cut.pt"
    torch.save({"model": build().state_dict()}, whole)
    with pytest.raises(UserError, match=r"whole\.pt: cfg must be the options of the training, but is missing"):
        checkpoint_utils.load_checkpoint_to_cpu(str(whole))
    cut.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    with pytest.raises(UserError, match=r"cut\.pt: must be a whole fairseq checkpoint, but is truncated"):
        checkpoint_utils.load_checkpoint_to_cpu(str(cut))


class Malicious:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> Any:
        return Path.touch, (self.target,)


def test_malicious_checkpoint_is_refused_and_not_run(tmp_path: Path) -> None:
    target = tmp_path / "touched"
    torch.save({"model": {}, "extra_state": Malicious(target)}, tmp_path / "bad.pt")
    with pytest.raises(UserError, match=r"bad\.pt: must be a whole fairseq checkpoint, but holds a "):
        checkpoint_utils.load_checkpoint_to_cpu(str(tmp_path / "bad.pt"))
    assert not target.exists()


def test_dictionary_that_does_not_fit_is_named() -> None:
    model = build(PLAIN)
    config = DLCLTransformerConfig(**{**PLAIN, "encoder_embed_dim": 16, "decoder_embed_dim": 16})
    other = DLCLTransformerModel.build_model(config, task(dictionary(30)))
    with pytest.raises(UserError, match=r"dictionary must have the 24 types of the checkpoint's .*, but has 34"):
        other.load_state_dict(model.state_dict())


def test_copied_checkpoint_appears_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = tmp_path / "new.pt", tmp_path / "checkpoint_last.pt"
    source.write_text("new")
    target.write_text("old")

    def stop_half_way(source: str, target: str) -> None:
        Path(target).write_text("ne")
        raise OSError(errno.ENOSPC, "No space left on device", target)

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "copyfile", stop_half_way)
        with pytest.raises(OSError, match="No space left"):
            PathManager.copy(str(source), str(target), overwrite=True)
    assert target.read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint_last.pt", "new.pt"]
    before = target.stat().st_ino
    assert PathManager.copy(str(source), str(target), overwrite=True)
    assert target.read_text() == "new"
    assert target.stat().st_ino != before  # renamed into place, not written over
