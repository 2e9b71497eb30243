"""The process of a server: its socket, its signals, and its end.

SIGTERM and SIGINT end it when all requests are answered, with exit status 0. A second one cuts them off, and ends it
after the present batch. SIGHUP loads the model folders that were replaced.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import resource
import signal
import socket
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import uvicorn
from starlette.routing import Router

from deepnmt.errors import UserError, os_message, user_message
from deepnmt.serving.connection import CLIENT_SECONDS, MOST_CONNECTIONS, LimitedConnection
from deepnmt.serving.directions import Directions
from deepnmt.serving.endpoints import Endpoints
from deepnmt.serving.guard import Guard, fault, is_loopback
from deepnmt.serving.metrics import Metrics
from deepnmt.serving.translations import Translations
from deepnmt.serving.waiting_batches import Batches
from deepnmt.serving.worker import Sentence

LOG = logging.getLogger(__name__)
# Files that a process needs beside its connections.
OTHER_FILES = 100


@dataclass(frozen=True)
class Settings:
    """How a server works.

    Attributes:
        host: name or address to listen on
        port: of it; 0: any free one
        wait: seconds that a sentence may wait for others
        buckets: greatest lengths of sentences that are translated together
        max_tokens: most subwords of a batch
        queue: most sentences of all requests
        timeout: seconds in which a request must be answered
        max_body: most bytes of a request's body
        keys: API keys; empty: none is needed
        origins: of pages that may use the server, beside its own
        split: translate the sentences of a line one by one
    """

    host: str
    port: int
    wait: float
    buckets: Sequence[int]
    max_tokens: int
    queue: int
    timeout: float
    max_body: int
    keys: Collection[str]
    origins: Collection[str]
    split: bool


class _Server(uvicorn.Server):
    """uvicorn's, which leaves the signals alone: its own status after a signal would say that it was killed."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.contextmanager
def early_reloads() -> Iterator[list[int]]:
    """Note each SIGHUP before the server hears it. It would end a process that still loads its models."""
    noted: list[int] = []
    before = signal.signal(signal.SIGHUP, lambda number, _: noted.append(number))
    try:
        yield noted
    finally:
        signal.signal(signal.SIGHUP, before)


def serve(directions: Directions, settings: Settings, sock: socket.socket, early: Collection[int]) -> None:
    """Serve at a bound socket until a signal, and reload at once after an early one."""
    # From now on clients wait, and are not refused.
    sock.listen(MOST_CONNECTIONS)
    # Models and libraries are no garbage, but are looked through for it again and again.
    gc.collect()
    gc.freeze()
    asyncio.run(_serve(directions, settings, sock, early))


def application(directions: Directions, settings: Settings, address: str) -> tuple[Guard, Endpoints]:
    """Return the application of an event loop, and its part that a reload concerns. Their thread has begun.

    Args:
        directions: models
        settings: all but host and port
        address: to listen on; only a loopback address limits the names by which requests may call the server
    """
    metrics = Metrics()
    batches: Batches[Sentence] = Batches(settings.wait, settings.buckets, settings.max_tokens)
    translations = Translations(batches, settings.queue, metrics)
    endpoints = Endpoints(directions, translations, metrics, settings.timeout, settings.keys, settings.split)
    routes = endpoints.routes()
    paths = frozenset(route.path for route in routes)
    local = {settings.host.lower()} if is_loopback(address) else None
    # A redirection would lead a client of a proxy from HTTPS to HTTP.
    router = Router(routes, redirect_slashes=False)
    return Guard(router, settings.max_body, settings.origins, local, paths, metrics), endpoints


async def _serve(directions: Directions, settings: Settings, sock: socket.socket, early: Collection[int]) -> None:
    loop = asyncio.get_running_loop()
    guard, endpoints = application(directions, settings, sock.getsockname()[0])
    translations = endpoints.translations
    server = _Server(config(guard))

    def stop() -> None:
        server.force_exit, server.should_exit = server.should_exit, True
        translations.hurry()
        if server.force_exit:
            # Each answers that the server ends. Newer versions of asyncio wait for their connections.
            for task in server.server_state.tasks:
                task.cancel()
        LOG.info("stops after the present batch" if server.force_exit else "stops when all requests are answered")

    reloading: set[asyncio.Task[None]] = set()

    def reload() -> None:
        task = loop.create_task(_reload(endpoints))
        reloading.add(task)
        task.add_done_callback(reloading.discard)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    loop.add_signal_handler(signal.SIGHUP, reload)
    if early:
        reload()
    checks = loop.create_task(check_connections(server))
    names = ", ".join(direction.name for direction in directions.all)
    LOG.info("serves %s at http://%s", names, _address(sock))
    try:
        await server.serve([sock])
    finally:
        checks.cancel()
        ended = translations.stop()
    LOG.info("stopped" if ended else "stopped in the middle of the last batch, for which no client waits")
    if not ended:
        # An engine that computes while Python takes down its modules can end the process by SIGSEGV.
        logging.shutdown()
        os._exit(0)


def config(app: Guard) -> uvicorn.Config:
    """Return uvicorn's settings."""
    # Its lines of requests have their query, and its errors a traceback.
    logging.getLogger("uvicorn").setLevel(logging.CRITICAL)
    return uvicorn.Config(
        app,
        http=LimitedConnection,
        loop="auto",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=int(CLIENT_SECONDS),
    )


async def _reload(endpoints: Endpoints) -> None:
    try:
        renewed = await asyncio.to_thread(endpoints.directions.reload)
    except Exception as error:
        # The log must not lack a fault of any kind: the old models would go on without a word.
        message = user_message(error) or (os_message(error) if isinstance(error, OSError) else fault(error))
        for line in message.splitlines():
            LOG.error("models are not loaded again: %s", line)
        return
    endpoints.reloaded()
    endpoints.metrics.reloads += len(renewed)
    LOG.info("loaded again: %s", ", ".join(renewed) or "nothing, since no model folder was replaced")


async def check_connections(server: uvicorn.Server) -> None:
    """Cut connections that wait too long for their clients; never ends."""
    while True:
        await asyncio.sleep(1)
        now = asyncio.get_running_loop().time()
        for connection in list(server.server_state.connections):
            if isinstance(connection, LimitedConnection):
                connection.check(now)


def bound(host: str, port: int) -> socket.socket:
    """Return a socket that has an address, but does not listen yet. Raises `UserError` if the system refuses it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = MOST_CONNECTIONS + OTHER_FILES
    if soft < needed:
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (needed if hard == resource.RLIM_INFINITY else min(needed, hard), hard)
        )
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        sock = socket.socket(family, kind, protocol)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
    # A name that no host can have is a `UnicodeError`.
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"cannot listen on --host {host} --port {port}: {reason}") from None
    return sock


def _address(sock: socket.socket) -> str:
    host, port = sock.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
