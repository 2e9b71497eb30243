"""Getting the archive: whole or not at all, going on where a download was cut, and the same one every time."""

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

TEXT = [("Ein Hund.", "A dog."), ("Zwei Hunde.", "Two dogs.")]
ADDRESS = "/data/de-en.tgz"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("archive") / "de-en.tgz"
    write_archive(path, TEXT, [TEXT] * 5)
    return path.read_bytes()


class Server(BaseHTTPRequestHandler):
    """Serves `files`; with `ranges` it goes on where it is asked to; it breaks off after `limit` bytes."""

    def __init__(self, state: dict[str, Any], *arguments: Any) -> None:
        self.state = state
        super().__init__(*arguments)

    def do_GET(self) -> None:
        state = self.state
        state["asked"].append(self.headers.get("Range"))
        body = state["files"].get(self.path)
        if body is None:
            self.send_error(404)
            return
        start, asked = 0, self.headers.get("Range")
        if asked and state["ranges"] and self.headers.get("If-Range") == state["tag"]:
            start = int(asked[len("bytes=") :].rstrip("-"))
        if asked and start >= len(body):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body) - start))
        if state["tag"]:
            self.send_header("ETag", state["tag"])
        self.end_headers()
        self.wfile.write(body[start:][: state["limit"]])

    def log_message(self, *arguments: Any) -> None:
        pass


@pytest.fixture
def server(data: bytes) -> Iterator[tuple[str, dict[str, Any]]]:
    state: dict[str, Any] = {"files": {ADDRESS: data}, "ranges": True, "tag": '"one"', "limit": None, "asked": []}
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
    assert state["asked"] == [None]
    assert {path.name for path in target.parent.iterdir()} == {"de-en.tgz", "de-en.tgz.sha256", "de-en.tgz.lock"}


@pytest.mark.parametrize("change", ["", "ranges", "tag"], ids=["goes-on", "server-without-ranges", "another-file"])
def test_download_that_was_cut(server: tuple[str, dict[str, Any]], data: bytes, tmp_path: Path, change: str) -> None:
    url, state = server
    target, part = tmp_path / "de-en.tgz", tmp_path / "de-en.tgz.part"
    state["limit"] = 100
    with pytest.raises(UserError, match=rf"tgz cannot be downloaded: .*: ended after 100 of {len(data)} bytes; run"):
        fetch.fetch(target, [url])
    assert not target.exists()
    assert part.read_bytes() == data[:100]
    state["limit"] = None
    # What was kept must not be read again, but for a server that cannot go on or has another file.
    part.write_bytes(bytes(100))
    state.update({"ranges": {"ranges": False}, "tag": {"tag": '"two"'}}.get(change, {}))
    if change:
        fetch.fetch(target, [url])
        assert target.read_bytes() == data
    else:
        with pytest.raises(UserError, match="is damaged"):
            fetch.fetch(target, [url])
        assert not part.exists()
    assert state["asked"] == [None, "bytes=100-"]


def test_download_that_was_killed_at_its_end(server: tuple[str, dict[str, Any]], data: bytes, tmp_path: Path) -> None:
    url, state = server
    target, part = tmp_path / "de-en.tgz", tmp_path / "de-en.tgz.part"
    part.write_bytes(data)
    part.with_name("de-en.tgz.part.from").write_text(f'["{url}", "\\"one\\""]', encoding="utf-8")
    fetch.fetch(target, [url])
    assert target.read_bytes() == data
    assert state["asked"] == [f"bytes={len(data)}-", None]


def test_server_that_names_no_version(server: tuple[str, dict[str, Any]], data: bytes, tmp_path: Path) -> None:
    url, state = server
    state.update(limit=100, tag="")
    with pytest.raises(UserError, match="ended after 100"):
        fetch.fetch(tmp_path / "de-en.tgz", [url])
    state["limit"] = None
    fetch.fetch(tmp_path / "de-en.tgz", [url])
    assert state["asked"] == [None, None]
    assert (tmp_path / "de-en.tgz").read_bytes() == data


def test_second_address(server: tuple[str, dict[str, Any]], data: bytes, tmp_path: Path) -> None:
    url, _ = server
    fetch.fetch(tmp_path / "de-en.tgz", [url + "x", url])
    assert (tmp_path / "de-en.tgz").read_bytes() == data
    with pytest.raises(UserError, match=r"cannot be downloaded: .*x: .*404.*; .*y: .*404.*; run .* --archive FILE"):
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
