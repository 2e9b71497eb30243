"""The torch engine with fairseq: all models of fairseq and of this package, one or an ensemble, and all search options.

`engine.py` opens most model folders without it.
"""

from __future__ import annotations

import logging
import math
import threading
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Optional, TypeVar

import torch
from fairseq import checkpoint_utils
from fairseq.data.data_utils import collate_tokens
from fairseq.models.nat import FairseqNATModel
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from torch import Tensor

import deepnmt
from deepnmt.checkpoints.file import read
from deepnmt.engines.engine import Hypothesis, SearchSettings, Value
from deepnmt.engines.padding import scored_by_length
from deepnmt.errors import UserError
from deepnmt.kernels.threads import threads_for
from deepnmt.options.option_table import option
from deepnmt.search import fusion, right_to_left
from deepnmt.search.constraints import BY_OPTION
from deepnmt.search.generator import BeamGenerator
from deepnmt.search.options import SearchOptions, faults_of
from deepnmt.search.reduced import reduce_products
from deepnmt.search.shortlist import Shortlist
from deepnmt.search.supported import check_shortlist
from deepnmt.text.data_folder import one_name

# Options that need the probabilities of all types.
UNLISTED = ("datastore", "lm_path", "lm_weight")
T = TypeVar("T")


def load_checkpoints(
    paths: Sequence[Path],
    dictionaries: Path,
    languages: tuple[str, str],
    threads: int | None = None,
    device: str | None = None,
    weights: str = "float32",
    shortlist: Shortlist | None = None,
) -> TorchEngine:
    """Return the engine of one or several checkpoints.

    Args:
        paths: of the checkpoints
        dictionaries: the folder of the dictionaries
        languages: of source and target
        threads: for torch; None: no limit
        device: of torch; None: the GPU if there is one
        weights: type of the numbers; the checkpoints' own type if they belong to an exported model
        shortlist: of the model folder, if it has one

    Raises:
        UserError: a checkpoint cannot be read, the processor cannot compute with such weights, or a model cannot have
            shortlists or is not autoregressive
    """
    deepnmt.register()
    # fairseq reports every step.
    logging.getLogger("fairseq").setLevel(logging.WARNING)
    if threads is not None:
        torch.set_num_threads(threads)
    for path in paths:
        read(path)
    models, task = [], None
    with one_name(dictionaries) as data:
        overrides = {"data": str(data), "source_lang": languages[0], "target_lang": languages[1]}
        for path in paths:
            state = checkpoint_utils.load_checkpoint_to_cpu(str(path), overrides)
            found, _, task = checkpoint_utils.load_model_ensemble_and_task([str(path)], overrides, task, state=state)
            if isinstance(found[0], FairseqNATModel):
                raise UserError(f"{path}: is not autoregressive; use deepnmt generate --task translation_lev")
            models += found
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    engine = TorchEngine(models, task, dictionaries, device, shortlist)
    for model in models:
        reduce_products(model, weights)
    return engine


class TorchEngine:
    """See `deepnmt.engines.engine.Engine`; on a GPU it computes in half precision, as deepnmt generate does.

    Args:
        models: one, or an ensemble
        task: fairseq's, with the dictionaries
        data: the folder of the dictionaries
        device: of torch
        shortlist: of the search; None: the whole vocabulary

    Raises:
        UserError: a model cannot have shortlists
    """

    def __init__(
        self, models: Sequence[Any], task: Any, data: Path, device: str, shortlist: Shortlist | None = None
    ) -> None:
        self.models, self.device, self.shortlist = list(models), torch.device(device), shortlist
        self.source, self.target = task.source_dictionary, task.target_dictionary
        self.right_to_left: bool = getattr(task, "right_to_left", False)
        self.left_pad: bool = task.cfg.left_pad_source
        self.data = data
        # The last one, and its path.
        self._fused: tuple[str, Any] | None = None
        for model in self.models:
            model.make_generation_fast_(beamable_mm_beam_size=None, need_attn=False)
            if self.device.type != "cpu":
                model.half()
            model.to(self.device).eval()
            if shortlist is not None:
                check_shortlist(model)
        # Without Transformer decoders, it is not known which models are narrow.
        self.channels = max(getattr(model.decoder, "output_embed_dim", math.inf) for model in self.models)
        # The end symbol takes a position.
        positions = zip(*(model.max_positions() for model in self.models))
        self.longest, self.longest_target = (int(min(each)) - 1 for each in positions)
        # One search uses all of torch's threads: several at once would take turns, with several times the memory.
        self._lock = threading.Lock()
        self._last: tuple[SearchSettings, BeamGenerator] | None = None

    def check(self, settings: SearchSettings) -> None:
        """See `Engine`."""
        self._parts(settings)

    def search(self, sentences: Sequence[Sequence[str]], settings: SearchSettings) -> list[list[Hypothesis]]:
        """See `Engine`."""
        if not sentences:
            return []
        with self._lock, threads_for(len(sentences) * settings.beam, self.channels), torch.no_grad():
            found = self._generator(settings).forward({"net_input": self._sources(sentences)})
        return [[self._hypothesis(entry) for entry in entries[: settings.nbest]] for entries in found]

    def score(self, sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]) -> list[list[float]]:
        """See `Engine`."""
        with self._lock, torch.no_grad():
            return scored_by_length(self._scores, sources, targets)

    def _scores(self, sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]) -> list[list[float]]:
        """Return the same of one batch."""
        eos, pad = self.target.eos(), self.target.pad()
        numbers = [[self.target.index(token) for token in self._turned(words)] + [eos] for words in targets]
        expected = collate_tokens(list(map(torch.tensor, numbers)), pad).to(self.device)
        previous = collate_tokens(list(map(torch.tensor, numbers)), pad, eos, move_eos_to_beginning=True)
        inputs = {**self._sources(sources), "prev_output_tokens": previous.to(self.device)}
        each = [
            model.get_normalized_probs(model(**inputs), log_probs=True).gather(2, expected.unsqueeze(2)).float()
            for model in self.models
        ]
        picked = (torch.stack(each).logsumexp(0) - math.log(len(each))).squeeze(2).tolist()
        rows = [row[: len(sentence)] for row, sentence in zip(picked, numbers)]
        return [[*self._turned(row[:-1]), row[-1]] for row in rows]

    def _generator(self, settings: SearchSettings) -> BeamGenerator:
        """Return the search; the previous call's search if the settings are the same, since a new one takes 20 ms."""
        if self._last is not None and self._last[0] == settings:
            return self._last[1]
        options, args, language_model = self._parts(settings)
        generator: BeamGenerator = BeamGenerator(
            self.models,
            self.target,
            beam_size=settings.beam,
            max_len_a=settings.max_len_a,
            max_len_b=settings.max_len_b,
            len_penalty=settings.lenpen,
            options=options,
            attention=False,
            lm_model=language_model,
            lm_weight=args.lm_weight,
            shortlist=self.shortlist,
        ).to(self.device)
        self._last = settings, generator
        return generator

    def _parts(self, settings: SearchSettings) -> tuple[SearchOptions, Namespace, Optional[Any]]:
        """Return the package's options, fairseq's, and the language model. Raises `UserError`, a line a fault."""
        more = dict(settings.more)
        path, weight = more.pop("lm_path", None), more.pop("lm_weight", 0.0)
        options, faults = _search_options(more)
        args = Namespace(lenpen=settings.lenpen, lm_path=path, lm_weight=0.0)
        language_model = None
        try:
            args.lm_weight = float(weight)
            language_model = None if path is None else self._language_model(str(path))
            faults += fusion.option_faults(args, language_model, self.target)
        except UserError as error:  # of a checkpoint, whose fault may be a ValueError, too
            faults += str(error).splitlines()
        except ValueError:
            faults.append(f"--lm-weight: must be a number, but is {weight}")
        faults += faults_of(options, args, self.models, language_model)
        if self.shortlist is not None:
            unlisted = [name for name in settings.more if name in (*UNLISTED, *BY_OPTION)]
            faults += [f"{option(name)} cannot be combined with the shortlists of the model" for name in unlisted]
        if self.right_to_left:
            faults += right_to_left.option_faults(args)
        if faults:
            raise UserError(*faults)
        return options, args, language_model

    def _language_model(self, path: str) -> Any:
        """Return the language model of a checkpoint, which is loaded once as long as it stays the same."""
        if self._fused is None or self._fused[0] != path:
            with one_name(self.data) as data:
                model = fusion.load_language_model(path, str(data), next(self.models[0].parameters()))
            model.make_generation_fast_(beamable_mm_beam_size=None, need_attn=False)
            self._fused = path, model
        return self._fused[1]

    def _sources(self, sentences: Sequence[Sequence[str]]) -> dict[str, Tensor]:
        eos, index = self.source.eos(), self.source.index
        numbers = [torch.tensor([*map(index, sentence), eos]) for sentence in sentences]
        tokens = collate_tokens(numbers, self.source.pad(), left_pad=self.left_pad)
        lengths = torch.tensor([len(each) for each in numbers])
        return {"src_tokens": tokens.to(self.device), "src_lengths": lengths.to(self.device)}

    def _hypothesis(self, found: dict[str, Any]) -> Hypothesis:
        # As fairseq prints them.
        left_out = (self.target.eos(), self.target.bos())
        tokens = [self.target[number] for number in found["tokens"].tolist() if number not in left_out]
        # With a language model or weighted models, `score` is not part of the sum.
        log_prob = float(found["positional_scores"].double().sum())
        return Hypothesis(self._turned(tokens), float(found["score"]), log_prob)

    def _turned(self, words: Sequence[T]) -> list[T]:
        """Turn a list with an entry per target word from text order to the model's order, or back."""
        return list(words[::-1] if self.right_to_left else words)


def _search_options(values: Mapping[str, Value]) -> tuple[SearchOptions, list[str]]:
    """Return the package's own options, and the faults in their names and the types of their values."""
    options, faults = OmegaConf.structured(SearchOptions), []
    for name, value in values.items():
        if name not in SearchOptions.__dataclass_fields__:
            faults.append(f"{name}: no such search option")
            continue
        try:
            options[name] = value
        except OmegaConfBaseException:
            faults.append(f"--{name.replace('_', '-')}: must be as docs/search.md says, but is {value}")
    return SearchOptions.of(options), faults
