"""The task `deep_translation`: fairseq's `translation`, with the options of this package's search.

fairseq's options of generation are one dataclass that a plug-in cannot extend; those of a task reach `fairseq-train`,
`fairseq-generate` and `fairseq-interactive` by themselves. A checkpoint trained with `translation` works as well, since
these commands take the task from the command line. With no option of its own, the task does what `translation` does,
and takes the training sets `train`, `train1`, ... once each, where fairseq's default fails.
"""

# No postponed annotations here: fairseq builds its command line from the types of the fields.

import copy
import json
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

from fairseq.data import Dictionary
from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from deepnmt.errors import UserError
from deepnmt.search.generator import BeamGenerator
from deepnmt.search.nbest_output import translations
from deepnmt.search.options import SearchOptions, check


@dataclass
class DeepTranslationConfig(SearchOptions, TranslationConfig):  # type: ignore[misc]
    """fairseq's options of `translation`, `SearchOptions`, and what belongs to training."""

    validate_average: int = field(
        default=1,
        metadata={"help": "validate the mean of the weights and those of the last N - 1 checkpoints (1: the weights)"},
    )

    nbest_file: Optional[str] = field(
        default=None,
        metadata={"help": "append the --nbest translations of each sentence, with features, to this file"},
    )


class DeepTranslationTask(TranslationTask):  # type: ignore[misc]
    """Translate from one language to another, by the search that the options ask for.

    Raises:
        UserError: --upsample-primary is no number of copies
    """

    def __init__(self, cfg: DeepTranslationConfig, src_dict: Dictionary, tgt_dict: Dictionary) -> None:
        copies = cfg.upsample_primary
        # fairseq's default, with which it fails inside numpy as soon as there is a `train1` (its issue 3644).
        if copies == -1:
            cfg.upsample_primary = 1
        elif copies <= 0:
            raise UserError(f"--upsample-primary must be at least 1, but is {copies}")
        super().__init__(cfg, src_dict, tgt_dict)

    averaged: Any = None  # the model that is validated, where it is not the one that is trained
    averaged_generator: Any = None

    def validate_with(self, model: Any, weights: Optional[Mapping[str, Any]]) -> None:
        """Choose what is validated from now on.

        Args:
            model: that is trained
            weights: in its place, by their names in a checkpoint; None for the model itself
        """
        if weights is None:
            self.averaged = None
            return
        if self.averaged is None:
            self.averaged = copy.deepcopy(model).eval()
            if self.cfg.eval_bleu:
                options = Namespace(**json.loads(self.cfg.eval_bleu_args))
                self.averaged_generator = self.build_generator([self.averaged], options)
        self.averaged.load_state_dict(weights)

    def valid_step(self, sample: Any, model: Any, criterion: Any) -> Any:
        """Validate one batch."""
        if self.averaged is None:
            return super().valid_step(sample, model, criterion)
        stock = getattr(self, "sequence_generator", None)
        # Generators are bound to the model that they were built for.
        self.sequence_generator = self.averaged_generator
        try:
            return super().valid_step(sample, self.averaged, criterion)
        finally:
            self.sequence_generator = stock

    def build_generator(
        self,
        models: Any,
        args: Any,
        seq_gen_cls: Any = None,
        extra_gen_cls_kwargs: Optional[dict[str, Any]] = None,
        prefix_allowed_tokens_fn: Any = None,
    ) -> Any:
        """Build a generator.

        Raises:
            UserError: options exclude each other, or do not fit the models
        """
        self.nbest = int(getattr(args, "nbest", 1))
        options = SearchOptions.of(self.cfg)
        given = options.given()
        if given:
            check(options, args, models)
            if seq_gen_cls is not None or prefix_allowed_tokens_fn is not None:
                raise UserError(f"{', '.join(given)}: must not be given where another search is asked for")
            seq_gen_cls = BeamGenerator
            extra_gen_cls_kwargs = {**(extra_gen_cls_kwargs or {}), "options": options}
        return super().build_generator(models, args, seq_gen_cls, extra_gen_cls_kwargs, prefix_allowed_tokens_fn)

    def inference_step(
        self, generator: Any, models: Any, sample: dict[str, Any], prefix_tokens: Any = None, constraints: Any = None
    ) -> Any:
        """Translate a batch, and append what --nbest-file asks for."""
        found = super().inference_step(generator, models, sample, prefix_tokens, constraints)
        if self.cfg.nbest_file is not None:
            lines = translations(sample, found, self.target_dictionary, self.nbest)
            with Path(self.cfg.nbest_file).open("a", encoding="utf-8") as file:
                file.writelines(f"{each.line()}\n" for each in lines)
        return found


def register() -> None:
    """Register the task with fairseq, for `--task`."""
    register_task("deep_translation", dataclass=DeepTranslationConfig)(DeepTranslationTask)
