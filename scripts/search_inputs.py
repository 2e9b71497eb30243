"""What identifies the files that searches read: they may be made anew under the names that they had."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from deepnmt.text.data_identity import identity_of_data
from deepnmt.text.record import size_and_time

CONTENTS = "contents of "


def contents(data: Path, options: Sequence[str]) -> dict[str, str]:
    """Return what identifies the contents of a data folder and of all files that options name, such as --lm-path."""
    found = {"DATA": identity_of_data(data)}
    # Both `--terms FILE` and `--terms=FILE`.
    values = (word.partition("=")[2] if word.startswith("--") else word for word in options)
    found |= {value: size_and_time(Path(value)) for value in values if value and os.path.isfile(value)}
    return {f"{CONTENTS}{name}": identity for name, identity in found.items()}


def changed(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return the names of settings that are not as they were; earlier versions have not noted contents."""
    return [
        name for name, value in now.items() if before.get(name, value if name.startswith(CONTENTS) else None) != value
    ]
