"""The paths of a server: LibreTranslate's /translate, /detect and /languages, the page, and what operators read."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import hmac
import time
from collections.abc import Awaitable, Collection, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from deepnmt.serving.detection import Detector
from deepnmt.serving.directions import Direction, Directions
from deepnmt.serving.fields import AUTO, Fields, RefusedError
from deepnmt.serving.guard import ClientGoneError
from deepnmt.serving.language_names import language_name
from deepnmt.serving.layout import LINE, Layout, details
from deepnmt.serving.metrics import Metrics
from deepnmt.serving.openapi import DESCRIPTION
from deepnmt.serving.translations import QueueFullError, TextFaultError, Translations

PAGES = {
    "/": ("page.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
}
# Prometheus'.
TEXT_FORMAT = "text/plain; version=0.0.4; charset=utf-8"
# Seconds between two looks whether a client is still there.
POLL = 0.25
T = TypeVar("T")


@dataclass
class Endpoints:
    """Answers requests.

    Args:
        directions: models
        translations: the queue
        metrics: counters
        timeout: seconds in which a request must be answered
        keys: API keys; empty: none is needed
        split: translate the sentences of a line one by one
    """

    directions: Directions
    translations: Translations
    metrics: Metrics
    timeout: float
    keys: Collection[str] = ()
    split: bool = True
    _digests: list[bytes] = field(init=False)

    def __post_init__(self) -> None:
        self._digests = [_digest(key) for key in self.keys]
        self.detector = Detector(self.directions.sources)

    def reloaded(self) -> None:
        """Follow the models, which were loaded again."""
        if self.detector.languages != self.directions.sources:
            self.detector = Detector(self.directions.sources)

    def routes(self) -> list[Route]:
        """Return all paths."""
        return [
            *(Route(path, functools.partial(_file, *file)) for path, file in PAGES.items()),
            Route("/translate", self.translate, methods=["POST"]),
            Route("/detect", self.detect, methods=["POST"]),
            Route("/languages", self.languages),
            Route("/openapi.json", lambda request: JSONResponse(DESCRIPTION)),
            Route("/health", lambda request: JSONResponse({"status": "ok"})),
            Route("/metrics", lambda request: Response(self.metrics.text(), media_type=TEXT_FORMAT)),
            Route("/settings", self.settings),
        ]

    async def translate(self, request: Request) -> Response:
        """Translate a text or a list of texts."""
        fields = await self._fields(request)
        detected = self.detector.ranked("\n".join(fields.texts)) if fields.source == AUTO else []
        direction = self._direction(detected[0][0] if detected else fields.source, fields.target)
        beam = direction.translator.search.beam
        if fields.alternatives >= beam:
            raise RefusedError(400, f"'alternatives' must be from 0 to {beam - 1}, but is {fields.alternatives}")
        # Each line has a sentence at least, and is found sooner.
        self._check_number(sum(len(LINE.findall(text)) for text in fields.texts))
        layouts = [Layout.of(text, direction, self.split) for text in fields.texts]
        sentences = [sentence for layout in layouts for sentence in layout.sentences]
        self._check_number(len(sentences))
        work = self.translations.translate(direction, sentences, 1 + fields.alternatives)
        try:
            results = await self._while_connected(request, work)
        except QueueFullError:
            raise RefusedError(503, "too many sentences wait; try again") from None
        except TextFaultError as error:
            raise RefusedError(400, f"sentence {error.args[0] + 1} is {error.args[1]}") from None
        answers, start = [], 0
        for layout in layouts:
            found = results[start : start + len(layout.sentences)]
            start += len(found)
            texts = layout.texts(found)
            answer: dict[str, Any] = {"translatedText": texts[0]}
            if fields.alternatives:
                answer["alternatives"] = texts[1:]
            if fields.details:
                answer["sentences"] = [details(*each) for each in zip(layout.sentences, found) if each[1].source]
            answers.append(answer)
        if detected:
            language = {"language": detected[0][0], "confidence": _percent(detected[0][1])}
            for answer in answers:
                answer["detectedLanguage"] = language
        return JSONResponse(_joined(answers) if fields.several else answers[0])

    async def detect(self, request: Request) -> Response:
        """Tell the language of a text."""
        fields = await self._fields(request)
        ranked = self.detector.ranked("\n".join(fields.texts))
        return JSONResponse([{"language": name, "confidence": _percent(share)} for name, share in ranked])

    async def languages(self, request: Request) -> Response:
        """List the languages."""
        return JSONResponse(
            [
                {"code": source, "name": language_name(source), "targets": self.directions.targets(source)}
                for source in self.directions.sources
            ]
        )

    async def settings(self, request: Request) -> Response:
        """Tell the page its choices."""
        beams = {direction.name: direction.translator.search.beam for direction in self.directions.all}
        return JSONResponse({"keyRequired": bool(self._digests), "beams": beams})

    async def _fields(self, request: Request) -> Fields:
        """Return the fields of a request with a valid key, if one is needed."""
        fields = Fields.read(await request.body(), request.headers.get("content-type", ""))
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        given = _digest(token if kind.lower() == "bearer" else fields.key)
        # All keys are compared, each in constant time, so that the time tells nothing of them.
        equal = [hmac.compare_digest(given, digest) for digest in self._digests]
        if self._digests and not any(equal):
            raise RefusedError(403, "a valid API key is needed, as 'api_key' or as 'Authorization: Bearer KEY'")
        return fields

    def _direction(self, source: str, target: str) -> Direction:
        direction = self.directions.find(source, target)
        if direction is None:
            names = ", ".join(direction.name for direction in self.directions.all)
            raise RefusedError(400, f"'source' and 'target' must be one of {names}; 'source' may be {AUTO}")
        return direction

    def _check_number(self, sentences: int) -> None:
        most = self.translations.limit
        if sentences > most:
            raise RefusedError(413, f"a request must have at most {most} sentences, but has at least {sentences}")

    async def _while_connected(self, request: Request, work: Awaitable[T]) -> T:
        """Return the result of work, which is cancelled when its client leaves or its time is over."""
        task = asyncio.ensure_future(work)
        end = time.monotonic() + self.timeout
        try:
            while True:
                done, _ = await asyncio.wait({task}, timeout=min(POLL, max(0.0, end - time.monotonic())))
                if done:
                    return task.result()
                if await request.is_disconnected():
                    raise ClientGoneError
                if time.monotonic() >= end:
                    raise RefusedError(504, f"no translation within {self.timeout:g} seconds")
        finally:
            task.cancel()


def _joined(answers: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the answers of several texts as one, with a list for each field."""
    return {name: [answer[name] for answer in answers] for name in (answers[0] if answers else ("translatedText",))}


def _percent(share: float) -> float:
    return round(100 * share, 1)


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def _file(name: str, kind: str, request: Request) -> Response:
    return Response(_content(name), media_type=kind)


@functools.lru_cache(maxsize=8)
def _content(name: str) -> bytes:
    return files("deepnmt.serving").joinpath("page", name).read_bytes()
