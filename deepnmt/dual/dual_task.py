"""The task `deep_dual`: both directions of a `dlcl_dual` learn from text of one language, beside the pairs."""

# No postponed annotations here: fairseq builds its command line from the types of the fields.

import copy
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

import torch
from fairseq.data import Dictionary
from fairseq.tasks import register_task
from fairseq.utils import split_paths

from deepnmt.checkpoints.data_fit import check_language_model
from deepnmt.criterions.dual_supervised import PASSES, Pass
from deepnmt.criterions.minimum_risk import LONGEST, unwrapped
from deepnmt.data.companions import MONO, SOURCE, TARGET
from deepnmt.dual.back_translated import back_translated
from deepnmt.dual.policy_gradient import policy_passes
from deepnmt.errors import UserError
from deepnmt.model.dual import BWD, FWD
from deepnmt.options.dual_rules import OF_TASK, TASK
from deepnmt.options.option_table import TRAINING, described, option, range_faults
from deepnmt.search import fusion
from deepnmt.translation_task import DeepTranslationConfig, DeepTranslationTask

# Who translates the text of a side, and who translates back.
DIRECTIONS = {SOURCE: (FWD, BWD), TARGET: (BWD, FWD)}
LANGUAGE_MODELS = {SOURCE: "target_lm", TARGET: "source_lm"}


@dataclass
class DeepDualConfig(DeepTranslationConfig):
    """The options of `deep_translation`, and the options of learning from text of one language."""

    lambda_otf: float = described(0.0, "weight of the pairs that each direction translates for the other; 0: none")
    lambda_dual: float = described(0.0, "weight of dual learning by policy gradient; 0: none")
    dual_samples: int = described(2, "translations of a sentence that --lambda-dual samples, at least 2")
    dual_lm_share: float = described(0.01, "share of the language model in the reward of --lambda-dual, from 0 to 1")
    source_lm: Optional[str] = described(None, "language model of the source, for --lambda-dual with target text")
    target_lm: Optional[str] = described(None, "language model of the target, for --lambda-dual with source text")


class DeepDualTask(DeepTranslationTask):
    """Translate in both directions, and learn from `--mono`: a batch of one language, then of the other, in turn.

    Raises:
        UserError: every option that is out of range, a line each
    """

    def __init__(self, cfg: DeepDualConfig, src_dict: Dictionary, tgt_dict: Dictionary) -> None:
        own = {name: getattr(cfg, name, None) for name in OF_TASK}
        if faults := [f"--{name} {rest}" for name, rest in range_faults(own, TRAINING)]:
            raise UserError(*faults)
        super().__init__(cfg, src_dict, tgt_dict)
        # The model, and its generators by direction and kind.
        self.searches: tuple[Any, dict[tuple[str, bool], Any]] = (None, {})
        self.language_models: dict[str, Any] = {}

    def mono_languages(self) -> dict[str, str]:
        """Return both languages, by their sides of the pairs."""
        return {SOURCE: self.cfg.source_lang, TARGET: self.cfg.target_lang}

    def load_dataset(self, split: str, epoch: int = 1, combine: bool = False, **kwargs: Any) -> None:
        """Load a subset. Raises `UserError` if --mono or a language model is missing, or cannot be used."""
        super().load_dataset(split, epoch=epoch, combine=combine, **kwargs)
        if not combine or split == "valid":
            return
        if not self.cfg.mono:
            raise UserError(f"--mono must be given with --task {TASK}, but is not")
        if self.cfg.lambda_dual and not self.language_models:
            text = self.datasets[split][0][MONO]
            self.language_models = {side: self._language_model(side) for side in text}
            for side, name in LANGUAGE_MODELS.items():
                if getattr(self.cfg, name) and side not in text:
                    raise UserError(f"{option(name)} needs --mono with text of the {side}")

    def _language_model(self, side: str) -> Any:
        """Return the model of the translations' language for text of a side; None where it has no share."""
        name = LANGUAGE_MODELS[side]
        path = getattr(self.cfg, name)
        if not self.cfg.dual_lm_share:
            return None
        if not path:
            raise UserError(f"{option(name)} must be given with --lambda-dual and text of the {side}, but is not")
        data = split_paths(self.cfg.data)[0]
        language = self.cfg.target_lang if side == SOURCE else self.cfg.source_lang
        try:
            check_language_model(Path(path), Path(data), language)
        except UserError as error:
            raise UserError(*(f"{option(name)}: {line}" for line in str(error).splitlines())) from None
        # It moves to the device of its first batch.
        return fusion.load_language_model(path, data, torch.empty(0))

    def train_step(
        self, sample: Any, model: Any, criterion: Any, optimizer: Any, update_num: int, *more: Any, **options: Any
    ) -> Any:
        """Train on one batch of pairs, and on the passes that the text beside it gives."""
        if MONO in sample:
            sample = {**sample, PASSES: list(self.passes(sample[MONO], unwrapped(model), update_num))}
        return super().train_step(sample, model, criterion, optimizer, update_num, *more, **options)

    def passes(self, text: dict[str, Any], model: Any, update: int) -> Iterator[Pass]:
        """Yield the passes of an update over text by its side, B x T; of two sides, one has its turn."""
        side = sorted(text)[update % len(text)]
        first, second = DIRECTIONS[side]
        symbols = self.src_dict.pad(), self.src_dict.eos()
        if self.cfg.lambda_otf:
            search = self.generator(model, first, sampling=False)
            weight = self.cfg.lambda_otf
            yield back_translated(search, getattr(model, first), second, text[side], weight, *symbols)
        if self.cfg.lambda_dual:
            search = self.generator(model, first, sampling=True)
            like, language_model = next(model.parameters()), self.language_models[side]
            if language_model is not None:
                language_model.to(like.device, like.dtype)
            share, weight = self.cfg.dual_lm_share, self.cfg.lambda_dual
            yield from policy_passes(
                search, model, (first, second), text[side], language_model, share, weight, *symbols
            )

    def generator(self, model: Any, direction: str, sampling: bool) -> Any:
        """Return the greedy search of one of the models, or its sampling."""
        if self.searches[0] is not model:
            self.searches = model, {}
        known = self.searches[1]
        if (direction, sampling) not in known:
            task: Any = self
            if direction == BWD:
                cfg = copy.deepcopy(self.cfg)
                cfg.source_lang, cfg.target_lang = cfg.target_lang, cfg.source_lang
                task = DeepTranslationTask(cfg, self.tgt_dict, self.src_dict)
            number = self.cfg.dual_samples if sampling else 1
            # A sample may be empty: leaving these out would change the probabilities of the others.
            options = Namespace(beam=number, nbest=number, sampling=sampling, min_len=0 if sampling else 1, **LONGEST)
            more = {"draws": sampling}
            known[direction, sampling] = task.build_generator([getattr(model, direction)], options, None, more)
        return known[direction, sampling]


def register() -> None:
    """Register the task with fairseq, for `--task`."""
    register_task(TASK, dataclass=DeepDualConfig)(DeepDualTask)
