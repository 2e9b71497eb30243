"""The commands that the measurements consist of."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

from deepnmt.errors import UserError

ROOT = Path(__file__).resolve().parents[3]


def run(*words: object) -> None:
    """Run a command, which is printed. Raises `UserError` if it fails."""
    command = [str(word) for word in words]
    print("+", shlex.join(command), file=sys.stderr, flush=True)
    done = subprocess.run(command, check=False, stdout=sys.stderr)
    if done.returncode:
        raise UserError(f"{Path(command[0]).name} failed, with the error above; run the same command again to resume")
