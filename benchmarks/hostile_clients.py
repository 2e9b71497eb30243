"""Clients that are hostile, slow or silent, for `serving.py` and for tests. Each request has its right status.

They are meant for a server with its usual limits (64 KiB for a body, 1,000 sentences), or with lower ones.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections import Counter
from collections.abc import Iterator

JSON, FORM = "application/json", "application/x-www-form-urlencoded"
MOST_BODY = 65_536
SLOW = 64
# Seconds after which a server has ended a connection that waits for its client.
PATIENCE = 30


async def hostile(port: int, number: int, source: str, target: str) -> tuple[Counter[str], Counter[str]]:
    """Send hostile requests, 16 at a time; return the answers by status, and the wrong ones by request."""
    statuses: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    left = itertools.islice(itertools.cycle(hostile_requests(source, target)), number)

    async def send() -> None:
        for name, data, expected in left:
            answer = b""
            with contextlib.suppress(OSError):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(data)
                answer = await reader.read(1 << 20)
                writer.close()
            status = answer[9:12].decode() or "cut off"
            statuses[status] += 1
            # A client that still sends when the server closes may not find the answer.
            if status not in (str(expected), "cut off") or b"Traceback" in answer:
                wrong[name] += 1

    await asyncio.gather(*(send() for _ in range(16)))
    return statuses, wrong


async def slow(port: int, data: bytes) -> int:
    """Send a usual request in part, or a byte a second, or never close; return how many the server has ended."""

    async def send(kind: int) -> bool:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        reading = asyncio.ensure_future(reader.read(-1))
        if kind < 3:
            writer.write((data[:20], data[:-3], data)[kind])
        else:
            for byte in data[:PATIENCE]:
                writer.write(bytes([byte]))
                if (await asyncio.wait([reading], timeout=1))[0]:
                    break
        done, _ = await asyncio.wait([reading], timeout=PATIENCE)
        with contextlib.suppress(OSError):
            await asyncio.gather(*done)
        writer.close()
        return bool(done)

    return sum(await asyncio.gather(*(send(each % 4) for each in range(SLOW))))


def hostile_requests(source: str, target: str) -> list[tuple[str, bytes, int]]:
    """Return a name, all bytes and the right status of each request, for a server that translates these languages."""
    pair: dict[str, object] = {"source": source, "target": target}
    found = [
        *_no_json(),
        *((name, _post(json.dumps(fields).encode()), status) for name, fields, status in _fields(pair)),
        *_forms(f"source={source}&target={target}".encode()),
        *_content(json.dumps({"q": "a", **pair}).encode()),
        *_heads(),
    ]
    return [(name, data, status) for name, data, status in found]


def _head(first: str, *more: str, host: str = "localhost") -> bytes:
    return "".join(f"{line}\r\n" for line in (first, f"host: {host}", "connection: close", *more, "")).encode("latin-1")


def _post(body: bytes, kind: str = JSON, *more: str, host: str = "localhost") -> bytes:
    lines = (f"content-type: {kind}", f"content-length: {len(body)}", *more)
    return _head("POST /translate HTTP/1.1", *lines, host=host) + body


def _no_json() -> Iterator[tuple[str, bytes, int]]:
    """Yield bodies that are no JSON objects."""
    for name, body in {
        "empty": b"",
        "white space": b" \n\t ",
        "cut off": b'{"q": "a", "target": "e',
        "rest after the end": b'{"q": "a"} {"q": "b"}',
        "comma at the end": b'{"q": "a",}',
        "single quotes": b"{'q': 'a'}",
        "a form as JSON": b"q=a&target=en",
        "null": b"null",
        "number": b"7",
        "text": b'"q"',
        "list": b'[{"q": "a"}]',
        "deep list": b"[" * 60_000,
        "deep object": b'{"q":' * 10_000,
        "long number": b'{"q": ' + b"9" * 60_000 + b"}",
        "zeros": b"\x00" * 5_000,
        "UTF-8 cut off": b'{"q": "\xc3"}',
        "UTF-8 of a surrogate": b'{"q": "\xed\xa0\x80"}',
        "UTF-8 too long": b'{"q": "\xc0\xaf"}',
        "Latin-1": '{"q": "Köln"}'.encode("latin-1"),
        "UTF-16": '{"q": "a"}'.encode("utf-16"),
        "byte order mark": b'\xef\xbb\xbf{"q": "a"}',
        "control characters": b'{"q": "a\x01\x1b[31m"}',
        "escape cut off": b'{"q": "\\u12"}',
        "half a pair": b'{"q": "\\ud800"}',
        "pair in the wrong order": b'{"q": "\\udc00\\ud800"}',
        "half a pair as language": b'{"q": "a", "target": "\\udfff"}',
    }.items():
        yield name, _post(body), 400


def _fields(pair: dict[str, object]) -> Iterator[tuple[str, dict[str, object], int]]:
    """Yield objects with missing, faulty and strange fields."""
    yield "no text", pair, 400
    for value in (None, 7, True, 1.5, {}, {"a": "b"}, ["a", 1], ["a", None], ["a", ["b"]], ["a", {}]):
        yield f"text {value!r}", {**pair, "q": value}, 400
    for name in ("source", "target", "format", "api_key"):
        for wrong in (7, True, [], {}):
            yield f"{name} {wrong!r}", {**pair, "q": "a", name: wrong}, 400
    for name in ("source", "target", "format"):
        for text in ("../../etc/passwd", "\x00", "x" * 30_000, "<script>", "%s%n", "{{7*7}}", "\u202e"):
            yield f"{name} {text[:20]!r}", {**pair, "q": "a", name: text}, 400
    for number in (-1, 1e9, 1.5, float("nan"), float("inf"), 10**30, True, [], {}, "", "-1", "1e3", "٣", "9" * 50_000):
        yield f"alternatives {number!r:.20}", {**pair, "q": "a", "alternatives": number}, 400
    for other in (7, 0.5, [], {}, "", "yes", "True"):
        yield f"details {other!r}", {**pair, "q": "a", "details": other}, 400
    yield "long word", {**pair, "q": "x" * 60_000}, 400
    yield "long sentence", {**pair, "q": "x " * 30_000}, 400
    yield "signs alone", {**pair, "q": "." * 60_000}, 400
    yield "long word among others", {**pair, "q": ["a", "x" * 60_000, "b"]}, 400
    yield "too many sentences", {**pair, "q": ["a"] * 1_001}, 413
    yield "too many lines", {**pair, "q": "a\n" * 1_001}, 413
    # Answered, since these are texts like others.
    yield "no sentence", {**pair, "q": ["", "\n", "\u2003"] * 3_000}, 200
    yield "line ends", {**pair, "q": "\n" * 30_000}, 200
    for text in (
        "<script>alert(1)</script>",
        "/etc/passwd",
        "{{7*7}}",
        "${HOME}",
        "'; --",
        "%s%n",
        "a\x00b\x1b",
        "\u202ea",
    ):
        yield f"text {text!r}", {**pair, "q": text}, 200


def _forms(pair: bytes) -> Iterator[tuple[str, bytes, int]]:
    for name, body, status in (
        ("empty form", b"", 400),
        ("form without a text", pair, 400),
        ("JSON as a form", b'{"q": "a"}', 400),
        ("form, no UTF-8", b"q=\xff", 400),
        ("form, no UTF-8 in a percent sign", b"q=%ff", 400),
        ("form of many fields", b"a&" * 20_000, 400),
        ("form of many texts", pair + b"&q=a" * 1_001, 400),
        ("form, wrong number", pair + b"&q=a&alternatives=x", 400),
        ("form, percent sign alone", pair + b"&q=%", 200),
    ):
        yield name, _post(body, FORM), status


def _content(body: bytes) -> Iterator[tuple[str, bytes, int]]:
    """Yield an innocent body with faulty heads, and bodies of faulty sizes."""
    for kind in ("", "text/plain", "text/html", "multipart/form-data; boundary=x", "application/xml", "json", "*/*"):
        yield f"type '{kind}'", _post(body, kind), 415
    for coding in ("gzip", "deflate", "br", "gzip, gzip"):
        yield coding, _post(body, JSON, f"content-encoding: {coding}"), 415
    for origin in ("http://evil.example", "null", "", "http://localhost:1", "http://localhost.evil.example", "file://"):
        yield f"origin '{origin}'", _post(body, JSON, f"origin: {origin}"), 403
    for host in ("evil.example", "localhost.evil.example", "localhost@evil.example", "128.0.0.1", "[::1", ""):
        yield f"host '{host}'", _post(body, JSON, host=host), 403
    yield "a byte too many", _post(body + b" " * (MOST_BODY + 1 - len(body))), 413
    yield "large", _post(b"x" * 300_000), 413
    chunks = (b"4000\r\n" + b"x" * 0x4000 + b"\r\n") * 8 + b"0\r\n\r\n"
    chunked = ("POST /translate HTTP/1.1", f"content-type: {JSON}", "transfer-encoding: chunked")
    yield "large, in chunks", _head(*chunked) + chunks, 413
    for name, rest in {"letters": b"xyz\r\n", "negative": b"-5\r\n", "longer than stated": b"1\r\nabc\r\n"}.items():
        yield f"chunk: {name}", _head(*chunked) + rest, 400
    for size in ("-1", "x", "1e3", "0x10", "99999999999999999999999"):
        head = _head("POST /translate HTTP/1.1", f"content-type: {JSON}", f"content-length: {size}")
        yield f"size {size}", head + body, 400
    yield "two sizes", _post(body, JSON, "content-length: 5"), 400
    yield "size and chunks", _post(body, JSON, "transfer-encoding: chunked"), 400
    yield "upgrade", _post(body, JSON, "connection: upgrade, http2-settings", "upgrade: h2c", "http2-settings: AA"), 400


def _heads() -> Iterator[tuple[str, bytes, int]]:
    """Yield requests without a body: other paths, other methods, and no HTTP."""
    for path in (
        "/etc/passwd",
        "/page.js/../endpoints.py",
        "/..%2f..%2fetc/passwd",
        "/%00",
        "//evil.example",
        "/translate/",
    ):
        yield path, _head(f"GET {path} HTTP/1.1"), 404
    for method in ("GET", "PUT", "DELETE", "PATCH", "TRACE"):
        yield method, _head(f"{method} /translate HTTP/1.1"), 405
    for name, data in {
        "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "HTTP/9.9": _head("GET / HTTP/9.9"),
        "no HTTP": b"nonsense\r\n\r\n",
        "no method": _head("/ HTTP/1.1"),
        "unknown method": _head("STEAL / HTTP/1.1"),
        "tunnel": _head("CONNECT localhost:22 HTTP/1.1"),
        "half an address": _head("GET http://[::1 HTTP/1.1"),
        "zero in the head": _head("GET / HTTP/1.1", "x: a\x00b"),
        "line without a colon": _head("GET / HTTP/1.1", "nonsense"),
        "name with a space": _head("GET / HTTP/1.1", "x y: z"),
        "long head": _head("GET / HTTP/1.1", f"x: {'x' * 20_000}"),
        "many lines": _head("GET / HTTP/1.1", *(f"x{number}: x" for number in range(3_000))),
        "long path": _head(f"GET /{'x' * 20_000} HTTP/1.1"),
        "many at once": b"POST /translate HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n" * 100,
    }.items():
        yield name, data, 400
