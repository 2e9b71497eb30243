"""Examples that are run with stand-ins for the scripts that train and translate."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from support.models import ROOT
from support.processes import finish

# What each does first: it notes its command line.
NOTE = '#!/usr/bin/env bash\nset -euo pipefail\necho "$(basename "$0") $*" >>"$CALLS"\n'


def copy_of_example(root: Path, stand_ins: Mapping[str, str]) -> Path:
    """Copy the example with Multi30k beside scripts that do what is given, in Bash; its text is taken to be there."""
    for folder in ("examples/multi30k", "configs"):
        shutil.copytree(ROOT / folder, root / folder)
    (root / "scripts").mkdir()
    for name in ("scripts/common.sh", "examples/options.sh"):
        shutil.copyfile(ROOT / name, root / name)
    (root / "deepnmt").symlink_to(ROOT / "deepnmt")
    for name, work in stand_ins.items():
        path = root / "scripts" / name
        path.write_text(f"{NOTE}{work}\n", encoding="utf-8")
        path.chmod(0o755)
    (root / "examples" / "multi30k" / "fetch.py").write_text("", encoding="utf-8")
    return root


def copy_beside(root: Path, folders: Sequence[str], works: Mapping[str, str]) -> Path:
    """Copy folders, and what all examples source, beside stand-ins: the work in Bash of each file, as `bin/python3`."""
    for folder in folders:
        shutil.copytree(ROOT / folder, root / folder)
    for name in ("scripts/common.sh", "examples/options.sh"):
        (root / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(ROOT / name, root / name)
    for name, work in works.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{NOTE}{work}", encoding="utf-8")
        path.chmod(0o755)
    return root


def run_beside(root: Path, script: str, *words: str) -> tuple[int, list[str], str]:
    """Return the exit status of a script in ROOT, the calls of stand-ins without ROOT, and standard error."""
    environment = {"DEEPNMT_PYTHON_BIN": str(root / "bin")}
    done = _finish(root, script, words, environment)
    return done.returncode, _calls(root), done.stderr


def run(root: Path, script: str, *arguments: str, **environment: str) -> tuple[list[str], str]:
    """Return the calls of the stand-ins, without the folder of everything, and what the example prints."""
    done = _finish(root, f"examples/multi30k/{script}", arguments, environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return _calls(root), done.stdout


def refused(root: Path, script: str, *arguments: str, **environment: str) -> tuple[list[str], str]:
    """Return the calls before an example ends with a line of error, and the line, without the folder of everything."""
    done = _finish(root, f"examples/multi30k/{script}", arguments, environment)
    assert done.returncode == 2, done.stderr[-3000:]
    assert "Traceback" not in done.stderr
    (line,) = (line for line in done.stderr.splitlines() if ": error: " in line)
    return _calls(root), line.removeprefix(f"{script}: error: ").replace(f"{root}/", "")


def _finish(
    root: Path, script: str, arguments: Sequence[str], environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    calls = root / "calls"
    calls.write_text("")
    environment = {
        **os.environ,
        "OUT": str(root / "out"),
        "CALLS": str(calls),
        "DEEPNMT_PYTHON_BIN": str(ROOT / ".venv/bin"),
        **environment,
    }
    return finish([str(root / script), *arguments], env=environment)


def _calls(root: Path) -> list[str]:
    return (root / "calls").read_text("utf-8").replace(f"{root}/", "").splitlines()
