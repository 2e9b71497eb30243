"""The bounded queue of a server: sentences in, results out, for coroutines."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from deepnmt.serving.directions import Direction
from deepnmt.serving.metrics import Metrics
from deepnmt.serving.waiting_batches import Batches
from deepnmt.serving.worker import Results, Sentence, Worker
from deepnmt.translator.translator import Translated


class QueueFullError(Exception):
    """More sentences wait than the queue may have."""


class TextFaultError(Exception):
    """A sentence cannot be translated. Its arguments are the sentence's position, from 0, and the reason."""


@dataclass(eq=False)
class _Request:
    """The sentences of one request, and its results so far."""

    done: asyncio.Future[list[Translated]]
    results: dict[Sentence, Translated] = field(default_factory=dict)
    sentences: list[Sentence] = field(default_factory=list)


class Translations:
    """Translates the sentences of all requests together. Belongs to one event loop.

    Args:
        batches: rules by which sentences wait for each other
        limit: most sentences of all requests, including the present batch
        metrics: counts them
    """

    def __init__(self, batches: Batches[Sentence], limit: int, metrics: Metrics) -> None:
        self.limit, self._metrics = limit, metrics
        self._loop = asyncio.get_running_loop()
        self._worker = Worker(batches, lambda results: self._loop.call_soon_threadsafe(self._deliver, results))
        self._worker.start()

    def hurry(self) -> None:
        """Let no sentence wait for others any more, since the server ends."""
        self._worker.hurry()

    def stop(self) -> bool:
        """End the thread that translates, and return whether its last batch was short enough to wait for."""
        return self._worker.stop()

    async def translate(self, direction: Direction, texts: Sequence[str], nbest: int) -> list[Translated]:
        """Return the results of sentences, in order. After a cancellation, sentences that wait are dropped.

        Raises:
            QueueFullError: there is no room for them now
            TextFaultError: a sentence is too long, or otherwise not for this model
            Exception: the engine's
        """
        if not texts:
            return []
        if self._metrics.waiting + len(texts) > self.limit:
            raise QueueFullError
        request = _Request(self._loop.create_future())
        request.sentences = [Sentence(text, direction, nbest, request) for text in texts]
        self._metrics.waiting += len(texts)
        try:
            self._worker.submit(request.sentences)
            return await request.done
        finally:
            self._metrics.waiting -= len(texts)
            if len(request.results) < len(texts):
                self._worker.drop(request)

    def _deliver(self, results: Results) -> None:
        self._metrics.count_batch([sentence.line for sentence, _ in results])
        for sentence, result in results:
            request = sentence.owner
            assert isinstance(request, _Request)
            if request.done.done():
                continue
            if isinstance(result, Exception):
                request.done.set_exception(result)
                continue
            if result.fault:
                request.done.set_exception(TextFaultError(request.sentences.index(sentence), result.fault))
                continue
            request.results[sentence] = result
            if len(request.results) == len(request.sentences):
                request.done.set_result([request.results[each] for each in request.sentences])
