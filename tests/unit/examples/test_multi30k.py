"""Getting Multi30k: from a folder or over HTTP, never with a file that is not the right one."""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType

import pytest
from support.models import ROOT

from deepnmt.errors import UserError

EXAMPLE = ROOT / "examples" / "multi30k"
TEXT = {"train.en": b"a dog\n", "train.lc.norm.tok.en": b"a dog .\n"}


@pytest.fixture
def fetch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("fetch", EXAMPLE / "fetch.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sums = tmp_path / "SHA256SUMS"
    sums.write_text("".join(f"{hashlib.sha256(text).hexdigest()}  {name}\n" for name, text in TEXT.items()))
    monkeypatch.setattr(module, "CHECKSUMS", sums)
    monkeypatch.delenv("MULTI30K_DIR", raising=False)
    return module


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """The layout of the public repository: raw text compressed, tokenised text not."""
    root = tmp_path / "server"
    for folder in ("raw", "tok"):
        (root / folder).mkdir(parents=True)
    (root / "raw" / "train.en.gz").write_bytes(gzip.compress(TEXT["train.en"]))
    (root / "tok" / "train.lc.norm.tok.en").write_bytes(TEXT["train.lc.norm.tok.en"])
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(root))) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{http.server_port}"
        http.shutdown()


def call(fetch: ModuleType, monkeypatch: pytest.MonkeyPatch, *arguments: object) -> None:
    monkeypatch.setattr(sys, "argv", ["fetch.py", *map(str, arguments)])
    fetch.main()


def test_download(fetch: ModuleType, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    call(fetch, monkeypatch, tmp_path / "out", "--url", server)
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == TEXT


def test_damaged_or_missing_download(
    fetch: ModuleType, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = tmp_path / "server" / "raw" / "train.en.gz"
    raw.write_bytes(raw.read_bytes()[:-6])
    with pytest.raises(UserError, match=r"raw/train\.en\.gz is damaged: .*; get it again"):
        call(fetch, monkeypatch, tmp_path / "out", "--url", server)
    raw.write_bytes(gzip.compress(b"another dog\n"))
    with pytest.raises(UserError, match=r"train\.en must have SHA-256 \w{64}, but has \w{64}; get it again"):
        call(fetch, monkeypatch, tmp_path / "out", "--url", server)
    raw.unlink()
    with pytest.raises(UserError, match=r"cannot be fetched: .*404.*MULTI30K_DIR name a folder"):
        call(fetch, monkeypatch, tmp_path / "out", "--url", server)
    assert not list((tmp_path / "out").iterdir())


def test_folder(fetch: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "train.en").write_bytes(TEXT["train.en"])
    monkeypatch.setenv("MULTI30K_DIR", str(folder))
    with pytest.raises(UserError, match=r"must hold train\.lc\.norm\.tok\.en\.gz or train\.lc\.norm\.tok\.en"):
        call(fetch, monkeypatch, tmp_path / "out")
    (folder / "train.lc.norm.tok.en.gz").write_bytes(gzip.compress(TEXT["train.lc.norm.tok.en"]))
    call(fetch, monkeypatch, tmp_path / "out")
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == TEXT
    monkeypatch.setenv("MULTI30K_DIR", str(tmp_path / "none"))
    with pytest.raises(UserError, match="MULTI30K_DIR must be a folder, but there is no"):
        call(fetch, monkeypatch, tmp_path / "out")


def test_the_real_checksums_name_every_file() -> None:
    names = {line.split()[1] for line in (EXAMPLE / "SHA256SUMS").read_text("utf-8").splitlines()}
    splits, languages = ("train", "val", "test_2016_flickr"), ("en", "de")
    assert names == {f"{split}{kind}.{lang}" for split in splits for kind in ("", ".lc.norm.tok") for lang in languages}


@pytest.mark.parametrize("script", ["examples/multi30k/best.sh", "examples/demo/run.sh", "scripts/setup.sh"])
def test_help(script: str) -> None:
    done = subprocess.run([str(ROOT / script), "--help"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"usage: {Path(script).name}")


def test_help_after_other_words_starts_nothing(tmp_path: Path) -> None:
    environment = {**os.environ, "OUT": str(tmp_path / "out"), "MULTI30K_DIR": str(tmp_path / "none")}
    for more in (["--stage", "data"], ["--lr", "0.1"]):
        for asked in ("-h", "--help"):
            command = [str(EXAMPLE / "best.sh"), *more, asked]
            done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
            assert done.stdout.startswith("usage: best.sh")
    assert not (tmp_path / "out").exists()


def copy_of_setup(folder: Path) -> list[str]:
    """Copy what sets up into a folder with a requirement that does not exist, and return its command."""
    scripts = folder / "scripts"
    scripts.mkdir()
    for name in ("setup.sh", "common.sh"):
        (scripts / name).write_bytes((ROOT / "scripts" / name).read_bytes())
    (folder / "requirements.txt").write_text(f"{folder}/nowhere\n")
    return ["bash", str(scripts / "setup.sh")]


@pytest.mark.slow
def test_setup_goes_on_where_it_was_stopped_within_venv(tmp_path: Path) -> None:
    command = copy_of_setup(tmp_path)
    made = tmp_path / ".venv" / "bin"
    made.mkdir(parents=True)
    # venv makes python first, and pip last.
    (made / "python").symlink_to(sys.executable)
    environment = {"PATH": "/usr/bin:/bin", "PYTHON": sys.executable}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert f" -m venv {tmp_path}/.venv\n" in done.stderr
    assert (made / "pip").is_file()


def test_setup_names_what_the_machine_lacks(tmp_path: Path) -> None:
    command = copy_of_setup(tmp_path)
    environment = {"PATH": "/usr/bin:/bin", "PYTHON": "no-such-python"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 2
    assert "setup.sh: error: this machine lacks Python 3.11 (Debian: apt-get install python3" in done.stderr
    assert not (tmp_path / ".venv").exists()
