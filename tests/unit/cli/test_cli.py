"""`deepnmt`: its subcommands, quick help, and what it says of itself."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from importlib.metadata import version

import pytest
from support.models import ROOT

import deepnmt
from deepnmt import cli
from deepnmt.errors import UserError

# Slow imports of each --help, as JSON: one process asks for all.
HELP = """
import contextlib, io, json, sys
from deepnmt.cli import SUBCOMMANDS, main
slow, found = {"torch", "fairseq", "numpy"}, {}
for name in SUBCOMMANDS:
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
        main([name, "--help"])
    found[name] = [text.getvalue().split("\\n")[0], sorted(slow & set(sys.modules))]
print(json.dumps(found))
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


def test_no_help_needs_torch_fairseq_or_numpy() -> None:
    done = subprocess.run([sys.executable, "-c", HELP], capture_output=True, text=True, timeout=100, check=True)
    found = json.loads(done.stdout)
    assert found.keys() == cli.SUBCOMMANDS.keys()
    for name, (usage, slow) in found.items():
        assert usage.startswith(f"usage: deepnmt {name} "), name
        assert slow == [], name


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


OLD = ("combine", "datastore", "export", "grow", "import", "inspect", "rerank", "shrink", "translate")


def test_old_names_are_installed() -> None:
    installed = re.findall(r'"deepnmt-([a-z]+) = ([\w.:]+)"', (ROOT / "setup.py").read_text(encoding="utf-8"))
    assert installed == [(name, "deepnmt.cli:renamed") for name in OLD]


@pytest.mark.parametrize("name", OLD)
def test_an_old_name_warns_and_works(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    warning = f"deepnmt-{name}: warning: is now 'deepnmt {name}'; the old name goes with version 1.0\n"
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(sys, "argv", [f"/bin/deepnmt-{name}", "--help"])
    with pytest.raises(SystemExit, match=r"^0$"):
        cli.renamed()
    printed = capsys.readouterr()
    assert (printed.out.startswith(f"usage: deepnmt {name} "), printed.err) == (True, warning)
    # A fault is told by the new name.
    monkeypatch.setattr(sys, "argv", [f"/bin/deepnmt-{name}", "--no-such-option"])
    with pytest.raises(SystemExit, match=r"^2$"):
        cli.renamed()
    said = capsys.readouterr().err.removeprefix(warning)
    assert re.fullmatch(rf"deepnmt {name}: error: .*\(see --help\)\n", said)
