"""The outer layer of a server: sizes, origins and faults are dealt with before and after any work.

- A body is counted while it arrives, and read completely before the application sees the request.
- A browser's page from elsewhere is refused, and so is a name of this machine that is not its own (DNS rebinding).
- No fault reaches a client as a traceback, and no log line holds a client's text.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deepnmt.serving.connection import CLIENT_SECONDS
from deepnmt.serving.fields import RefusedError
from deepnmt.serving.metrics import Metrics

LOG = logging.getLogger(__name__)
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
CROSS_ORIGIN = {
    "access-control-allow-methods": "GET, POST",
    "access-control-allow-headers": "content-type, authorization",
    "access-control-max-age": "600",
}
# The rest of a body that was not read must not be taken for a request.
REFUSALS = {503: {"retry-after": "1"}, **{status: {"connection": "close"} for status in (403, 408, 413, 415)}}
# A body that is too large is read up to this size, so that its client gets to read the refusal.
MOST_DISCARDED = 1 << 20


class ClientGoneError(Exception):
    """The client left before it had an answer."""


@dataclass(frozen=True)
class Guard:
    """Passes on requests that may be worked on.

    Args:
        app: application
        most_bytes: greatest size of a body
        origins: allowed beside the page's own, such as https://example.org
        local: the server listens on loopback alone
        paths: that requests are counted by; all others are counted together
        metrics: counts them
    """

    app: ASGIApp
    most_bytes: int
    origins: Collection[str]
    local: bool
    paths: Collection[str]
    metrics: Metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            return
        start = time.monotonic()
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        answer = _Answer(send, HEADERS | self._cross_origin(headers))
        try:
            self._check_origin(headers)
            body = await self._body(headers, receive)
            if scope["method"] == "OPTIONS":
                await answer.complete(204, b"", CROSS_ORIGIN)
            else:
                # With an application in the scope, Starlette's router raises what it refuses.
                await self.app({**scope, "app": self}, _after(body, receive), answer.send)
        except RefusedError as error:
            await answer.refuse(error.status, error.reason, REFUSALS.get(error.status, {}))
        except HTTPException as error:
            await answer.refuse(error.status_code, error.detail, error.headers or {})
        except asyncio.CancelledError:
            await answer.refuse(503, "the server ends", REFUSALS[503])
            raise
        except ClientGoneError:
            self.metrics.cancelled += 1
        except Exception as error:
            # Its message may hold a client's text.
            LOG.error("internal error: %s at %s", type(error).__name__, _place(error))
            await answer.refuse(500, "internal error")
        if answer.status:
            path = scope["path"] if scope["path"] in self.paths else "other"
            self.metrics.count_request(path, answer.status, time.monotonic() - start)

    def _cross_origin(self, headers: dict[bytes, str]) -> dict[str, str]:
        origin = headers.get(b"origin", "")
        return {"access-control-allow-origin": origin, "vary": "origin"} if origin in self.origins else {}

    def _check_origin(self, headers: dict[bytes, str]) -> None:
        host, origin = headers.get(b"host", ""), headers.get(b"origin")
        if origin in self.origins:
            return
        if self.local and _name(host) not in LOOPBACK | {_name(urlsplit(each).netloc) for each in self.origins}:
            raise RefusedError(403, "this server listens on loopback alone; --allow-origin allows other names")
        if origin is not None and origin not in (f"http://{host}", f"https://{host}"):
            raise RefusedError(403, "requests of pages from other origins are refused; --allow-origin allows one")

    async def _body(self, headers: dict[bytes, str], receive: Receive) -> bytes:
        if headers.get(b"content-encoding", "identity") != "identity":
            raise RefusedError(415, "the body must not be compressed")
        body, size = bytearray(), 0
        try:
            async with asyncio.timeout(CLIENT_SECONDS):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ClientGoneError
                    size += len(message["body"])
                    if size <= self.most_bytes:
                        body += message["body"]
                    if not message["more_body"] or size > MOST_DISCARDED:
                        break
        except TimeoutError:
            raise RefusedError(408, f"the body must arrive within {CLIENT_SECONDS:.0f} seconds") from None
        if size > self.most_bytes:
            raise RefusedError(413, f"the body must have at most {self.most_bytes} bytes")
        return bytes(body)


class _Answer:
    """Sends an answer with additional headers, at most once."""

    def __init__(self, send: Send, headers: dict[str, str]) -> None:
        self._send, self._headers = send, _encoded(headers)
        self.status = 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message = {**message, "headers": [*message["headers"], *self._headers]}
        await self._send(message)

    async def complete(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        if not self.status:
            await self.send({"type": "http.response.start", "status": status, "headers": _encoded(headers)})
            await self.send({"type": "http.response.body", "body": body})

    async def refuse(self, status: int, reason: str, headers: Mapping[str, str] | None = None) -> None:
        body = json.dumps({"error": reason}).encode()
        more = {"content-type": "application/json", "content-length": str(len(body))}
        await self.complete(status, body, {**(headers or {}), **more})


def _encoded(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]


def _after(body: bytes, receive: Receive) -> Receive:
    """Return a receiver of the body that was read already, and of further messages."""
    unread = [body]

    async def received() -> Message:
        if unread:
            return {"type": "http.request", "body": unread.pop(), "more_body": False}
        return await receive()

    return received


def _name(host: str) -> str:
    """Return a host without its port, in lower case."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _place(error: BaseException) -> str:
    """Return the file and line in which an error arose."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}" if trace is not None else "?"
