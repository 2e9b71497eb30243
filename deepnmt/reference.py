"""The switch that turns all fast paths off: DEEPNMT_REFERENCE=1, or --reference-kernels.

fairseq's and torch's own arithmetic, or a kernel's reference, then replaces every fast path: a fault that persists does
not come from a fast path.
"""

from __future__ import annotations

import argparse
import os
from typing import Any

# An environment variable, so that started processes inherit it.
REFERENCE = "DEEPNMT_REFERENCE"
OPTION = "--reference-kernels"


def reference_wanted() -> bool:
    """Return whether all fast paths are turned off."""
    return os.environ.get(REFERENCE, "") not in ("", "0")


def add_reference_option(parser: Any) -> None:
    """Give a parser, or a group of its options, --reference-kernels."""
    text = f"fast paths off: fairseq's search, and the plain formula of each kernel; as {REFERENCE}=1"
    parser.add_argument(OPTION, action=_TurnOff, help=text)


class _TurnOff(argparse.Action):
    def __init__(self, option_strings: list[str], dest: str, help: str) -> None:
        # Not an attribute of the parsed options: fairseq would write it into checkpoints.
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, default=argparse.SUPPRESS, help=help)

    def __call__(self, *_: Any) -> None:
        os.environ[REFERENCE] = "1"
