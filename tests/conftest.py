"""All tests run with the package registered, whatever each of them imports and in whichever order."""

import gc
import logging
import os
import signal
import sys
from collections.abc import Iterator
from types import SimpleNamespace

# Compiling the package takes as long as importing fairseq, and hundreds of processes would do it anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A shell starts what runs in the background without Ctrl-C, and so would be all programs that tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)
# nohup starts everything without the end of the terminal.
signal.signal(signal.SIGHUP, signal.SIG_DFL)

import fairseq_cli.train  # noqa: E402, F401  before the package, as in fairseq-train, so that its functions are patched
import pytest  # noqa: E402
import torch  # noqa: E402
from support.hydra_store import share_configurations  # noqa: E402

import deepnmt  # noqa: E402

deepnmt.register()
share_configurations()
# Each seed is kept for devices that may come, with all lines of the stack.
for devices in (torch.cuda, torch.xpu, torch.mtia):
    devices.traceback = SimpleNamespace(format_stack=list)  # type: ignore[attr-defined]


def pytest_collection_finish() -> None:
    """Keep the garbage collector from walking through all that is imported, a third of a second each time."""
    gc.collect()
    gc.freeze()


LOGGERS = [logging.getLogger(name) for name in (None, "deepnmt", "fairseq")]
LEVELS = [logger.level for logger in LOGGERS]


@pytest.fixture(autouse=True)
def levels_of_logging() -> Iterator[None]:
    """Restore what each logger lets through, and where: commands that a test runs in its own process change both."""
    # Fixtures of a module run commands, too.
    for logger, level in zip(LOGGERS, LEVELS):
        logger.setLevel(level)
    handlers = [list(logger.handlers) for logger in LOGGERS]
    yield
    for logger, level, before in zip(LOGGERS, LEVELS, handlers):
        logger.setLevel(level)
        # One that writes to the captured output of the test would fail in the next.
        logger.handlers[:] = before
