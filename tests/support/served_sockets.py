"""A server with real sockets in a thread of this process, without its signals."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from deepnmt.serving import server
from deepnmt.translator.translator import Translator
from support.serving import serving


@contextmanager
def sockets(*translators: Translator, **options: Any) -> Iterator[int]:
    """Serve models, and give the port."""
    ready, stop = threading.Event(), threading.Event()
    sock = server.bound("127.0.0.1", 0)
    sock.listen()

    async def work() -> None:
        async with serving(*translators, **options) as served:
            running = uvicorn.Server(server.config(served.client.app))
            checks = asyncio.ensure_future(server.check_connections(running))

            async def end() -> None:
                await asyncio.to_thread(stop.wait, 60)
                running.should_exit = True

            ending = asyncio.ensure_future(end())
            ready.set()
            await running.serve([sock])
            checks.cancel()
            await ending

    thread = threading.Thread(target=lambda: asyncio.run(work()))
    thread.start()
    try:
        assert ready.wait(30)
        yield sock.getsockname()[1]
    finally:
        stop.set()
        thread.join(30)
        assert not thread.is_alive()


def connected(port: int) -> socket.socket:
    """Return a connection to a server on this machine."""
    return socket.create_connection(("127.0.0.1", port), timeout=20)


def received(connection: socket.socket) -> bytes:
    """Return all that a server sends until it closes."""
    parts: list[bytes] = []
    while True:
        try:
            part = connection.recv(65_536)
        except ConnectionResetError:
            part = b""
        if not part:
            return b"".join(parts)
        parts.append(part)
