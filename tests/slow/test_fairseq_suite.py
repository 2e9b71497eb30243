"""fairseq's own tests: none that passes without the plug-in fails with it.

DEEPNMT_FAIRSEQ_CHECKOUT names a checkout of fairseq; docs/plugin.md has what still fails, and why.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from support import fairseq_suite

CHECKOUT = os.environ.get("DEEPNMT_FAIRSEQ_CHECKOUT", "")
# Needs a GPU, or sound.
LEFT_OUT = ("gpu", "speech", "speech_recognition")


def passed(folder: Path, plugin: str) -> set[str]:
    """Names of the tests that pass."""
    report = folder / f"report{plugin}.xml"
    places = os.pathsep.join([str(folder), str(Path(fairseq_suite.__file__).parent)])
    subprocess.run(
        [sys.executable, "-m", "pytest", "tests", "-q", "-p", "fairseq_suite", "-p", "no:cacheprovider", "-n0",
         "--continue-on-collection-errors", "--timeout=600", f"--junitxml={report}"],
        cwd=folder, env={**os.environ, "PYTHONPATH": places, "PLUGIN": plugin}, capture_output=True,
    )  # fmt: skip
    cases = ElementTree.parse(report).getroot().iter("testcase")
    return {f"{case.get('classname')}.{case.get('name')}" for case in cases if not len(case)}


@pytest.mark.slow
@pytest.mark.timeout(14400)
@pytest.mark.skipif(not CHECKOUT, reason="DEEPNMT_FAIRSEQ_CHECKOUT names no checkout of fairseq")
def test_what_passes_without_the_plug_in_passes_with_it(tmp_path: Path) -> None:
    # Beside a copy of its tests, the package of the checkout would hide the one that is installed.
    for name in ("tests", "examples"):
        shutil.copytree(Path(CHECKOUT, name), tmp_path / name, symlinks=True)  # some of its links lead nowhere
    for name in LEFT_OUT:
        shutil.rmtree(tmp_path / "tests" / name, ignore_errors=True)
    stock, plugin = passed(tmp_path, ""), passed(tmp_path, "1")
    assert len(stock) > 100
    assert sorted(stock - plugin) == []
