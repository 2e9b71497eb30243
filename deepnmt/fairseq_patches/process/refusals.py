"""Errors that stop a command of fairseq's and are no defects, in one line: the last net under single options' checks.

fairseq says much in exceptions of its own, `ValueError: --finetune-from-model x.pt does not exist`, and more comes from
files that cannot be opened. Each is told from a defect by where it was raised: by a statement of fairseq's, with words,
and not somewhere below what fairseq called.
"""

import dis
import re
from argparse import ArgumentError
from types import TracebackType

import torch
from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException
from torch.multiprocessing.spawn import ProcessRaisedException

from deepnmt.errors import os_message

WORD = re.compile("[A-Za-z]{3}")
RAISE = dis.opmap["RAISE_VARARGS"]
# Torch's messages about memory and GPUs, without a type of their own.
OUT_OF_MEMORY = re.compile("out of memory|can't allocate memory", re.IGNORECASE)
NO_GPU = re.compile("Torch not compiled with CUDA enabled|Found no NVIDIA driver|No CUDA GPUs are available")
# Hydra's message where another option would have given a default, but has no value itself.
NO_VALUE = re.compile(r"Error merging override \w+\.(\w+)=null\b")
# A process that fairseq started for a GPU shows its error to the one that started it as text.
USER_ERROR = re.compile(r"^deepnmt\.errors\.UserError: (.*?)\s*(?:\n\n|\Z)", re.MULTILINE | re.DOTALL)


def refusal(error: BaseException, trace: TracebackType | None) -> str | None:
    """Return the lines to show in place of the traceback; None for a defect, which needs it."""
    text = " ".join(str(error).split())
    if isinstance(error, ProcessRaisedException):
        found = USER_ERROR.search(str(error))
        return found[1] if found else None
    if isinstance(error, SyntaxError) and error.filename == "<unknown>":
        # Of a text that fairseq reads as a Python literal, which some of its options are.
        return f"the value of an option must be a literal such as {{'lr': 0.1}}, but is {error.text} ({error.msg})"
    if isinstance(error, UnicodeDecodeError):
        return f"text must be UTF-8, but is not: {text}"
    if missing := NO_VALUE.match(text):
        return f"--{missing[1].replace('_', '-')} must be given, but is not"
    # Some of Hydra's are errors of files, too, of several lines.
    if isinstance(error, (OmegaConfBaseException, HydraException, ArgumentError)):
        return f"fairseq cannot put its configuration together: {next(iter(str(error).splitlines()), '')}"
    # Without a file it is one that a library has raised in words, or the system's, which say too little.
    if isinstance(error, OSError) and (error.filename or error.errno is None):
        return os_message(error)
    if isinstance(error, torch.OutOfMemoryError) or (isinstance(error, RuntimeError) and OUT_OF_MEMORY.search(text)):
        return f"the memory does not hold this: give a smaller --max-tokens, or a smaller model or beam ({text})"
    if NO_GPU.search(text):
        return f"the options must be some that the CPU can do, but ask for a GPU ({text})"
    place = stated_by_fairseq(trace)
    # `assert size >= 0, size` says nothing to a user, and is a defect.
    return f"{text} ({place})" if place and WORD.search(text) else None


def stated_by_fairseq(trace: TracebackType | None) -> str | None:
    """Return the module and line of the `raise` or `assert` in fairseq by which an error began, or None."""
    if trace is None:
        return None
    while trace.tb_next is not None:
        trace = trace.tb_next
    scope, code = trace.tb_frame.f_globals, trace.tb_frame.f_code
    # A program started by `python -m` has its name there alone.
    name = str(getattr(scope.get("__spec__"), "name", scope.get("__name__")))
    if name.partition(".")[0] not in ("fairseq", "fairseq_cli") or code.co_code[trace.tb_lasti] != RAISE:
        return None
    return f"{name}, line {trace.tb_lineno}"
