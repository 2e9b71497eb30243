"""The torch engine of model folders: without fairseq, whose import takes seconds, if the folder's record allows it.

Files of its model folders: model.safetensors, a fairseq checkpoint without the optimizer's state; an ensemble adds
model2.safetensors, ... Earlier versions wrote model.pt, model2.pt, ... Large weights are in 16 bits, or in int8 with
scales, where the folder says so.

`fairseq_engine.py` computes all other models, and on a GPU, and searches with the options of `docs/search.md`.
"""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from deepnmt.checkpoints.packed import scale_faults, unpacked
from deepnmt.checkpoints.state import SCALES, CheckpointState
from deepnmt.engines.engine import Engine, Hypothesis, SearchSettings
from deepnmt.engines.model_folder import RECORD, TORCH_FILES, ModelFolder
from deepnmt.engines.padding import numbers, padded
from deepnmt.engines.torch.inference_model import PADDING, InferenceModel
from deepnmt.errors import UserError
from deepnmt.kernels.malloc import keep_freed_memory
from deepnmt.kernels.products import WHOLE
from deepnmt.kernels.short_attention import REGISTER
from deepnmt.kernels.threads import threads_for
from deepnmt.search.beam import beam_search
from deepnmt.search.constraints import Forbidden, LengthRange, StepRule
from deepnmt.search.ensemble import EnsembleSteps, MeanProbability
from deepnmt.search.hypotheses import Hypotheses
from deepnmt.search.incremental.attention_steps import Step
from deepnmt.search.incremental.decoder_steps import DecoderSteps
from deepnmt.search.incremental.listed_output import ListedOutput
from deepnmt.search.incremental.maps import maps_of
from deepnmt.search.incremental.output_steps import OutputSteps
from deepnmt.search.reduced import reduce_products
from deepnmt.search.scores import HypothesisScore, PowerPenalty
from deepnmt.search.stop_rules import BeamFinished
from deepnmt.text.dictionary import END, SPECIAL_SYMBOLS, read_types

START = SPECIAL_SYMBOLS.index("<s>")


def load(folder: ModelFolder, threads: int | None) -> Engine:
    """Return the engine of a model folder. Raises `UserError` if a model cannot be read."""
    weights, paths = folder.weights, model_files(folder.path)

    def whole() -> Engine:
        # here, since it imports fairseq
        from deepnmt.engines.torch.fairseq_engine import load_checkpoints

        languages = folder.source_lang, folder.target_lang
        # Products of fewer bits are for the CPU alone.
        device = None if folder.weights in WHOLE else "cpu"
        return load_checkpoints(paths, folder.path, languages, threads, device, weights, folder.shortlist())

    on_gpu = folder.weights in WHOLE and torch.cuda.is_available()
    if on_gpu or len(folder.architecture.get("models", ())) != len(paths):
        return whole()
    if threads is not None:
        torch.set_num_threads(threads)
    return InferenceEngine(folder, paths, weights, whole)


def model_files(folder: Path) -> list[Path]:
    """Return the models of a folder, in their order."""
    first, earlier = (folder / name for name in TORCH_FILES)
    ending = earlier.suffix if earlier.is_file() and not first.is_file() else first.suffix
    paths = [folder / f"model{ending}"]
    while (path := folder / f"model{len(paths) + 1}{ending}").is_file():
        paths.append(path)
    return paths


class InferenceEngine:
    """See `Engine`; on the CPU.

    Args:
        folder: whose record describes the models
        paths: of the models
        weights: type of the numbers
        whole: returns the engine with fairseq

    Raises:
        UserError: a model cannot be read, or is not the one of the record
    """

    def __init__(self, folder: ModelFolder, paths: Sequence[Path], weights: str, whole: Callable[[], Engine]) -> None:
        source, target = (read_types(folder.dictionary(each)) for each in (folder.source_lang, folder.target_lang))
        self.source, self.target = ({name: number for number, name in enumerate(types)} for types in (source, target))
        self.types, self.left_pad = target, bool(folder.architecture["left_pad_source"])
        self.models: list[InferenceModel] = []
        for path, options in zip(paths, folder.architecture["models"]):
            tensors = _tensors(path)
            try:
                model = InferenceModel(options, tensors, (len(source), len(target)))
            except UserError as error:
                raise UserError(f"{folder.path / RECORD}: {error}") from error
            reduce_products(model, weights)
            self.models.append(model)
        self.channels = max(model.decoder.embed_tokens.embedding_dim for model in self.models)
        self.shortlist = folder.shortlist()
        # The end symbol takes a position.
        self.longest = min(model.encoder.longest for model in self.models) - 1
        self.longest_target = min(model.decoder.longest for model in self.models) - 1
        # One search uses all of torch's threads: several at once would take turns, with several times the memory.
        self._lock = threading.Lock()
        self._make_whole = whole

    @functools.cached_property
    def _whole(self) -> Engine:
        """The engine with fairseq, for options and numbers that only it can treat."""
        return self._make_whole()

    def check(self, settings: SearchSettings) -> None:
        """See `Engine`."""
        if settings.more:
            self._whole.check(settings)

    def search(self, sentences: Sequence[Sequence[str]], settings: SearchSettings) -> list[list[Hypothesis]]:
        """See `Engine`."""
        if not sentences:
            return []
        found = None
        if not settings.more:
            rows = len(sentences) * settings.beam
            with self._lock, threads_for(rows, self.channels), torch.no_grad():
                found = self._searched(sentences, settings)
        if found is None:
            return self._whole.search(sentences, settings)
        return [[self._hypothesis(entry) for entry in entries[: settings.nbest]] for entries in found]

    def score(self, sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]) -> list[list[float]]:
        """See `Engine`."""
        if not sources:
            return []
        asked = padded([numbers(target, self.target) for target in targets])  # N x T
        tokens, rows = torch.full((len(asked), 1), END), []
        with self._lock, threads_for(len(sources), self.channels), torch.no_grad():
            steps = self._steps(self._sources(sources), 1, asked.size(1))
            for position, expected in enumerate(asked.t()):
                hidden = max(0, REGISTER - position - 1)
                mask = pad(torch.zeros(len(asked), 1, position + 1), (0, hidden), value=-math.inf)
                parents = torch.zeros_like(tokens) if position else None
                log_probs = steps(tokens, Step(position, len(asked), 1, mask, parents=parents)).log_probs
                tokens = expected.unsqueeze(1)
                rows.append(log_probs.gather(1, tokens))
        found: list[list[float]] = torch.cat(rows, dim=1).tolist()
        return [row[: len(target) + 1] for row, target in zip(found, targets)]

    def _searched(
        self, sentences: Sequence[Sequence[str]], settings: SearchSettings
    ) -> list[list[dict[str, Tensor]]] | None:
        """Return the finished hypotheses, or None if a log-probability is not a number."""
        keep_freed_memory()
        source = self._sources(sentences)
        longest = min(int(settings.max_len_a * source.size(1) + settings.max_len_b), self.longest_target)
        # Padding is never chosen.
        beam = min(settings.beam, len(self.types) - 1)
        listed = None if self.shortlist is None else ListedOutput(self.shortlist, source, self.models)
        types = len(self.types) if listed is None else listed.width
        steps = self._steps(source, beam, longest + 1, listed)
        score = HypothesisScore(PowerPenalty(settings.lenpen), None)
        hypotheses = Hypotheses(torch.full((len(source),), END), beam, longest, END, score)
        rules: list[StepRule] = [Forbidden(PADDING), LengthRange(END, 1, longest)]
        with torch.inference_mode():
            found = beam_search(steps, hypotheses, rules, BeamFinished(beam), types, listed)
        return hypotheses.best() if found else None

    def _steps(self, source: Tensor, beam: int, longest: int, output: OutputSteps | None = None) -> EnsembleSteps:
        """Return the decoders of a batch of sources, N x S, for a beam and a number of steps."""
        decoders = [
            DecoderSteps(model.decoder, model.encoder(source), beam, longest, maps_of(model)) for model in self.models
        ]
        output = output or OutputSteps(1.0, shared=len(decoders) == 1)
        return EnsembleSteps(self.models, decoders, output, MeanProbability(), attended=False)

    def _sources(self, sentences: Sequence[Sequence[str]]) -> Tensor:
        return padded([numbers(sentence, self.source) for sentence in sentences], self.left_pad)

    def _hypothesis(self, found: Mapping[str, Tensor]) -> Hypothesis:
        # As fairseq prints them.
        tokens = [self.types[number] for number in found["tokens"].tolist() if number not in (END, START)]
        return Hypothesis(tokens, float(found["score"]), float(found["positional_scores"].double().sum()))


def _tensors(path: Path) -> Mapping[str, Tensor]:
    """Return copies of a model's tensors in float32: the file, from which they are mapped, may be overwritten."""
    state = CheckpointState.of(path)
    scales = state.contents.get(SCALES, {})
    if faults := list(scale_faults(scales, state.tensors())):
        raise UserError(*(f"{path}: {fault}" for fault in faults))
    copies: dict[tuple[Any, ...], Tensor] = {}
    found: dict[str, Tensor] = {}
    for name, tensor in unpacked(state.tensors(), scales).items():
        # Two names of one tensor have one copy.
        place = tensor.data_ptr(), tuple(tensor.shape), tensor.stride()
        copies[place] = found[name] = copies[place] if place in copies else tensor.clone()
    return found
