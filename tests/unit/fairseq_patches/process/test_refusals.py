"""What fairseq refuses, and files that cannot be opened, are a line each; defects keep their traceback."""

from __future__ import annotations

import ast
import errno
import os
import re
import traceback
from argparse import ArgumentError
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq.data import Dictionary, data_utils
from fairseq_cli import generate
from hydra.errors import ConfigCompositionException
from omegaconf import OmegaConf
from torch.multiprocessing.spawn import ProcessRaisedException

from deepnmt.errors import UserError, show_user_errors
from deepnmt.fairseq_patches.process.refusals import refusal


def raised(function: Callable[[], Any]) -> BaseException:
    try:
        function()
    except Exception as error:
        return error
    pytest.fail("nothing was raised")


def said(function: Callable[[], Any]) -> str | None:
    error = raised(function)
    return refusal(error, error.__traceback__)


def throw(error: BaseException) -> Callable[[], Any]:
    def function() -> None:
        raise error

    return function


def line_of(module: Any, start: str) -> int:
    lines = Path(module.__file__).read_text("utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.strip().startswith(start))


def test_what_fairseq_raises_itself_is_a_line_with_its_place() -> None:
    place = f"fairseq.data.data_utils, line {line_of(data_utils, 'raise NotImplementedError(f')}"
    assert said(lambda: data_utils.post_process("a", "foo")) == f"Unknown post_process option: foo ({place})"
    sampling = {"sampling": True, "nbest": 1, "beam": 2}
    message = said(lambda: generate.main(OmegaConf.create({"common_eval": {"path": "a.pt"}, "generation": sampling})))
    assert re.fullmatch(r"--sampling requires --nbest .* --beam \(fairseq_cli\.generate, line \d+\)", str(message))


def test_files_that_cannot_be_opened(tmp_path: Path) -> None:
    assert said(lambda: Path(tmp_path / "none").read_text()) == f"{tmp_path}/none: No such file or directory"
    assert said(throw(OSError("file a not found"))) == "file a not found"
    assert said(lambda: os.makedirs("/dev/null/folder")) == "/dev/null/folder: Not a directory"
    (tmp_path / "latin").write_bytes(b"\xe4")
    assert str(said(lambda: Path(tmp_path / "latin").read_text("utf-8"))).startswith("text must be UTF-8, but is not: ")


def test_values_and_configurations() -> None:
    assert said(lambda: ast.literal_eval("{a")) == (
        "the value of an option must be a literal such as {'lr': 0.1}, but is {a ('{' was never closed)"
    )
    assert said(lambda: OmegaConf.create({"codes": "???"}).codes) == (
        "fairseq cannot put its configuration together: Missing mandatory value: codes"
    )
    assert said(throw(ArgumentError(None, "conflicting option string: --a"))) == (
        "fairseq cannot put its configuration together: conflicting option string: --a"
    )
    assert said(throw(ConfigCompositionException("Error merging override lr_scheduler.total_num_update=null"))) == (
        "--total-num-update must be given, but is not"
    )


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"),
    ],
    ids=["gpu", "cpu"],
)
def test_memory(error: Exception) -> None:
    message = said(throw(error))
    assert message is not None
    assert message.startswith(
        "the memory does not hold this: give a smaller --max-tokens, or a smaller model or beam ("
    )
    assert str(error) in message


def test_a_gpu_that_is_not_there() -> None:
    assert said(throw(AssertionError("Torch not compiled with CUDA enabled"))) == (
        "the options must be some that the CPU can do, but ask for a GPU (Torch not compiled with CUDA enabled)"
    )


def test_the_error_of_a_process_for_a_gpu() -> None:
    def child(error: Exception) -> str:
        try:
            try:
                raise OSError("before")
            except OSError:
                raise error from None
        except Exception:
            return f"\n\n-- Process 0 terminated with the following error:\n{traceback.format_exc()}"

    text = child(UserError("one must be two", "three must be four"))
    assert said(throw(ProcessRaisedException(text, 0, 1))) == "one must be two\nthree must be four"
    wrapped = f"{text}\nDuring handling of the above exception, another exception occurred:\n\nException: x\n"
    assert said(throw(ProcessRaisedException(wrapped, 0, 1))) == "one must be two\nthree must be four"
    assert said(throw(ProcessRaisedException(child(ValueError("a defect")), 0, 1))) is None


@pytest.mark.parametrize(
    "function",
    [
        throw(ValueError("raised by this file")),
        throw(OSError(errno.ENOENT, "No such file or directory")),
        lambda: Dictionary().add_symbol([]),  # below a call of fairseq's
        lambda: data_utils.lengths_to_mask(None),
        lambda: data_utils.get_bucketed_sizes([-1], []),  # a bare assertion of fairseq's
        lambda: {}["key"],
        lambda: compile("{a", "config.py", "exec"),
        throw(RuntimeError("the size of tensor a (3) must match the size of tensor b (4)")),
    ],
    ids=["own", "no-file", "called", "attribute", "assertion", "key", "source", "tensor"],
)
def test_defects_keep_their_traceback(function: Callable[[], Any], capsys: pytest.CaptureFixture[str]) -> None:
    passed_on: list[BaseException] = []
    error = raised(function)
    hook = show_user_errors(lambda kind, error, trace: passed_on.append(error), refusal)
    hook(type(error), error, error.__traceback__)
    assert passed_on == [error]
    assert capsys.readouterr().err == ""


def test_each_line_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    error = raised(lambda: data_utils.post_process("a", "foo"))
    show_user_errors(lambda *_: pytest.fail("passed on"), refusal)(type(error), error, error.__traceback__)
    assert capsys.readouterr().err.startswith("deepnmt: error: Unknown post_process option: foo (fairseq.data.")
