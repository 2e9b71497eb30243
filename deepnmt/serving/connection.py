"""uvicorn's connection with limits that it lacks: a client can neither hold it open nor fill the memory.

uvicorn waits for ever for the rest of a request's head, and for a client that does not read its answer. Its fast parser
takes a head of any size.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

# Seconds in which a client must send a head, send a body, or read an answer.
CLIENT_SECONDS = 10.0
MOST_CONNECTIONS = 1_000
MOST_HEAD_BYTES = 16_384
BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\nconnection: close\r\n"
    b'content-length: 41\r\n\r\n{"error": "too many connections at once"}'
)


class LimitedConnection(HttpToolsProtocol):
    """A connection of a client; `check` is called every second."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._in_head, self._head_bytes = True, 0
        self._since: float | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See uvicorn."""
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            transport.write(BUSY)
            transport.close()

    def data_received(self, data: bytes) -> None:
        """See uvicorn."""
        if self.transport.is_closing():
            return
        super().data_received(data)
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > MOST_HEAD_BYTES and not self.transport.is_closing():
                self.send_400_response("The head of the request is too large.")

    def on_message_begin(self) -> None:
        """See uvicorn."""
        super().on_message_begin()
        self._in_head, self._head_bytes = True, 0

    def on_headers_complete(self) -> None:
        """See uvicorn."""
        self._in_head, self._since = False, None
        super().on_headers_complete()

    def check(self, now: float) -> None:
        """Cut the connection if it has waited too long for its client."""
        idle = self.cycle is None or self.cycle.response_complete
        if not (idle or self._in_head or self.flow.write_paused or self.transport.is_closing()):
            self._since = None
        elif self._since is None:
            self._since = now
        elif now - self._since > CLIENT_SECONDS:
            self.transport.abort()
