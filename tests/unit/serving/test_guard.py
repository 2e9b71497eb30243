"""The guard: sizes are counted before any work, other origins are refused, keys are needed, logs hold no text."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest
from support.serving import Answer, Client, Echo, echo, run, serving

from deepnmt.serving import guard
from deepnmt.serving.fields import Fields
from deepnmt.serving.guard import Guard
from deepnmt.serving.metrics import Metrics

JSON = {"content-type": "application/json"}


async def reached(scope: Any, receive: Any, send: Any) -> None:
    """An application that answers with the size of its body."""
    body = (await receive())["body"]
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": str(len(body)).encode()})


def ask(
    body: Any,
    method: str = "POST",
    local: tuple[str, ...] | None = (),
    origins: tuple[str, ...] = (),
    most: int = 100,
    **headers: str,
) -> Answer:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    client = Client(Guard(reached, most, origins, local, {"/translate"}, Metrics()))
    return run(client.request(method, "/translate", body, names))


KIB_64 = b"x" * 65_536


@pytest.mark.parametrize(
    ("most", "body", "status"),
    [
        (100, b"", 200),
        (100, b"x" * 100, 200),
        (100, [b"x" * 50, b"", b"x" * 50], 200),
        (100, b"x" * 101, 413),
        (100, [b"x" * 60, b"x" * 60], 413),
        # An allowed body is whole, however large.
        (1 << 20, [KIB_64] * 16, 200),
        (3 << 20, [KIB_64] * 20 + [b"end"], 200),
        (3 << 20, [KIB_64] * 48, 200),
        (3 << 20, [KIB_64] * 48 + [b"x"], 413),
        # Endless: neither read to its end nor kept.
        (100, [KIB_64] * 17 + [None], 413),
        (3 << 20, [KIB_64] * 64 + [b"x", None], 413),
    ],
)
def test_bodies_are_counted_before_any_work(most: int, body: Any, status: int) -> None:
    answer = ask(body, most=most)
    assert answer.status == status
    if status == 413:
        assert answer.json() == {"error": f"the body must have at most {most} bytes"}
        assert answer.headers["connection"] == "close"
    else:
        assert answer.body == str(sum(map(len, [body] if isinstance(body, bytes) else body))).encode()


def test_a_stated_size_is_not_believed() -> None:
    assert ask(b"x" * 101, content_length="5").status == 413
    assert ask(b"x" * 5, content_length="500").status == 200


def test_a_body_that_does_not_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "CLIENT_SECONDS", 0.05)
    answer = ask([b"x", None])
    assert (answer.status, answer.json()) == (408, {"error": "the body must arrive within 0 seconds"})


def test_a_client_that_leaves_within_its_body() -> None:
    async def work() -> Answer:
        gone = asyncio.Event()
        gone.set()
        metrics = Metrics()
        client = Client(Guard(reached, 100, (), (), (), metrics))
        answer = await client.request("POST", "/", [b"x", None], leave=gone)
        assert (metrics.cancelled, sum(metrics.requests.values())) == (1, 0)
        return answer

    assert run(work()).status == 0


def test_compressed_bodies_are_refused() -> None:
    assert ask(b"x", content_encoding="gzip").json() == {"error": "the body must not be compressed"}
    assert ask(b"x", content_encoding="identity").status == 200


@pytest.mark.parametrize(
    ("headers", "local", "origins", "status"),
    [
        ({}, (), (), 200),
        ({"host": "127.0.0.1:5000"}, (), (), 200),
        ({"host": "[::1]:5000"}, (), (), 200),
        ({"host": "LOCALHOST"}, (), (), 200),
        ({"host": "127.0.0.2:5000"}, (), (), 200),
        ({"host": "[::ffff:127.0.0.1]"}, (), (), 200),
        ({"host": "128.0.0.1"}, (), (), 403),
        # The name that --host gave.
        ({"host": "BOX:5000"}, ("box",), (), 200),
        ({"host": "other"}, ("box",), (), 403),
        ({"origin": "http://localhost:5000"}, (), (), 200),
        ({"origin": "https://localhost:5000"}, (), (), 200),
        ({"origin": "http://localhost:5001"}, (), (), 403),
        ({"origin": "http://evil.example"}, (), (), 403),
        ({"origin": "http://localhost:5000.evil.example"}, (), (), 403),
        ({"origin": "null"}, (), (), 403),
        ({"origin": ""}, (), (), 403),
        # A foreign name that leads to this machine.
        ({"host": "evil.example", "origin": "http://evil.example"}, (), (), 403),
        ({"host": "evil.example"}, (), (), 403),
        ({"host": "localhost.evil.example"}, (), (), 403),
        ({"host": "localhost@evil.example"}, (), (), 403),
        ({"host": "[::1"}, (), (), 403),
        ({"host": ""}, (), (), 403),
        # A proxy that passes its own name on.
        ({"host": "mt.example", "origin": "https://mt.example"}, (), ("https://mt.example",), 200),
        ({"host": "mt.example"}, (), ("https://mt.example",), 200),
        ({"host": "mt.example", "origin": "https://evil.example"}, (), ("https://mt.example",), 403),
        # Other names are usual where the server listens on other addresses.
        ({"host": "mt.example", "origin": "http://mt.example"}, None, (), 200),
        ({"host": "mt.example", "origin": "http://evil.example"}, None, (), 403),
    ],
)
def test_origins(headers: dict[str, str], local: tuple[str, ...] | None, origins: tuple[str, ...], status: int) -> None:
    answer = ask(b"x", local=local, origins=origins, **headers)
    assert answer.status == status
    allowed = answer.headers.get("access-control-allow-origin")
    assert allowed == (headers["origin"] if headers.get("origin") in origins else None)


def test_other_pages_ask_first() -> None:
    answer = ask(b"", "OPTIONS", origins=("https://mt.example",), origin="https://mt.example")
    assert (answer.status, answer.body) == (204, b"")
    assert answer.headers["access-control-allow-methods"] == "GET, POST"
    assert answer.headers["access-control-allow-headers"] == "content-type, authorization"
    assert ask(b"", "OPTIONS", origin="https://mt.example").status == 403


def test_security_headers_are_on_all_answers() -> None:
    for answer in (ask(b""), ask(b"x" * 101)):
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none';")
        assert "unsafe" not in policy
        assert "http" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("after", [False, True])
def test_a_fault_shows_neither_text_nor_traceback(after: bool, caplog: pytest.LogCaptureFixture) -> None:
    async def broken(scope: Any, receive: Any, send: Any) -> None:
        if after:
            await send({"type": "http.response.start", "status": 200, "headers": []})
        raise UnicodeError("a secret text")

    with caplog.at_level(logging.DEBUG):
        answer = run(Client(Guard(broken, 100, (), (), (), Metrics())).request("GET", "/"))
    assert (answer.status, answer.body) == ((200, b"") if after else (500, b'{"error": "internal error"}'))
    assert re.search(r"internal error: UnicodeError at test_guard\.py:\d+", caplog.text)
    assert "secret" not in caplog.text
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize(
    ("fields", "headers", "status"),
    [
        ({}, {}, 403),
        ({"api_key": ""}, {}, 403),
        ({"api_key": "second-key"}, {}, 200),
        ({"api_key": "first-key"}, {}, 200),
        ({"api_key": "first-key "}, {}, 403),
        ({"api_key": "first-kez"}, {}, 403),
        ({"api_key": "\ud800"}, {}, 403),
        ({}, {"authorization": "Bearer first-key"}, 200),
        ({}, {"authorization": "bearer second-key"}, 200),
        ({}, {"authorization": "Basic first-key"}, 403),
        ({"api_key": "first-key"}, {"authorization": "Bearer wrong"}, 403),
    ],
)
def test_keys(fields: dict[str, str], headers: dict[str, str], status: int, tmp_path: Path) -> None:
    async def work() -> None:
        async with serving(echo(tmp_path), keys=("first-key", "second-key")) as served:
            for path, given in (("/translate", {"q": "a", "source": "de", "target": "en"}), ("/detect", {"q": "a"})):
                answer = await served.client.post(path, given | fields, **headers)
                assert answer.status == status
                if status == 403:
                    reason = "a valid API key is needed, as 'api_key' or as 'Authorization: Bearer KEY'"
                    assert answer.json() == {"error": reason}
            assert (await served.client.request("GET", "/settings")).json() == {
                "keyRequired": True,
                "beams": {"de-en": 5},
            }

    run(work())


def test_all_keys_are_compared_in_constant_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []

    def compare(left: bytes, right: bytes) -> bool:
        compared.append((left, right))
        return left == right

    monkeypatch.setattr("hmac.compare_digest", compare)

    async def work() -> None:
        async with serving(echo(tmp_path), keys=("first-key", "second-key")) as served:
            assert (await served.client.translate("a", api_key="first-key")).status == 200

    run(work())
    assert len(compared) == 2
    # Digests, whose lengths do not depend on the keys.
    assert {len(each) for pair in compared for each in pair} == {32}


def test_no_log_line_holds_a_text(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        async with serving(echo(tmp_path)) as served:
            for text in ("Geheimnis", "Geheimnis" * 99, ["Geheimnis"] * 101):
                await served.client.translate(text)
            await served.client.translate("a", source="Geheimnis")
            await served.client.request("GET", "/Geheimnis")
            await served.client.request("POST", "/translate", b'{"q": "Geheimnis', JSON)
            metrics = (await served.client.request("GET", "/metrics")).body
            assert b"Geheimnis" not in metrics
            assert b'deepnmt_requests_total{path="other",status="404"} 1\n' in metrics

    with caplog.at_level(logging.DEBUG):
        run(work())
    assert "Geheimnis" not in caplog.text


def test_methods_and_paths(tmp_path: Path) -> None:
    async def work() -> None:
        async with serving(echo(tmp_path)) as served:
            for method, path, status, reason in (
                ("GET", "/translate", 405, "Method Not Allowed"),
                ("POST", "/languages", 405, "Method Not Allowed"),
                ("GET", "/etc/passwd", 404, "Not Found"),
                ("GET", "/page.js/../../endpoints.py", 404, "Not Found"),
                ("GET", "//page.css", 404, "Not Found"),
                # A redirection would name HTTP behind a proxy for HTTPS.
                ("POST", "/translate/", 404, "Not Found"),
            ):
                answer = await served.client.request(method, path)
                assert (answer.status, answer.json()) == (status, {"error": reason})
            for path in ("/", "/page.css", "/page.js"):
                answer = await served.client.request("GET", path)
                assert (answer.status, bool(answer.body)) == (200, True)

    run(work())


def test_input_is_never_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Echo, "longest", 400)
    secret = tmp_path / "secret"
    secret.write_text("Geheimnis")

    async def work() -> None:
        async with serving(echo(tmp_path / "model")) as served:
            for text in (str(secret), f"@{secret}", f"file://{secret}", "../secret", "{{ 7 * 7 }}", "${HOME}", "%s%n"):
                assert (await served.client.translate(text)).json()["translatedText"] == text
                for fields in ({"source": text}, {"target": text}, {"format": text}, {"alternatives": text}):
                    answer = await served.client.translate("a", **fields)
                    assert answer.status == 400
                    assert b"Geheimnis" not in answer.body

    run(work())


@pytest.mark.parametrize(
    ("given", "details"),
    [(None, False), (True, True), (False, False), ("true", True), ("false", False), ("1", True), ("0", False)],
)
def test_flags(given: object, details: bool) -> None:
    body = json.dumps({"q": "a", "details": given, "alternatives": None}).encode()
    fields = Fields.read(body, "application/json")
    assert (fields.details, fields.alternatives) == (details, 0)


@pytest.mark.parametrize(
    ("host", "address", "name", "status"),
    [
        ("127.0.0.1", "127.0.0.1", "localhost", 200),
        ("127.0.0.1", "127.0.0.1", "mt.example", 403),
        ("127.0.0.2", "127.0.0.2", "mt.example", 403),
        ("::1", "::1", "mt.example", 403),
        ("Box", "127.0.1.1", "box", 200),
        ("Box", "127.0.1.1", "mt.example", 403),
        ("::ffff:127.0.0.1", "::ffff:127.0.0.1", "mt.example", 403),
        ("0.0.0.0", "0.0.0.0", "mt.example", 200),
        ("::", "::", "mt.example", 200),
        ("192.0.2.1", "192.0.2.1", "mt.example", 200),
        ("Box", "fe80::1%eth0", "mt.example", 200),
    ],
)
def test_a_server_on_loopback_has_few_names(host: str, address: str, name: str, status: int, tmp_path: Path) -> None:
    async def work() -> int:
        async with serving(echo(tmp_path), address=address, host=host) as served:
            return (await served.client.request("GET", "/health", headers={"host": f"{name}:5000"})).status

    assert run(work()) == status


def test_surrogate_pairs_are_text() -> None:
    body = json.dumps({"q": "😀", "target": "en"}).encode()
    assert rb"\ud83d\ude00" in body
    assert Fields.read(body, "application/json").texts == ["😀"]
