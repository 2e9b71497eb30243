"""The task `deep_translation`: fairseq's `translation`, with the options of this package's search.

fairseq's options of generation are one dataclass that a plug-in cannot extend. A task's options reach `fairseq-train`,
`fairseq-generate` and `fairseq-interactive` by themselves. A checkpoint trained with `translation` works as well, since
these commands take the task from the command line. Without options of its own, the task acts as `translation`. It also
takes the training sets `train`, `train1`, ... once each, where fairseq's default fails.
"""

# No postponed annotations here: fairseq builds its command line from the types of the fields.

import copy
import json
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Optional

from fairseq.data import Dictionary
from fairseq.dataclass import ChoiceEnum
from fairseq.sequence_scorer import SequenceScorer
from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from fairseq.utils import split_paths
from omegaconf import II
from torch import Tensor

from deepnmt.criterions.loss_watch import gathered, watched
from deepnmt.criterions.weighted_losses import weighted
from deepnmt.data.companions import TARGET, with_companions
from deepnmt.data.curriculum import CompetentPairs
from deepnmt.data.dynamic_sampling import LOSSES, PairLosses
from deepnmt.data.training_text import TrainingTextOptions, cut_anew, in_order, losses_of, ranks_of
from deepnmt.data.weighted_pairs import WEIGHTS, requested_weights
from deepnmt.errors import UserError
from deepnmt.options.option_table import MATMUL_HELP, MATMUL_PRECISIONS, TRAINING, described, range_faults
from deepnmt.recipe.order_rules import NAMES, order_faults
from deepnmt.search import fusion, right_to_left
from deepnmt.search.constraint_file import WholeWordConstraints, read_constraints
from deepnmt.search.generator import BeamGenerator
from deepnmt.search.nbest_output import translations
from deepnmt.search.options import SearchOptions, faults_of
from deepnmt.search.right_to_left import ReversedTargets, turned_hypothesis, turned_targets
from deepnmt.text.record import read_record, selected_on
from deepnmt.text.settings import RECORD
from deepnmt.training.weight_penalty import penalised

# The mark of a model that translates from right to left in a checkpoint's `task_state`; other models lack it.
RIGHT_TO_LEFT = "right_to_left"


@dataclass
class DeepTranslationConfig(SearchOptions, TrainingTextOptions, TranslationConfig):  # type: ignore[misc]
    """fairseq's options of `translation`, `SearchOptions`, `TrainingTextOptions`, and further options of training."""

    # fmt: off
    validate_average: int = described(
        1, "weights averaged for validation: current ones and the last N - 1 checkpoints (1: current)")
    right_to_left: bool = described(False, "train a model that writes translations from their end; checkpoints know it")
    float32_matmul_precision: ChoiceEnum(MATMUL_PRECISIONS) = described(  # type: ignore[valid-type]
        "highest", MATMUL_HELP)
    seed: int = II("common.seed")
    update_freq: list[int] = II("optimization.update_freq")  # noqa: RUF009
    l1: float = described(0.0, "weight of the sum of the absolute values of all matrices in the loss per token")
    l2: float = described(0.0, "weight of the sum of the squares of all matrices in the loss per token")
    mono: Optional[str] = described(
        None, "data folders of deepnmt binarise --mono, colon-separated: text of one language beside the pairs")
    constraint_file: Optional[str] = described(
        None, "file of required phrases in subwords, with tabs, a line per sentence (with --constraints)")
    nbest_file: Optional[str] = described(
        None, "file to which the --nbest translations of each sentence are appended, with features")
    # fmt: on


class DeepTranslationTask(TranslationTask):  # type: ignore[misc]
    """Translate from one language to another, by the search that the options request.

    Raises:
        UserError: --upsample-primary is not a number of copies, or options exclude each other
    """

    def __init__(self, cfg: DeepTranslationConfig, src_dict: Dictionary, tgt_dict: Dictionary) -> None:
        copies = cfg.upsample_primary
        # fairseq's default, with which it fails inside numpy as soon as there is a `train1` (its issue 3644).
        if copies == -1:
            cfg.upsample_primary = 1
        elif copies <= 0:
            raise UserError(f"--upsample-primary must be at least 1, but is {copies}")
        own = {name: getattr(cfg, name, None) for name in NAMES}
        if faults := [*range_faults(own, TRAINING), *order_faults(own)]:
            raise UserError(*(f"--{name} {rest}" for name, rest in faults))
        super().__init__(cfg, src_dict, tgt_dict)
        self.right_to_left = bool(cfg.right_to_left)
        self.seen: list[tuple[Tensor, Tensor]] = []  # numbers and losses of the pairs of an update
        self.loaded: list[bool] = []  # whether each model of an ensemble translates from right to left
        if self.right_to_left:
            self.state.merge_state_dict({RIGHT_TO_LEFT: True})
            if cfg.load_alignments:
                raise UserError("--load-alignments cannot be combined with --right-to-left")

    averaged: Any = None  # the model that is validated, where it is not the one that is trained
    averaged_generator: Any = None
    losses: Optional[PairLosses] = None  # of the training pairs, with --sample-share

    def validate_with(self, model: Any, weights: Optional[Mapping[str, Any]]) -> None:
        """Validate these weights from now on, by their names in a checkpoint; None: the model's own."""
        if weights is None:
            self.averaged = None
            return
        if self.averaged is None:
            self.averaged = copy.deepcopy(model).eval()
            if self.cfg.eval_bleu:
                options = Namespace(**json.loads(self.cfg.eval_bleu_args))
                self.averaged_generator = self.build_generator([self.averaged], options)
        self.averaged.load_state_dict(weights)

    def train_step(
        self,
        sample: Any,
        model: Any,
        criterion: Any,
        optimizer: Any,
        update_num: int,
        ignore_grad: bool = False,
        **more: Any,
    ) -> Any:
        """Train on one batch, with weights of pairs, a penalty on matrices and a record of losses where requested."""
        if WEIGHTS in sample:
            criterion = weighted(criterion)
        if self.cfg.l1 or self.cfg.l2:
            criterion = penalised(criterion, self.cfg.l1, self.cfg.l2)
        step = partial(super().train_step, sample, model, criterion, optimizer, update_num, ignore_grad, **more)
        if self.losses is None or ignore_grad:
            return step()
        with watched(model, sample, self.tgt_dict.pad()) as found:
            result = step()
        self.seen.append((sample["id"].cpu(), *found))
        return result

    def optimizer_step(self, optimizer: Any, model: Any, update_num: int) -> None:
        """Update the weights; then all processes know the losses of all pairs of the update."""
        super().optimizer_step(optimizer, model=model, update_num=update_num)
        if self.losses is not None:
            self.losses.record(*gathered(self.seen))
            self.seen.clear()

    def get_checkpoint_dict(self) -> dict[str, Any]:
        """Return entries for a checkpoint beside the position in the data; fairseq calls this."""
        return {} if self.losses is None else {LOSSES: self.losses.state()}

    def valid_step(self, sample: Any, model: Any, criterion: Any) -> Any:
        """Validate one batch."""
        if self.averaged is None:
            return super().valid_step(sample, model, criterion)
        stock = getattr(self, "sequence_generator", None)
        # Generators are bound to the model for which they were built.
        self.sequence_generator = self.averaged_generator
        try:
            return super().valid_step(sample, self.averaged, criterion)
        finally:
            self.sequence_generator = stock

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take the direction of a model from its checkpoint; fairseq calls this before it builds each.

        Raises:
            UserError: the direction differs from the command line's, or from another model's
        """
        direction = bool(state_dict.get(RIGHT_TO_LEFT))
        # First, since an engine takes the option from the first of several checkpoints.
        if self.loaded and direction != self.loaded[0]:
            raise UserError("--path: all models must be trained with --right-to-left, or none, but only some are")
        if self.cfg.right_to_left and not direction:
            raise UserError("--right-to-left cannot be used with a checkpoint that was trained without it")
        self.right_to_left = direction
        self.loaded.append(direction)
        super().load_state_dict(state_dict)

    def load_dataset(self, split: str, epoch: int = 1, combine: bool = False, **kwargs: Any) -> None:
        """Load a subset. Raises `UserError` if the data do not fit options of training."""
        super().load_dataset(split, epoch=epoch, combine=combine, **kwargs)
        dataset = self.datasets[split]
        # fairseq combines its training sets, and with --combine-valid-subsets the validation sets as `valid`.
        training = combine and split != "valid"
        if training:
            # By the text as it is before it is cut anew.
            ranks, sources = ranks_of(self.cfg, dataset), dataset.src
            self._note_selection()
            if self.cfg.constraint_file is not None:
                raise UserError("--constraint-file: must be given to fairseq-generate alone")
            self.datasets[split] = cut_anew(self.cfg, dataset, epoch, self.max_positions())
        if self.cfg.constraint_file is not None and not combine:
            dataset.constraints = read_constraints(Path(self.cfg.constraint_file), self.tgt_dict, len(dataset))
        if self.right_to_left and dataset.tgt is not None:
            dataset.tgt = ReversedTargets(dataset.tgt, self.tgt_dict)
        if training and self.cfg.mono:
            data, longest = Path(split_paths(self.cfg.data)[0]), min(self.max_positions())
            more = self.cfg.mono, data, self.mono_languages(), longest, self.cfg.seed
            self.datasets[split] = with_companions(self.datasets[split], dataset, *more)
        if training:
            weights = requested_weights(self.cfg, sources)
            self.losses = losses_of(self.cfg, dataset, self.losses)
            self.datasets[split] = in_order(self.cfg, self.datasets[split], weights, ranks, self.losses)

    def mono_languages(self) -> dict[str, str]:
        """Return the languages of --mono that are read, by their sides of the pairs."""
        return {TARGET: self.cfg.target_lang}

    def get_batch_iterator(self, dataset: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the batches of a subset."""
        if isinstance(dataset, CompetentPairs):
            dataset.processes = kwargs.get("num_shards", 1)
        return super().get_batch_iterator(dataset, *args, **kwargs)

    def build_dataset_for_inference(self, *args: Any, **kwargs: Any) -> Any:
        """Return lines of text for fairseq-interactive. Raises `UserError` for options that need a whole subset."""
        given = [f"--{name.replace('_', '-')}" for name in ("constraint_file", "nbest_file") if getattr(self.cfg, name)]
        if given:
            raise UserError(*(f"{name}: must be given to fairseq-generate alone" for name in given))
        return super().build_dataset_for_inference(*args, **kwargs)

    def _note_selection(self) -> None:
        """Record in checkpoints the texts whose likeness selected the training pairs."""
        paths = (Path(folder) / RECORD for folder in split_paths(self.cfg.data))
        records = [read_record(path) for path in paths if path.is_file()]
        self.state.merge_state_dict(selected_on([self.state_dict(), *records]))

    def build_generator(
        self,
        models: Any,
        args: Any,
        seq_gen_cls: Any = None,
        extra_gen_cls_kwargs: Optional[dict[str, Any]] = None,
        prefix_allowed_tokens_fn: Any = None,
    ) -> Any:
        """Build a generator. Raises `UserError` if options exclude each other, or do not fit the models."""
        self.nbest = int(getattr(args, "nbest", 1))
        for model in models:
            # A training builds its generator first; fairseq's does the same below.
            model.eval()
        options, more = SearchOptions.of(self.cfg), dict(extra_gen_cls_kwargs or {})
        given = options.given()
        if getattr(args, "lm_path", None) and "lm_model" not in more:
            # fairseq-generate alone has loaded it.
            like = next(models[0].parameters())
            more |= {
                "lm_model": fusion.load_language_model(args.lm_path, self.cfg.data, like),
                "lm_weight": getattr(args, "lm_weight", 0.0),
            }
        language_model = more.get("lm_model")
        faults = faults_of(options, args, models, language_model)
        faults += fusion.option_faults(args, language_model, self.tgt_dict)
        if self.cfg.constraint_file is not None and getattr(args, "constraints", None) != "unordered":
            faults.append("--constraint-file needs --constraints unordered")
        if self.right_to_left:
            faults += right_to_left.option_faults(args)
        if given and (seq_gen_cls is not None or prefix_allowed_tokens_fn is not None):
            faults.append(f"{', '.join(given)} cannot be combined with another search")
        if faults:
            raise UserError(*faults)
        if given:
            seq_gen_cls = BeamGenerator
            more["options"] = options
        generator = super().build_generator(models, args, seq_gen_cls, more, prefix_allowed_tokens_fn)
        if language_model is not None and not isinstance(generator, BeamGenerator):
            generator.max_len = min(generator.max_len, fusion.longest(language_model))
        if self.cfg.constraint_file is not None:
            generator.search = WholeWordConstraints(self.tgt_dict)
        return generator

    def inference_step(
        self, generator: Any, models: Any, sample: dict[str, Any], prefix_tokens: Any = None, constraints: Any = None
    ) -> Any:
        """Translate a batch, and append the lines that --nbest-file requests."""
        found = super().inference_step(generator, models, sample, prefix_tokens, constraints)
        found = self._left_to_right(generator, found, sample)
        if self.cfg.nbest_file is not None:
            axis = self._target_axis(generator)
            lines = translations(sample, found, self.target_dictionary, self.nbest, axis)
            with Path(self.cfg.nbest_file).open("a", encoding="utf-8") as file:
                file.writelines(f"{each.line()}\n" for each in lines)
        return found

    @staticmethod
    def _target_axis(generator: Any) -> int:
        """Return the target's axis in a hypothesis's attention."""
        return 0 if isinstance(generator, SequenceScorer) else 1

    def _left_to_right(self, generator: Any, found: Any, sample: dict[str, Any]) -> Any:
        """Return the found hypotheses; from right to left, they and the batch's targets are turned back."""
        if not self.right_to_left:
            return found
        if sample.get("target") is not None:
            # fairseq reads the references from the batch after the search.
            sample["target"] = turned_targets(sample["target"], self.tgt_dict)
        turned = partial(turned_hypothesis, dictionary=self.tgt_dict, axis=self._target_axis(generator))
        return [list(map(turned, hypotheses)) for hypotheses in found]

    def _inference_with_bleu(self, generator: Any, sample: dict[str, Any], model: Any) -> Any:
        # A copy, since a batch of the validation may occur again.
        return super()._inference_with_bleu(generator, dict(sample), model)


def register() -> None:
    """Register the task with fairseq, for `--task`."""
    register_task("deep_translation", dataclass=DeepTranslationConfig)(DeepTranslationTask)
