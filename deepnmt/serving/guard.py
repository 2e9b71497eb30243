"""The outer layer of a server: sizes, origins and faults are dealt with before and after any work.

- A body is counted while it arrives, and read completely before the application sees the request.
- A browser's page from elsewhere is refused, and so is a name of this machine that is not its own (DNS rebinding).
- No fault reaches a client as a traceback, and no log line holds a client's text.
"""

from __future__ import annotations

import asyncio
import ipaddress
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
REFUSALS = {503: {"retry-after": "1"}, 408: {"connection": "close"}, 413: {"connection": "close"}}
# Bytes beyond the greatest size that are read, so that the client of a body too large gets to read the refusal.
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
        local: further names of a server that listens on loopback alone; None: any name is right
        paths: that requests are counted by; all others are counted together
        metrics: counts them
    """

    app: ASGIApp
    most_bytes: int
    origins: Collection[str]
    local: Collection[str] | None
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
            # Whoever is refused has sent all of its body, or would find the connection closed in place of the answer.
            body = await self._body(receive)
            self._check_headers(headers)
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
            LOG.error("internal error: %s", fault(error))
            await answer.refuse(500, "internal error")
        if answer.status:
            path = scope["path"] if scope["path"] in self.paths else "other"
            self.metrics.count_request(path, answer.status, time.monotonic() - start)

    def _cross_origin(self, headers: dict[bytes, str]) -> dict[str, str]:
        origin = headers.get(b"origin", "")
        return {"access-control-allow-origin": origin, "vary": "origin"} if origin in self.origins else {}

    def _check_headers(self, headers: dict[bytes, str]) -> None:
        if headers.get(b"content-encoding", "identity") != "identity":
            raise RefusedError(415, "the body must not be compressed")
        host, origin = headers.get(b"host", ""), headers.get(b"origin")
        if origin in self.origins:
            return
        if self.local is not None:
            names = {*self.local, *(urlsplit(each).hostname for each in self.origins)}
            if (name := _name(host)) not in names and not is_loopback(name):
                raise RefusedError(403, "this server listens on loopback alone; --allow-origin allows other names")
        if origin is not None and origin not in (f"http://{host}", f"https://{host}"):
            raise RefusedError(403, "requests of pages from other origins are refused; --allow-origin allows one")

    async def _body(self, receive: Receive) -> bytes:
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
                    if not message["more_body"] or size > self.most_bytes + MOST_DISCARDED:
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


def is_loopback(name: str) -> bool:
    """Return whether a name or address always is this machine's own, whatever name servers say."""
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return name == "localhost"
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def _name(host: str) -> str:
    """Return a host without its port, in lower case."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def fault(error: BaseException) -> str:
    """Return type, file and line of an error, without its message, which may hold a client's text."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}" if trace is not None else "?"
    return f"{type(error).__name__} at {place}"
