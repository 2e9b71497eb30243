"""What is built beside its place is whole or not at all; remains of killed processes go, those of living ones never."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.flow import SCRIPTS
from support.models import ROOT
from support.processes import started

from deepnmt.beside import building, remove_remains, whole_folder
from deepnmt.errors import UserError

# Begins to build the folder that is its argument, says so, and waits.
BUILDER = """
import os, pathlib, sys, time
from deepnmt.beside import whole_folder
with whole_folder(pathlib.Path(sys.argv[1])) as folder:
    (folder / "half").touch()
    print(os.getpid(), flush=True)
    time.sleep(600)
"""


def names(folder: Path) -> list[str]:
    return sorted(re.sub(r"\d+", "N", path.name) for path in folder.iterdir())


@pytest.fixture(params=["absolute", "relative"])
def link(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A link to a folder that has `before`."""
    big, place = tmp_path / "disk" / "big", tmp_path / "here" / "out"
    for folder in (big, place.parent):
        folder.mkdir(parents=True)
    (big / "before").touch()
    place.symlink_to("../disk/big" if request.param == "relative" else big)
    return place


@pytest.mark.parametrize("place", [".", "./", "inner/.."])
def test_the_folder_where_one_is_can_be_replaced(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = tmp_path / "here"
    (here / "inner").mkdir(parents=True)
    monkeypatch.chdir(here)
    with whole_folder(Path(".")) as folder:
        (folder / "newer").touch()
    assert (names(tmp_path), names(here)) == (["here"], ["newer"])


def test_a_command_builds_where_a_link_leads_to(link: Path, tmp_path: Path) -> None:
    here, disk, to = link.parent, tmp_path / "disk", os.readlink(link)
    for new in ("first", "second"):
        with whole_folder(link, kept="before") as folder:
            assert folder.parent == disk
            (folder / new).touch()
        assert (names(here), names(disk), names(disk / "big")) == (["out"], ["big"], ["before", new])
        assert os.readlink(link) == to
        if new == "first":
            # Killed between two renamings.
            (disk / "big").rename(disk / "big.old.7")
            (disk / "big.tmp.7.lock").touch()
    shutil.rmtree(disk / "big")
    with pytest.raises(UserError, match=r"out: must be a new folder .*, but is a broken link"):
        whole_folder(link).__enter__()
    assert (names(here), names(disk)) == (["out"], [])


def test_killed_processes_leave_nothing_in_the_end(tmp_path: Path) -> None:
    (tmp_path / "builder").write_text(BUILDER)
    place = tmp_path / "place"
    place.mkdir()
    left = ["out.tmp.N", "out.tmp.N.lock"]
    with started([sys.executable, tmp_path / "builder", place / "out"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with building(place / "out"):
            assert names(place) == [*left, "out.tmp.N.lock"]
        assert names(place) == left
        process.kill()
        process.wait()
    assert names(place) == left
    with whole_folder(place / "out") as folder:
        (folder / "all").touch()
    assert names(place) == ["out"]


def test_what_was_there_before_comes_back(tmp_path: Path) -> None:
    """From a process that was killed between the two renamings."""
    path = tmp_path / "out"
    for each in ("out.tmp.7", "out.old.7"):
        (tmp_path / each).mkdir()
    (tmp_path / "out.old.7" / "before").touch()
    (tmp_path / "out.tmp.7.lock").touch()
    remove_remains(path)
    assert names(tmp_path) == ["out"]
    assert names(path) == ["before"]
    # And after both.
    (tmp_path / "out.old.7").mkdir()
    (tmp_path / "out.tmp.7.lock").touch()
    remove_remains(path)
    assert names(tmp_path) == ["out"]
    assert names(path) == ["before"]


def test_nothing_else_is_removed(tmp_path: Path) -> None:
    others = ["out.tmp.8", "out.old.8", "xout.tmp.8", "xout.tmp.8.lock", "out.tmp.x.lock", "out"]
    for name in others:
        (tmp_path / name).touch()
    with building(tmp_path / "out") as temporary:
        temporary.touch()
        assert temporary.name == f"out.tmp.{os.getpid()}"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(others)
    remove_remains(tmp_path / "none" / "out")


def test_a_folder_that_hands_something_on(tmp_path: Path) -> None:
    path = tmp_path / "out"
    for text in ("first", "second"):
        with whole_folder(path, kept="scores") as folder:
            assert not list(folder.iterdir())
            (folder / text).touch()
        if text == "first":
            (path / "scores").mkdir()
            (path / "scores" / "1").touch()
    assert names(path) == ["scores", "second"]
    assert (path / "scores" / "1").exists()
    with pytest.raises(ValueError, match="no value"), whole_folder(path, kept="scores") as folder:  # noqa: PT012
        (folder / "third").touch()
        raise ValueError("no value")
    assert names(path) == ["scores", "second"]
    assert names(tmp_path) == ["out"]


def test_all_that_is_built_is_built_so() -> None:
    """Names beside a path are made in one place alone."""
    made = re.compile(r"""\.(tmp|old)\.[$"{]""")
    sources = [path for folder in ("deepnmt", "scripts", "examples") for path in (ROOT / folder).rglob("*.*")]
    found = {path.name for path in sources if path.suffix in (".py", ".sh") and made.search(path.read_text("utf-8"))}
    assert found == {"beside.py"}


REFUSED = {
    "align": ("text", "out", "--source-lang", "de", "--target-lang", "en"),
    "clean": ("--input", "text", "--output", "out", "--source-lang", "de", "--target-lang", "en", "--length", "1:9"),
    "ngram": ("score", "model.arpa", "text.de", "out"),
}


ARPA = "\\data\\\nngram 1=2\n\n\\1-grams:\n-1\t<unk>\n-1\t</s>\n\n\\end\\\n"


@pytest.mark.parametrize("script", REFUSED)
def test_a_refused_text_leaves_no_begun_work(script: str, tmp_path: Path) -> None:
    (tmp_path / "model.arpa").write_text(ARPA)
    (tmp_path / "text.de").write_bytes(b"a\n\xff\n")
    (tmp_path / "text.en").write_bytes(b"b\nc\n")
    before = names(tmp_path)
    command = [SCRIPTS / f"{script}.sh", *REFUSED[script], "--workers", "1"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 2
    assert f"{script}.sh: error: text.de:2: invalid UTF-8 (byte 0xff at position 1 of the line)\n" in result.stderr
    assert names(tmp_path) == before
