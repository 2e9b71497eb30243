"""Real sockets: LibreTranslate's own client, half-sent requests, slow clients, and an unread answer."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.error import HTTPError

import pytest
from hostile_clients import hostile_requests
from libretranslatepy import LibreTranslateAPI
from support.served_sockets import connected, received, sockets
from support.serving import Echo, echo, run
from uvicorn.server import ServerState

from deepnmt.serving import connection, guard, server

TRANSLATE = b"POST /translate HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
HEALTH = b"GET /health HTTP/1.1\r\nhost: localhost\r\n"


@pytest.fixture
def port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr(connection, "CLIENT_SECONDS", 0.1)
    monkeypatch.setattr(guard, "CLIENT_SECONDS", 0.3)
    with sockets(echo(tmp_path)) as found:
        yield found


def test_the_client_of_libretranslate(tmp_path: Path) -> None:
    models = [echo(tmp_path / "a", ("de", "en")), echo(tmp_path / "b", ("en", "de"))]
    with sockets(*models, keys=("first-key",)) as port:
        client = LibreTranslateAPI(f"http://localhost:{port}", api_key="first-key")
        assert client.translate("Ein Satz & noch ein Wort. Äh!", "de", "en") == "Ein Satz & noch ein Wort. Äh!"
        assert client.translate("Zeile\n\nZeile", source="auto", target="en") == "Zeile\n\nZeile"
        assert client.languages()[0] == {"code": "de", "name": "German", "targets": ["en"]}
        found = client.detect("Das ist ein deutscher Satz")
        assert found[0]["language"] == "de"
        assert 60 < found[0]["confidence"] <= 100
        with pytest.raises(HTTPError, match="HTTP Error 403: Forbidden"):
            LibreTranslateAPI(f"http://localhost:{port}").translate("a", "de", "en")
        with pytest.raises(HTTPError, match="HTTP Error 400: Bad Request"):
            client.translate("a", "de", "fr")


def test_half_a_head_is_cut_off(port: int) -> None:
    silent, half, again = connected(port), connected(port), connected(port)
    half.sendall(HEALTH)
    again.sendall(HEALTH + b"\r\n")
    answer = b""
    while not answer.endswith(b'{"status":"ok"}'):
        answer += again.recv(9_999)
    # Half of a second request on a connection that was used.
    again.sendall(HEALTH)
    assert [received(each) for each in (silent, half, again)] == [b""] * 3


def test_half_a_body_is_refused(port: int) -> None:
    client = connected(port)
    client.sendall(TRANSLATE + b"content-length: 100\r\n\r\n{")
    answer = received(client)
    assert answer.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    assert b"connection: close\r\n" in answer


@pytest.mark.parametrize("end", [b"", b"\r\n\r\n"])
def test_a_head_is_bounded(end: bytes, port: int) -> None:
    client = connected(port)
    client.sendall(HEALTH + b"x-header: " + b"x" * 20_000 + end)
    answer = received(client)
    assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert answer.endswith(b'{"error": "the head of the request is too large"}')
    # A smaller one may be of any form.
    other = connected(port)
    other.sendall(HEALTH + b"connection: close\r\nx-header: " + b"x" * 10_000 + b"\r\n\r\n")
    assert received(other).startswith(b"HTTP/1.1 200 OK\r\n")


def test_hostile_requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Echo, "longest", 400)
    requests = hostile_requests("de", "en")
    answers, statuses = {}, {}
    with sockets(echo(tmp_path), max_body=65_536) as port:
        for name, data, _ in requests:
            client = connected(port)
            client.sendall(data)
            answers[name] = received(client)
    for name, answer in answers.items():
        head, _, body = answer.partition(b"\r\n\r\n")
        statuses[name] = int(head.split(b" ")[1])
        assert b"Traceback" not in answer
        if statuses[name] != 200:
            assert b"content-type: application/json" in head, name
            # A line of ASCII that says it.
            found = json.loads(body)
            assert list(found) == ["error"], name
            assert re.fullmatch(r"[ -~]{5,150}", found["error"]), (name, found)
    assert statuses == {name: status for name, _, status in requests}
    assert len(statuses) == len(requests) > 150


def test_a_request_for_another_protocol_is_refused(port: int) -> None:
    """Its body would be lost."""
    client = connected(port)
    body = b'{"q": "a", "source": "de", "target": "en"}'
    upgrade = f"connection: upgrade\r\nupgrade: h2c\r\ncontent-length: {len(body)}\r\n\r\n".encode()
    client.sendall(TRANSLATE + upgrade + body)
    answer = received(client)
    assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert json.loads(answer.partition(b"\r\n\r\n")[2]) == {
        "error": "only HTTP/1.1 is possible, without 'Connection: Upgrade'"
    }


@pytest.mark.parametrize("header", [b"", b"content-encoding: gzip\r\n", b"origin: http://evil.example\r\n"])
def test_whoever_sends_much_is_answered(header: bytes, tmp_path: Path) -> None:
    with sockets(echo(tmp_path)) as port:
        client = connected(port)
        client.sendall(TRANSLATE + header + b"content-length: 500000\r\n\r\n")
        for _ in range(50):
            client.sendall(b"x" * 10_000)
        answer = received(client)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert json.loads(answer.partition(b"\r\n\r\n")[2]) == {"error": "the body must have at most 10000 bytes"}


def test_chunks_are_counted(port: int) -> None:
    client = connected(port)
    client.sendall(TRANSLATE + b"transfer-encoding: chunked\r\n\r\n" + b"1000\r\n" + b"x" * 4096 + b"\r\n")
    client.sendall((b"1000\r\n" + b"x" * 4096 + b"\r\n") * 3 + b"0\r\n\r\n")
    assert received(client).startswith(b"HTTP/1.1 413 ")


def test_requests_one_after_the_other(port: int) -> None:
    client = connected(port)
    body = json.dumps({"q": "a", "source": "de", "target": "en"}).encode()
    request = TRANSLATE + f"content-length: {len(body)}\r\n\r\n".encode() + body
    client.sendall(request * 5 + HEALTH + b"connection: close\r\n\r\n")
    answer = received(client)
    assert answer.count(b"HTTP/1.1 200 OK\r\n") == 6
    assert answer.count(b'{"translatedText":"a"}') == 5


def test_requests_that_wait_on_a_connection_are_bounded(tmp_path: Path) -> None:
    translator = echo(tmp_path)
    assert isinstance(translator.engine, Echo)
    translator.engine.open.clear()
    body = json.dumps({"q": "a", "source": "de", "target": "en"}).encode()
    one = TRANSLATE + f"content-length: {len(body)}\r\n\r\n".encode() + body
    chunk = b"1000\r\n" + b"x" * 4096 + b"\r\n"
    with sockets(translator) as port:
        for data, error in (
            (one + (HEALTH + b"\r\n") * 17, "too many requests wait on this connection"),
            (
                one + TRANSLATE + b"transfer-encoding: chunked\r\n\r\n" + chunk * 17,
                "too many bytes wait on this connection",
            ),
        ):
            client = connected(port)
            client.sendall(data)
            answer = received(client)
            assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
            assert json.loads(answer.partition(b"\r\n\r\n")[2]) == {"error": error}
        translator.engine.open.set()


def test_too_many_connections(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "CLIENT_SECONDS", 10.0)
    monkeypatch.setattr(connection, "MOST_CONNECTIONS", 2)
    first, second, third = (connected(port) for _ in range(3))
    answer = received(third)
    assert answer.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
    assert b"retry-after: 1\r\n" in answer
    response = http.client.HTTPResponse(second)
    second.sendall(HEALTH + b"connection: close\r\n\r\n")
    response.begin()
    assert json.loads(response.read()) == {"status": "ok"}
    first.close()
    assert json.loads(answer.partition(b"\r\n\r\n")[2]) == {"error": "too many connections at once"}


@pytest.mark.parametrize(
    ("state", "cut"),
    [
        ("busy", False),
        # Whoever does not read an answer, or does not let go of a connection.
        ("unread", True),
        ("closing", True),
        ("idle", True),
        ("fresh", True),
        ("half", True),
    ],
)
def test_connections_that_wait_for_their_client_are_cut(state: str, cut: bool) -> None:
    async def work() -> None:
        transport = Transport()
        found = connection.LimitedConnection(server.config(Any), ServerState(), {})  # type: ignore[arg-type]
        found.connection_made(transport)
        if state != "fresh":
            found.on_message_begin()
        if state not in ("fresh", "half"):
            found._in_head = False
            found.cycle = SimpleNamespace(response_complete=state == "idle")  # type: ignore[assignment]
        found.flow.write_paused = state == "unread"
        transport.closing = state == "closing"
        for now in (100.0, 100.0 + connection.CLIENT_SECONDS):
            found.check(now)
            assert not transport.aborted
        found.check(100.1 + connection.CLIENT_SECONDS)
        assert transport.aborted == cut

    run(work())


class Transport(asyncio.Transport):
    """Remembers whether it was cut."""

    closing = aborted = False

    def is_closing(self) -> bool:
        return self.closing

    def abort(self) -> None:
        self.aborted = True


@pytest.mark.parametrize("more", [b"", HEALTH + b"\r\n"])
def test_a_client_that_leaves_is_noticed(more: bytes, tmp_path: Path) -> None:
    """Also with a further request behind the one that waits."""
    translator = echo(tmp_path)
    assert isinstance(translator.engine, Echo)
    translator.engine.open.clear()
    with sockets(translator) as port:
        body = b'{"q": "secret", "source": "de", "target": "en"}'
        first, second = connected(port), connected(port)
        whole = TRANSLATE + f"content-length: {len(body)}\r\n\r\n".encode() + body
        first.sendall(whole.replace(b"\r\n", b"\r\nconnection: close\r\n", 1))
        second.sendall(whole + more)
        second.close()
        # In whichever order both are read, one is dropped and one waits in the end.
        for _ in range(1000):
            other = connected(port)
            other.sendall(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            metrics = received(other).decode()
            if "deepnmt_cancelled_total 1\n" in metrics and "deepnmt_waiting_sentences 1\n" in metrics:
                break
            time.sleep(0.01)
        else:
            pytest.fail(metrics)
        translator.engine.open.set()
        assert received(first).endswith(b'{"translatedText":"secret"}')
