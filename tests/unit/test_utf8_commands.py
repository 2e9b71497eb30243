"""Commands read and write UTF-8 in any locale."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.flow import SCRIPTS

from deepnmt.text.lines import read_lines

ROOT = SCRIPTS.parent
LOCALES = {
    "C": {"LC_ALL": "C", "PYTHONUTF8": "0"},
    "gbk": {"PYTHONIOENCODING": "gbk"},
    "latin-1": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "latin-1"},
    "ascii": {"PYTHONIOENCODING": "ascii:strict", "LANG": "de_DE.ISO-8859-1"},
}
# Text beyond each of these encodings.
TEXT = "Größe 中文 ı"
COMMAND = """
import subprocess, sys
from deepnmt import console
from deepnmt.errors import UserError

def main():
    print(sys.argv[1], flush=True)
    print(open(sys.argv[1]).read(), flush=True)
    subprocess.run([sys.executable, "-c", "import sys; print(sys.argv[1])", sys.argv[1]])
    raise UserError(sys.argv[1])

console.run(main, "name")
"""


def hostile(name: str) -> dict[str, str]:
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("LC_", "PYTHON", "LANG"))}
    return {**inherited, "PYTHONPATH": str(ROOT), **LOCALES[name]}


@pytest.mark.parametrize("name", LOCALES)
def test_a_command_writes_utf8_and_so_do_its_children(tmp_path: Path, name: str) -> None:
    (tmp_path / TEXT).write_text(f"{TEXT}!", "utf-8")
    command = [sys.executable, "-c", COMMAND, TEXT]
    result = subprocess.run(command, env=hostile(name), cwd=tmp_path, capture_output=True, check=False)
    assert result.stderr.decode() == f"name: error: {TEXT}\n"
    assert result.stdout.decode().split("\n") == [TEXT, f"{TEXT}!", TEXT, ""]
    assert result.returncode == 2


@pytest.mark.parametrize("name", ["C", "gbk"])
def test_a_script_and_what_it_runs_write_utf8(tmp_path: Path, name: str) -> None:
    folder = tmp_path / TEXT
    folder.mkdir()
    (folder / "text").write_text(f"Der {TEXT} der Ähre .\n", "utf-8")
    command = [SCRIPTS / "truecase.sh", "learn", folder / "text", folder / "model", "--lang", "de"]
    result = subprocess.run(list(map(str, command)), env=hostile(name), capture_output=True, check=False)
    assert result.returncode == 0, result.stderr
    assert f"words in {folder}/model" in result.stderr.decode()
    assert "Ähre (1/1)" in (folder / "model").read_text("utf-8").splitlines()


def test_scripts_have_their_python_write_utf8() -> None:
    environment = {**hostile("latin-1"), "PYTHONIOENCODING": "gbk"}
    command = ["bash", "-c", 'source "$1"; python3 -c \'print("中ßı")\'', "x", SCRIPTS / "common.sh"]
    assert subprocess.run(command, env=environment, capture_output=True, check=True).stdout.decode() == "中ßı\n"


def test_every_program_runs_in_utf8() -> None:
    programs = [
        path
        for folder in ("deepnmt", "scripts", "examples")
        for path in (ROOT / folder).rglob("*.py")
        if any("__name__ ==" in line for line in read_lines(path))
    ]
    # The demo's grammar is independent of the package, and COMET has an environment of its own.
    without = {
        path.name
        for path in programs
        if not any("run(" in line or "become_fairseq_train(main)" in line for line in read_lines(path))
    }
    assert without == {"generate.py", "comet_process.py"}
    assert len(programs) > 15
