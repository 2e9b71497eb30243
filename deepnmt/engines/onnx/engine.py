"""The onnx engine: a model of this package in ONNX Runtime, without torch or fairseq.

Files of its model folders: encoder.onnx and step.onnx. `deepnmt/engines/onnx/graphs.py` describes their inputs and
outputs.

With narrow models, each thread searches its own share of a batch: threads that shared one would wait for each other in
every product. Wide models are fastest when all threads compute one product.

Shapes: N sentences of M hypotheses; S source positions; P positions so far. E entries are the keys of a sentence's
hypotheses in all steps so far, beginning with the first step (one entry of each sentence).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from deepnmt.engines.engine import Hypothesis, SearchSettings
from deepnmt.engines.model_folder import ModelFolder
from deepnmt.engines.onnx.search import PADDING, Floats, Integers, Limits, Move, Prediction, Step, beam_search
from deepnmt.errors import UserError
from deepnmt.search.shortlist import Shortlist
from deepnmt.text.dictionary import END, SPECIAL_SYMBOLS, read_types
from deepnmt.text.in_order import cores
from deepnmt.text.record import SHORTLIST

ENCODER, STEP = "encoder.onnx", "step.onnx"
# The key of the facts about the model, in JSON, in the graph of a step.
FACTS = "deepnmt"
# Channels of the widest models of which threads search shares of a batch, and the least sentences of a share.
NARROW, SHARE = 256, 4
UNKNOWN = SPECIAL_SYMBOLS.index("<unk>")
Arrays = dict[str, Any]


def load(folder: ModelFolder, threads: int | None) -> OnnxEngine:
    """Return the engine of a model folder.

    Raises:
        UserError: a graph cannot be read, or its number of types differs from a dictionary's
    """
    dictionaries = [folder.dictionary(lang) for lang in (folder.source_lang, folder.target_lang)]
    source, target = map(read_types, dictionaries)
    threads = threads or cores()
    encoder = session(folder.path / ENCODER, 1)
    searching, computing = (threads, 1) if _width(encoder) <= NARROW else (1, threads)
    if computing > 1:
        encoder = session(folder.path / ENCODER, computing)
    step = session(folder.path / STEP, computing)
    for name, graph, output in ((ENCODER, encoder, "source_mask"), (STEP, step, "best_types")):
        outputs = [entry.name for entry in graph.get_outputs()]
        if output not in outputs or FACTS not in graph.get_modelmeta().custom_metadata_map:
            raise UserError(f"{folder.path / name}: must be the graph that deepnmt export names so, but is another")
    shortlist = folder.shortlist()
    if (shortlist is not None) != ("unused" in [entry.name for entry in step.get_inputs()]):
        raise UserError(f"{folder.path}: {STEP} and {SHORTLIST} must be of one export; export the model again")
    engine = OnnxEngine(encoder, step, source, target, shortlist, searching)
    for path, side, types in zip(dictionaries, ("source", "target"), (source, target)):
        # Graphs of earlier versions lack it.
        if (known := engine.facts.get(f"{side}_types", len(types))) != len(types):
            raise UserError(f"{path}: must have the {known} types of the model, but has {len(types)}")
    return engine


class OnnxEngine:
    """See `deepnmt.engines.engine.Engine`.

    Args:
        encoder, step: sessions of both graphs
        source, target: types by their numbers
        shortlist: of the step
        threads: that search at the same time
    """

    def __init__(
        self,
        encoder: Any,
        step: Any,
        source: Sequence[str],
        target: Sequence[str],
        shortlist: Shortlist | None = None,
        threads: int = 1,
    ) -> None:
        self.encoder, self.step, self.shortlist, self.threads = encoder, step, shortlist, threads
        self.source, self.target = _numbers(source), _numbers(target)
        self.types = list(target)
        self.facts: dict[str, int] = json.loads(step.get_modelmeta().custom_metadata_map[FACTS])
        # The end symbol takes a position; in the target, fairseq leaves one more free.
        self.longest = self.facts["source_positions"] - 1
        self.longest_target = self.facts["target_positions"] - 1

    def check(self, settings: SearchSettings) -> None:
        """See `Engine`."""
        settings.without_more("onnx")

    def search(self, sentences: Sequence[Sequence[str]], settings: SearchSettings) -> list[list[Hypothesis]]:
        """See `Engine`."""
        settings.without_more("onnx")
        if not sentences:
            return []
        longest = int(settings.max_len_a * (max(map(len, sentences)) + 1) + settings.max_len_b)
        limits = Limits(settings.beam, min(longest, self.longest_target), settings.lenpen, len(self.types))
        number = max(1, min(self.threads, len(sentences) // SHARE))
        shares = [sentences[first::number] for first in range(number)]
        results: list[list[Hypothesis]] = [[] for _ in sentences]
        with ThreadPoolExecutor(number) as pool:
            for first, found in enumerate(pool.map(partial(self._searched, limits=limits), shares)):
                results[first::number] = found
        return [found[: settings.nbest] for found in results]

    def _searched(self, sentences: Sequence[Sequence[str]], limits: Limits) -> list[list[Hypothesis]]:
        tokens = _padded([[*_encoded(sentence, self.source), END] for sentence in sentences])
        columns = None if self.shortlist is None else Columns.of_sources(self.shortlist, tokens)
        found = beam_search(OnnxSteps(self.encoder, self.step, tokens, columns), len(tokens), limits)
        return [list(map(self._hypothesis, entries)) for entries in found]

    def score(self, sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]) -> list[list[float]]:
        """See `Engine`."""
        if not sources:
            return []
        tokens = _padded([[*_encoded(each, self.source), END] for each in sources])
        columns = None if self.shortlist is None else Columns.of_all_types(self.shortlist, len(tokens))
        steps = OnnxSteps(self.encoder, self.step, tokens, columns)
        expected = _padded([[*_encoded(target, self.target), END] for target in targets])
        rows = np.arange(len(expected))
        previous, log_probs = np.full_like(rows, END), []
        for position, asked in enumerate(expected.T):
            mask = np.zeros((len(rows), 1, position + 1), dtype=np.float32)
            prediction = steps(Step(previous[:, np.newaxis], position, mask, rows, asked[:, np.newaxis], best=1))
            log_probs.append(prediction.asked[:, 0])
            previous = asked
        found = np.stack(log_probs, axis=1).tolist()
        return [row[: len(target) + 1] for row, target in zip(found, targets)]

    def _hypothesis(self, found: Any) -> Hypothesis:
        # fairseq does not print them either.
        tokens = [self.types[number] for number in found.types if number not in (END, 0)]
        return Hypothesis(tokens, found.score, found.total)


class Columns:
    """The types of a step's columns with shortlists: D common ones, and P further ones of each sentence, N x P.

    Args:
        common: D
        further: N x P; or 1 x P for all sentences
        unused: N x 1 x P, -inf in unused places, else 0
        whole: whether they are the whole vocabulary
    """

    def __init__(self, common: Integers, further: Integers, unused: Floats, whole: bool = False) -> None:
        self.further, self.unused, self.whole = further, unused, whole
        together = [np.broadcast_to(common, (len(further), len(common))), further]
        self.types: Integers = np.concatenate(together, axis=1)  # N x (D + P)

    @classmethod
    def of_sources(cls, shortlist: Shortlist, tokens: Integers) -> Columns:
        """Return the columns for the search of sources, N x S."""
        types, used = shortlist.further(tokens)
        unused = np.where(used, np.float32(0), np.float32(-np.inf))[:, np.newaxis]
        return cls(shortlist.common, types, unused)

    @classmethod
    def of_all_types(cls, shortlist: Shortlist, sentences: int) -> Columns:
        """Return columns for the whole vocabulary."""
        rest = shortlist.rest()[np.newaxis]
        return cls(shortlist.common, rest, np.zeros((sentences, 1, rest.shape[1]), np.float32), whole=True)

    def asked(self, types: Integers) -> Integers:
        """Return the columns of types, N x M: of any with the whole vocabulary, otherwise of special symbols."""
        return self.types[0].argsort()[types] if self.whole else types

    def of(self, columns: Integers) -> Integers:
        """Return the types of columns, N x M x n."""
        rows = np.arange(len(self.types))[:, np.newaxis, np.newaxis]
        found: Integers = self.types[rows, columns]
        return found

    def keep(self, move: Move) -> None:
        """See `Steps.keep`."""
        self.types = move.of(self.types)


class OnnxSteps:
    """The decoder during the search of one batch; see `deepnmt.engines.onnx.search.Steps`.

    Args:
        encoder: the session of a graph
        step: another
        tokens: sources, N x S
        columns: with shortlists
    """

    def __init__(self, encoder: Any, step: Any, tokens: Integers, columns: Columns | None = None) -> None:
        self.session, self.columns = step, columns
        outputs = [output.name for output in encoder.get_outputs()]
        given: Arrays = {"tokens": tokens} if columns is None else {"tokens": tokens, "further": columns.further}
        source = dict(zip(outputs, encoder.run(outputs, given)))
        if columns is not None:
            source["unused"] = columns.unused
        self.inputs = {entry.name: entry for entry in step.get_inputs()}
        self.outputs = [output.name for output in step.get_outputs()]
        self.source = {name: array for name, array in source.items() if name in self.inputs}
        self.kept: Arrays = {
            name: self._nothing(name, len(tokens)) for name in self.inputs if f"next_{name}" in self.outputs
        }

    def __call__(self, step: Step) -> Prediction:
        """See `Steps`."""
        columns = self.columns
        given: Arrays = {
            "tokens": step.tokens,
            "position": np.array([step.position]),
            "asked": step.asked if columns is None else columns.asked(step.asked),
            "best": np.array([step.best if columns is None else min(step.best, columns.types.shape[1])]),
            "mask": step.mask[:, np.newaxis],
            "parents": step.parents,
        }
        if "ages" in self.inputs:
            given["ages"] = _ages(step)
        given = {name: array for name, array in given.items() if name in self.inputs}
        found = dict(zip(self.outputs, self.session.run(self.outputs, {**given, **self.source, **self.kept})))
        self.kept = {name: found[f"next_{name}"] for name in self.kept}
        types = found["best_types"] if columns is None else columns.of(found["best_types"])
        return Prediction(found["best_log_probs"], types, found["asked_log_probs"])

    def keep(self, move: Move) -> None:
        """See `Steps`."""
        self.source = {name: move.of(array) for name, array in self.source.items()}
        if self.columns is not None:
            self.columns.keep(move)
        for name, array in self.kept.items():
            # The parents select among rows of hypotheses.
            if self.inputs[name].shape[0] != "rows_before":
                self.kept[name] = move.of(array)

    def _nothing(self, name: str, sentences: int) -> Floats:
        """Return the kept values before the first step."""
        shape = self.inputs[name].shape
        sizes = [sentences, *(0 if isinstance(size, str) else size for size in shape[1:])]
        return np.zeros(sizes, dtype=np.float32)


def _ages(step: Step) -> Integers:
    """Return the position of each entry less the newest, E."""
    hypotheses = step.tokens.shape[1]
    later = np.repeat(np.arange(1, step.position + 1), hypotheses)
    return np.concatenate([[0], later]) - step.position


def _width(encoder: Any) -> int:
    """Return the channels of a model, by the keys and values that its encoder gives."""
    shapes = (output.shape for output in encoder.get_outputs())
    return max(math.prod(size for size in shape if isinstance(size, int)) for shape in shapes)


def session(path: Path, threads: int) -> Any:
    """Return the session of a graph, with a number of threads for each product.

    Raises:
        UserError: the file is missing, or ONNX Runtime cannot read it
    """
    if not path.is_file():
        raise UserError(f"{path}: no such file")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = threads
    # Threads that wait for work must not take processor time.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # Where the processor lacks VNNI, sums of int8 products would overflow.
    options.add_session_config_entry("session.x64quantprecision", "1")
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # of many kinds, which share no base class of their own
        reason = str(error).splitlines()[0]
        raise UserError(f"{path}: must be a graph that ONNX Runtime reads, but is not: {reason}") from error


def _numbers(types: Sequence[str]) -> Mapping[str, int]:
    return {name: number for number, name in enumerate(types)}


def _encoded(sentence: Sequence[str], numbers: Mapping[str, int]) -> list[int]:
    return [numbers.get(token, UNKNOWN) for token in sentence]


def _padded(rows: Sequence[Sequence[int]]) -> Integers:
    """Return rows of numbers as one array, padded on the right."""
    array = np.full((len(rows), max(map(len, rows))), PADDING)
    for row, numbers in enumerate(rows):
        array[row, : len(numbers)] = numbers
    return array
