"""A server's application in this process: a small ASGI client, and models that echo their source."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from deepnmt.engines.engine import Hypothesis, SearchSettings
from deepnmt.serving.directions import Direction, Directions
from deepnmt.serving.endpoints import Endpoints
from deepnmt.serving.metrics import Metrics
from deepnmt.serving.server import Settings, application
from deepnmt.text.pipeline import TextPipeline
from deepnmt.text.settings import TextSettings
from deepnmt.translator.translator import Translator

KNOWN = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.,!?"
FORM = "application/x-www-form-urlencoded"
SETTINGS = Settings(
    host="127.0.0.1", port=0, wait=0.0, buckets=(10, 20), max_tokens=1_000, queue=100, timeout=30.0, max_body=10_000,
    keys=(), origins=(), split=True,
)  # fmt: skip
T = TypeVar("T")


class Echo:
    """An engine that repeats a sentence; its n-th best translation lacks the first n - 1 subwords.

    While it is not `open`, searches wait.
    """

    longest = 40

    def __init__(self) -> None:
        self.open, self.batches = threading.Event(), list[list[str]]()
        self.open.set()

    def check(self, settings: SearchSettings) -> None:
        """Everything goes."""

    def search(self, sentences: Sequence[Sequence[str]], settings: SearchSettings) -> list[list[Hypothesis]]:
        assert self.open.wait(60)
        self.batches.append(["".join(sentence).replace("@@", "") for sentence in sentences])
        return [
            [Hypothesis([*each[lack:]], -float(len(each))) for lack in range(min(settings.nbest, len(each)))]
            for each in sentences
        ]

    def score(self, sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]) -> list[list[float]]:
        raise NotImplementedError


def echo(folder: Path, languages: tuple[str, str] = ("de", "en"), **search: Any) -> Translator:
    """Return a translator that repeats its text; it knows ASCII letters."""
    folder.mkdir(exist_ok=True)
    (folder / "codes").write_text("#version: 0.2\nq q\n")
    (folder / "dict").write_text("".join(f"{sign}{end} 1\n" for sign in KNOWN for end in ("", "@@")))
    pipeline = TextPipeline.of(TextSettings(*languages), folder / "codes")
    return Translator.of_parts(pipeline, Echo(), SearchSettings(**search), folder / "dict")


class Models(Directions):
    """Directions without model folders."""

    def __init__(self, *translators: Translator) -> None:
        found = [Direction(Path(str(number)), b"", each) for number, each in enumerate(translators)]
        self._all = {direction.languages: direction for direction in found}


@dataclass
class Answer:
    """What a client received."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    def json(self) -> Any:
        """Return the content."""
        return json.loads(self.body)


@dataclass
class Client:
    """Sends requests to an ASGI application as a server would."""

    app: Any

    async def request(
        self,
        method: str,
        path: str,
        body: bytes | Sequence[bytes] = b"",
        headers: Mapping[str, str] | None = None,
        leave: asyncio.Event | None = None,
    ) -> Answer:
        """Return the answer.

        Args:
            body: in parts, if it is a sequence; a part None never arrives
            leave: when it is set, the client is gone
        """
        parts = [body] if isinstance(body, bytes) else [*body]
        given = {"host": "localhost:5000", **(headers or {})}
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
            "path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "",
            "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in given.items()],
            "server": ("127.0.0.1", 5000), "client": ("127.0.0.1", 1), "state": {},
        }  # fmt: skip
        answer, gone = Answer(), leave or asyncio.Event()

        async def receive() -> dict[str, Any]:
            if parts and parts[0] is not None:
                return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Mapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                assert not answer.status
                answer.status = message["status"]
                answer.headers = {name.decode(): value.decode() for name, value in message["headers"]}
            else:
                answer.body += message.get("body", b"")

        await self.app(scope, receive, send)
        return answer

    async def post(self, path: str, fields: object, **headers: str) -> Answer:
        """Return the answer to a JSON object."""
        kind = {"content-type": "application/json"}
        return await self.request("POST", path, json.dumps(fields).encode(), {**kind, **headers})

    async def translate(self, text: object, **fields: object) -> Answer:
        """Return the answer to a text or a list of texts, from de to en."""
        return await self.post("/translate", {"q": text, "source": "de", "target": "en", **fields})


@dataclass
class Served:
    """A running server without its sockets."""

    client: Client
    endpoints: Endpoints

    @property
    def metrics(self) -> Metrics:
        """Its counters."""
        return self.endpoints.metrics


@asynccontextmanager
async def serving(*translators: Translator, address: str = "127.0.0.1", **settings: Any) -> AsyncIterator[Served]:
    """Run a server of models in this process, with `SETTINGS` and some in their place."""
    guard, endpoints = application(Models(*translators), dataclasses.replace(SETTINGS, **settings), address)
    try:
        yield Served(Client(guard), endpoints)
    finally:
        endpoints.translations.stop()


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine, for at most a minute."""
    return asyncio.run(asyncio.wait_for(work, 60))


async def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    end = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < end
        await asyncio.sleep(0.005)
