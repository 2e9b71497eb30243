"""`deepnmt`: its subcommands, quick help, and what it says of itself."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.metadata import version

import pytest

import deepnmt
from deepnmt import cli
from deepnmt.errors import UserError

# Slow imports of one --help, as JSON on standard error.
HELP = """
import json, sys
from deepnmt.cli import main
try:
    main(sys.argv[1:])
except SystemExit as end:
    assert end.code in (0, None)
print(json.dumps(sorted({"torch", "fairseq", "numpy"} & set(sys.modules))), file=sys.stderr)
"""


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "deepnmt", *words]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=100, check=False, env={**os.environ, **environment}
    )


def test_help_lists_each_subcommand() -> None:
    done = run("--help")
    assert done.returncode == 0
    for name, each in cli.SUBCOMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(each.summary)}$", done.stdout, re.MULTILINE)
    assert run().stdout == done.stdout


@pytest.mark.parametrize(
    "name", [name for name, each in cli.SUBCOMMANDS.items() if each.module.startswith("deepnmt.cli.")]
)
def test_help_needs_neither_torch_nor_numpy(name: str) -> None:
    command = [sys.executable, "-c", HELP, name, "--help"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)
    assert done.stdout.startswith(f"usage: deepnmt {name} ")
    assert json.loads(done.stderr) == []


def test_version_says_what_a_report_needs() -> None:
    lines = run("--version").stdout.splitlines()
    assert lines[0] == f"deepnmt {deepnmt.__version__}"
    assert re.fullmatch(r"(fairseq-fixed|ve-fairseq|fairseq) \d[\w.]*", lines[1])
    assert lines[2] == f"torch {version('torch')}"
    assert lines[3].startswith(f"Python {sys.version.split()[0]}, ")
    assert lines[4]


def test_an_unknown_subcommand_is_one_line() -> None:
    done = run("trian")
    assert (done.returncode, done.stderr) == (
        2, "deepnmt: error: unknown subcommand 'trian' (see deepnmt --help)\n",
    )  # fmt: skip


def test_faults_name_the_program_or_the_script() -> None:
    assert run("align", "data").stderr.startswith("deepnmt align: error: the following arguments are required: OUT")
    assert run("align", "data", DEEPNMT_SCRIPT="align.sh").stderr.startswith("align.sh: error: ")


def test_called_from_python_a_fault_is_an_exception() -> None:
    with pytest.raises(UserError, match=r"^--workers must be a whole number from 1 to 1024, but is '0'$"):
        cli.call("align", ["data", "out", "--workers", "0"])


def test_an_old_name_warns_and_works(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    called: list[list[str]] = []
    monkeypatch.setattr(cli, "call", lambda name, words: called.append([name, *words]))
    monkeypatch.setattr(sys, "argv", ["/bin/deepnmt-align", "data", "out"])
    cli.renamed()
    assert called == [["align", "data", "out"]]
    assert capsys.readouterr().err == (
        "deepnmt-align: warning: is now 'deepnmt align'; the old name goes with version 1.0\n"
    )
