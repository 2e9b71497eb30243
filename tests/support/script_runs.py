"""Scripts that are run with small folders of translations."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


def folder_of_translations(folder: Path, texts: dict[str, list[str]], lowercase: bool = False) -> Path:
    """A folder as generate.sh makes it; `texts` by their names without the language."""
    folder.mkdir()
    for name, lines in texts.items():
        (folder / f"{name}.en").write_text("".join(f"{line}\n" for line in lines))
    (folder / "generate.json").write_text(json.dumps({"target_lang": "en", "lowercase": lowercase}))
    return folder


def run_script(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [str(SCRIPTS / script), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
