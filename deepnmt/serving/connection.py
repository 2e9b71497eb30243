"""uvicorn's connection with limits that it lacks: a client can neither hold it open nor fill the memory.

uvicorn waits for ever for the rest of a request's head, and for a client that does not read its answer. Its fast parser
takes a head of any size, and any number of requests before the first is answered. It drops the body of a request that
asks for another protocol, as Java's client does. When a client leaves, it tells the last of its requests alone.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, NoReturn
from weakref import WeakSet

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

# Seconds in which a client must send a head, send a body, or read an answer.
CLIENT_SECONDS = 10.0
MOST_CONNECTIONS = 1_000
MOST_HEAD_BYTES = 16_384
# Requests of a connection that wait for the answer to an earlier one, and the bytes of their bodies.
MOST_AHEAD, MOST_AHEAD_BYTES = 16, 65_536
LONG_HEAD = "the head of the request is too large"


class LimitedConnection(HttpToolsProtocol):
    """A connection of a client; `check` is called every second."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._in_head, self._head_bytes = True, 0
        self._since: float | None = None
        self._fault = ""
        self._requests: WeakSet[RequestResponseCycle] = WeakSet()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See uvicorn."""
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            self._refuse("503 Service Unavailable\r\nretry-after: 1", "too many connections at once")

    def connection_lost(self, exc: Exception | None) -> None:
        """See uvicorn."""
        super().connection_lost(exc)
        for request in self._requests:
            request.disconnected = True
            request.message_event.set()

    def data_received(self, data: bytes) -> None:
        """See uvicorn."""
        if self.transport.is_closing():
            return
        super().data_received(data)
        if self._in_head and not self.transport.is_closing():
            self._head_bytes += len(data)
            if self._head_bytes > MOST_HEAD_BYTES:
                self.send_400_response(LONG_HEAD)

    def on_message_begin(self) -> None:
        """See uvicorn."""
        if len(self.pipeline) == MOST_AHEAD:
            self._stop("too many requests wait on this connection")
        super().on_message_begin()
        self._in_head, self._head_bytes = True, 0

    def on_headers_complete(self) -> None:
        """See uvicorn."""
        self._in_head, self._since = False, None
        if len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > MOST_HEAD_BYTES:
            self._stop(LONG_HEAD)
        if self.parser.should_upgrade():
            self._stop("only HTTP/1.1 is possible, without 'Connection: Upgrade'")
        super().on_headers_complete()
        self._requests.add(self.cycle)

    def on_body(self, body: bytes) -> None:
        """See uvicorn."""
        super().on_body(body)
        if sum(len(cycle.body) for cycle, _ in self.pipeline) > MOST_AHEAD_BYTES:
            self._stop("too many bytes wait on this connection")

    def send_400_response(self, msg: str) -> None:
        """Answer as the application does."""
        self._refuse("400 Bad Request", self._fault or msg)

    def _stop(self, fault: str) -> NoReturn:
        """End the parser, whose caller then sends the fault to the client."""
        self._fault = fault
        raise ValueError(fault)

    def _refuse(self, head: str, reason: str) -> None:
        body = json.dumps({"error": reason})
        kind = "content-type: application/json"
        text = f"HTTP/1.1 {head}\r\n{kind}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n{body}"
        self.transport.write(text.encode("ascii"))
        self.transport.close()

    def check(self, now: float) -> None:
        """Cut the connection if it has waited too long for its client."""
        idle = self.cycle is None or self.cycle.response_complete
        if not (idle or self._in_head or self.flow.write_paused or self.transport.is_closing()):
            self._since = None
        elif self._since is None:
            self._since = now
        elif now - self._since > CLIENT_SECONDS:
            self.transport.abort()
