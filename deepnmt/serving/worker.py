"""The thread that translates: it encodes what arrives, waits for a batch, searches, and hands the results back.

After a second without work, it returns the memory of large batches to the system.
"""

from __future__ import annotations

import dataclasses
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from deepnmt.kernels.malloc import return_freed_memory
from deepnmt.serving.directions import Direction
from deepnmt.serving.waiting_batches import Batches
from deepnmt.translator.translator import Translated, rated_search

LOG = logging.getLogger(__name__)
STOP_SECONDS = 10
IDLE_SECONDS = 1.0


@dataclass(eq=False)
class Sentence:
    """A sentence of a request.

    Attributes:
        text: raw
        direction: model that translates it
        nbest: number of translations
        owner: the request
        line: its subwords, once encoded
        arrived: seconds of the monotonic clock
    """

    text: str
    direction: Direction
    nbest: int
    owner: object
    arrived: float = field(default_factory=time.monotonic)
    line: Translated = field(default_factory=lambda: Translated([], [], []))

    @property
    def length(self) -> int:
        """Subwords and the end symbol."""
        return len(self.line.source) + 1

    @property
    def kind(self) -> tuple[object, ...]:
        """Sentences of one kind can be searched together.

        A translation's greatest length may depend on the longest source of its batch. Then sources have one length.
        """
        search = self.direction.translator.search
        return self.direction, self.nbest, self.length if search.max_len_a else 0


# For each sentence its result, or the fault that prevented one.
Results = Sequence[tuple[Sentence, "Translated | Exception"]]


class Worker:
    """Translates sentences in a thread of its own.

    Args:
        batches: that wait; used under the lock alone
        deliver: receives the results of a batch, or of one sentence that needs no search; called in the thread
    """

    def __init__(self, batches: Batches[Sentence], deliver: Callable[[Results], object]) -> None:
        self._batches, self._deliver = batches, deliver
        self._changed = threading.Condition()
        self._arrived: deque[Sentence] = deque()
        self._stops = False
        self._thread = threading.Thread(target=self._run, name="translations", daemon=True)

    def start(self) -> None:
        """Begin to translate."""
        self._thread.start()

    def stop(self) -> bool:
        """End after the present batch, and return whether this took less than `STOP_SECONDS`."""
        with self._changed:
            self._stops = True
            self._changed.notify()
        self._thread.join(STOP_SECONDS)
        return not self._thread.is_alive()

    def hurry(self) -> None:
        """Let no sentence wait for others any more."""
        with self._changed:
            self._batches.wait = 0.0
            self._changed.notify()

    def submit(self, sentences: Sequence[Sentence]) -> None:
        """Let sentences wait for translation."""
        with self._changed:
            self._arrived += sentences
            self._changed.notify()

    def drop(self, owner: object) -> None:
        """Forget all sentences of a request that are not in the present batch."""
        with self._changed:
            self._arrived = deque(sentence for sentence in self._arrived if sentence.owner is not owner)
            self._batches.drop(lambda sentence: sentence.owner is owner)

    def _run(self) -> None:
        worked = False  # since memory was last returned
        while True:
            with self._changed:
                due, called = self._batches.due(time.monotonic()), True
                if not (self._arrived or self._stops or due == 0):
                    called = self._changed.wait(IDLE_SECONDS if worked and due is None else due)
                if self._stops:
                    return
                arrived = len(self._arrived)
            if worked and due is None and not called:
                return_freed_memory()
                worked = False
            for _ in range(arrived):
                self._encode_next()
            with self._changed:
                batch = self._batches.take(time.monotonic())
            if batch:
                self._deliver(self._translated(batch))
                worked = True

    def _encode_next(self) -> None:
        """Encode the sentence that arrived first. It keeps its place meanwhile, in which `drop` finds it."""
        with self._changed:
            if self._stops or not self._arrived:
                return
            sentence = self._arrived[0]
        searched = self._encoded(sentence)
        with self._changed:
            if self._arrived and self._arrived[0] is sentence:
                self._arrived.popleft()
                if searched:
                    self._batches.add(sentence)

    def _encoded(self, sentence: Sentence) -> bool:
        """Encode a sentence, and return whether it is to be searched; others have their result at once."""
        try:
            sentence.line = sentence.direction.translator.encoded(sentence.text)
        except BaseException as error:
            self._deliver([(sentence, _fault(error))])
            return False
        if sentence.line.translations:
            self._deliver([(sentence, sentence.line)])
            return False
        return True

    def _translated(self, batch: Sequence[Sentence]) -> Results:
        try:
            return list(zip(batch, self._searched(batch)))
        except BaseException as error:
            if len(batch) == 1:
                return [(batch[0], _fault(error))]
        # One sentence must not take the others with it.
        return [result for sentence in batch for result in self._translated([sentence])]

    @staticmethod
    def _searched(batch: Sequence[Sentence]) -> list[Translated]:
        translator = batch[0].direction.translator
        settings = dataclasses.replace(translator.search, nbest=batch[0].nbest)
        found = rated_search(translator.engine, [sentence.line.source for sentence in batch], settings)
        return [translator.decoded(sentence.line, hypotheses) for sentence, hypotheses in zip(batch, found)]


def _fault(error: BaseException) -> Exception:
    """Return a fault that a future can have. A panic of a library in Rust is no `Exception`, but must end no thread."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    return RuntimeError(type(error).__name__).with_traceback(error.__traceback__)
