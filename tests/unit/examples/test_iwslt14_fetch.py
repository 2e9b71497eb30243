"""Getting the archive: whole or not at all, and the same one every time."""

from __future__ import annotations

import gzip
import hashlib
import io
import sys
import tarfile
import threading
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from study import archive, fetch
from study.small_archive import write_archive

from deepnmt.errors import UserError
from examples.download import download

TEXT = [("Ein Hund.", "A dog."), ("Zwei Hunde.", "Two dogs.")]
ADDRESS = "/data/de-en.tgz"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("archive") / "de-en.tgz"
    write_archive(path, TEXT, [TEXT] * 5)
    return path.read_bytes()


class Server(BaseHTTPRequestHandler):
    """Serves `files`, and breaks off after `limit` bytes."""

    def __init__(self, state: dict[str, Any], *arguments: Any) -> None:
        self.state = state
        super().__init__(*arguments)

    def do_GET(self) -> None:
        self.state["asked"] += 1
        body = self.state["files"].get(self.path)
        if body is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: self.state["limit"]])

    def log_message(self, *arguments: Any) -> None:
        pass


@pytest.fixture
def server(data: bytes) -> Iterator[tuple[str, dict[str, Any]]]:
    state: dict[str, Any] = {"files": {ADDRESS: data}, "limit": None, "asked": 0}
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Server, state)) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{http.server_port}{ADDRESS}", state
        http.shutdown()


def test_download_and_its_checksum(server: tuple[str, dict[str, Any]], data: bytes, tmp_path: Path) -> None:
    url, state = server
    target = tmp_path / "new" / "de-en.tgz"
    fetch.fetch(target, [url])
    assert target.read_bytes() == data
    record = target.with_name("de-en.tgz.sha256")
    assert record.read_text("utf-8") == f"{hashlib.sha256(data).hexdigest()}  de-en.tgz\n"
    fetch.fetch(target, [url])
    assert state["asked"] == 1
    assert {path.name for path in target.parent.iterdir()} == {"de-en.tgz", "de-en.tgz.sha256", "de-en.tgz.lock"}


def test_download_that_was_cut_leaves_nothing_and_starts_anew(
    server: tuple[str, dict[str, Any]], data: bytes, tmp_path: Path
) -> None:
    url, state = server
    target = tmp_path / "de-en.tgz"
    state["limit"] = 100
    with pytest.raises(UserError, match=rf"tgz cannot be fetched: ended after 100 of {len(data)} bytes; run the same"):
        fetch.fetch(target, [url])
    assert [path.name for path in tmp_path.iterdir()] == ["de-en.tgz.lock"]
    state["limit"] = None
    fetch.fetch(target, [url])
    assert target.read_bytes() == data


def test_addresses_that_are_none() -> None:
    for address in ("nowhere", "http://127.0.0.1:1/x", "file:///nowhere"):
        with pytest.raises(UserError, match=f"{address} cannot be fetched: "):
            download(address)


def test_second_address(server: tuple[str, dict[str, Any]], data: bytes, tmp_path: Path) -> None:
    url, _ = server
    fetch.fetch(tmp_path / "de-en.tgz", [url + "x", url])
    assert (tmp_path / "de-en.tgz").read_bytes() == data
    with pytest.raises(UserError, match=r"x cannot .*404.*; .*y cannot be fetched: .*404.*; run .* --archive FILE"):
        fetch.fetch(tmp_path / "other.tgz", [url + "x", url + "y"])


def test_damaged_download_is_removed(server: tuple[str, dict[str, Any]], data: bytes, tmp_path: Path) -> None:
    url, state = server
    target = tmp_path / "de-en.tgz"
    state["files"][ADDRESS] = data[:-20]
    with pytest.raises(UserError, match=r"de-en\.tgz is damaged: .*; it has been removed, and the same command"):
        fetch.fetch(target, [url])
    assert not target.exists()
    assert not (tmp_path / "de-en.tgz.sha256").exists()


def test_another_archive_than_the_first_time(server: tuple[str, dict[str, Any]], data: bytes, tmp_path: Path) -> None:
    url, _ = server
    target = tmp_path / "de-en.tgz"
    (tmp_path / "de-en.tgz.sha256").write_text(f"{'0' * 64}  de-en.tgz\n", encoding="utf-8")
    with pytest.raises(UserError, match=rf"must have SHA-256 {'0' * 64}, but has .* \(the first download's, in"):
        fetch.fetch(target, [url])
    assert not target.exists()
    # What the user says goes before what was written down.
    fetch.fetch(target, [url], hashlib.sha256(data).hexdigest().upper())
    with pytest.raises(UserError, match=f"must have SHA-256 {'1' * 64}, but has [0-9a-f]+; it"):
        fetch.fetch(target, [url], "1" * 64)


def test_command_line(
    server: tuple[str, dict[str, Any]], data: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, _ = server
    digest = hashlib.sha256(data).hexdigest()
    monkeypatch.setattr(sys, "argv", ["fetch.py", str(tmp_path / "a.tgz"), "--url", url, "--sha256", digest])
    fetch.main()
    assert (tmp_path / "a.tgz").read_bytes() == data
    assert "http://dl.fbaipublicfiles.com/fairseq/data/iwslt14/de-en.tgz" in fetch.ADDRESSES


def tar_of(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def test_faulty_archives(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "de-en.tgz"
    with pytest.raises(UserError, match="no such archive"):
        archive.read_archive(path)
    faults = {
        "is damaged: Compressed file ended": data[: len(data) // 2],
        "is damaged: Not a gzipped file": b"<html>not here</html>",
        "is damaged: CRC check failed": data[:-8] + bytes([data[-8] ^ 1]) + data[-7:],
        "must be a tar archive, but is not": gzip.compress(b"text" * 1000),
        r"must hold train\.tags\.de-en\.de, .*, but lacks train\.tags\.de-en\.en, IWSLT14": tar_of(
            {"de-en/train.tags.de-en.de": b"x"}
        ),
    }
    for message, content in faults.items():
        path.write_bytes(content)
        with pytest.raises(UserError, match=message):
            archive.read_archive(path)


def test_members_are_found_in_any_folder_and_nothing_is_unpacked(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "de-en.tgz"
    path.write_bytes(data)
    members = archive.read_archive(path)
    assert set(members) == set(archive.MEMBERS)
    path.write_bytes(tar_of({f"../../{name}": content for name, content in members.items()}))
    assert archive.read_archive(path) == members
    assert [path.name for path in tmp_path.iterdir()] == ["de-en.tgz"]
