"""COMET (Rei 2020, arXiv 2009.09025) of translations, computed by a Python of another environment.

unbabel-comet needs older libraries than this package.
"""

import inspect
import json
import math
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from deepnmt.errors import UserError
from deepnmt.text import comet_process
from deepnmt.text.record import read_record, sha256

# Of a checksum: enough to tell models apart.
SHOWN = 12


def comet_score(
    model: Path, python: str, sources: Sequence[str], hypotheses: Sequence[str], references: Sequence[str]
) -> dict[str, Any]:
    """Return COMET's score of a corpus times 100, with a signature.

    Args:
        model: checkpoint of COMET's
        python: interpreter of an environment with unbabel-comet
        sources, hypotheses, references: raw text, as many of each

    Raises:
        UserError: the interpreter or the model is missing, or COMET fails
    """
    interpreter = find_python(model, python)
    samples = [{"src": src, "mt": mt, "ref": ref} for src, mt, ref in zip(sources, hypotheses, references, strict=True)]
    with tempfile.TemporaryDirectory() as folder:
        texts, result = Path(folder) / "texts.json", Path(folder) / "result.json"
        texts.write_text(json.dumps(samples, ensure_ascii=False), encoding="utf-8")
        # Neither modules beside the script nor packages of this environment are that environment's.
        script = [os.path.abspath(interpreter), "-c", inspect.getsource(comet_process)]
        environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
        done = subprocess.run(
            [*script, str(model.resolve()), str(texts), str(result)],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
        if done.returncode or not result.is_file():
            raise UserError(f"--comet {model}: {_reason(done.stderr, python)}")
        found = read_record(result, score=float, version=str)
    if not math.isfinite(found["score"]):
        raise UserError(f"--comet {model}: COMET's score must be a finite number, but is {found['score']}")
    signature = f"comet:{found['version']}|model:{model.name}|sha256:{sha256(model)[:SHOWN]}|scale:100"
    return {"score": round(100 * found["score"], 2), "signature": signature}


def find_python(model: Path, python: str) -> str:
    """Return the path of an interpreter. Raises `UserError` if it or the model is missing."""
    if (interpreter := shutil.which(python)) is None:
        raise UserError(f"--comet-python: {python} not found")
    if not model.is_file():
        raise UserError(f"--comet: {model} not found")
    return interpreter


def _reason(report: str, python: str) -> str:
    """Return the reason in the last line of a traceback."""
    last = next((line.strip() for line in reversed(report.splitlines()) if line.strip()), "no message")
    if "No module named 'comet'" in last:
        return f"{python} needs unbabel-comet; install it with pip in that environment"
    return f"COMET failed: {last[:300]}"
