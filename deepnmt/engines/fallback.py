"""The torch weights in a folder of another engine: for machines without that engine, and for options that it lacks."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from deepnmt.engines.engine import Engine, Hypothesis, SearchSettings
from deepnmt.errors import UserError
from deepnmt.options.option_table import option

LOG = logging.getLogger(__name__)


class TorchWeights:
    """The torch engine of a model folder, loaded when it is first needed.

    Args:
        path: of the folder
        load: returns the engine
    """

    def __init__(self, path: Path, load: Callable[[], Engine]) -> None:
        self._path, self._load = path, load
        self._lock = threading.Lock()
        self._engine: Engine | None = None

    def engine(self, reason: str) -> Engine:
        """Return the engine; the first call logs the reason.

        Raises:
            UserError: its files are altered or cannot be read, or its libraries are missing
        """
        with self._lock:
            if self._engine is None:
                LOG.warning("%s: uses its torch weights%s", self._path, reason)
                try:
                    self._engine = self._load()
                except ModuleNotFoundError as error:
                    raise UserError(f"{self._path}: its torch weights need {error.name}") from error
            return self._engine


class WithFallback:
    """An engine, and the torch weights of its folder, which search with options that only torch knows."""

    def __init__(self, engine: Engine, fallback: TorchWeights) -> None:
        self.engine, self.fallback = engine, fallback
        self.longest = engine.longest

    def check(self, settings: SearchSettings) -> None:
        """See `Engine`."""
        self._for(settings).check(settings)

    def search(self, sentences: Sequence[Sequence[str]], settings: SearchSettings) -> list[list[Hypothesis]]:
        """See `Engine`."""
        return self._for(settings).search(sentences, settings)

    def score(self, sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]) -> list[list[float]]:
        """See `Engine`."""
        return self.engine.score(sources, targets)

    def _for(self, settings: SearchSettings) -> Engine:
        if not settings.more:
            return self.engine
        return self.fallback.engine(f" for {', '.join(map(option, settings.more))}")
