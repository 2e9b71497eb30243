"""Inspect a recipe or a checkpoint: build or load its model, and take real batches."""

import logging
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Optional

import numpy as np
import torch
from fairseq import checkpoint_utils, tasks, utils
from fairseq.data.data_utils import infer_language_pair
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models.nat import FairseqNATModel

import deepnmt
from deepnmt.criterions import distillation
from deepnmt.errors import UserError
from deepnmt.inspection.attention_similarity import similarities
from deepnmt.inspection.measure import inspect_model
from deepnmt.inspection.table import Report
from deepnmt.model.initializers import batch_initializer
from deepnmt.recipe import Option, read_recipe
from deepnmt.recipe.checking import check_recipe

logger = logging.getLogger(__name__)

# Hooks would see the layers twice; the results stay the same.
OFF = ("checkpoint-activations", "offload-activations")
# Tokens of a batch if a checkpoint limits neither tokens nor sentences, as an imported one.
TOKENS = 4096


class _Given(Option):
    """An option outside any file."""

    def __str__(self) -> str:
        return "given beside the recipe"


def inspect_recipe(
    path: Path,
    data: Path,
    label: Optional[str] = None,
    options: Optional[Mapping[str, str]] = None,
    batches: int = 4,
    subset: str = "train",
    seed: int = 1,
) -> Report:
    """Measure a new model as a recipe builds it, before its first update.

    An initialiser that needs batches, such as Admin, has seen the first one.

    Args:
        data: a folder made by fairseq-preprocess
        label: name of the report; by default the file's name
        options: as in a recipe; they override the recipe's options
        batches: greatest number of batches, from the start of the first epoch
        seed: of the weights, the order of the batches and dropout

    Raises:
        UserError, OSError: the recipe, an option or the data is faulty or missing
    """
    _check_data(data)
    cfg = _configuration(path, data, options or {})
    with torch.random.fork_rng():
        utils.set_torch_seed(seed)
        task = _set_up(cfg, data)
        model = task.build_model(cfg.model)
        found = _first_batches(task, model, cfg, batches, subset, seed)
        method = batch_initializer(model)
        if method is not None:
            utils.set_torch_seed(seed)
            method.set_weights(model, method.measure(model, found[0]["net_input"]))
        return inspect_model(model, task.build_criterion(cfg.criterion), found, label or path.stem, seed)


def inspect_checkpoint(
    path: Path, data: Path, label: Optional[str] = None, batches: int = 4, subset: str = "train", seed: int = 1
) -> Report:
    """Measure a trained model, with the criterion and batch size of its training, or batches of `TOKENS`.

    A distilled model's loss excludes the share of the teachers, whose files are not opened.

    Args:
        data: a folder made by fairseq-preprocess, with the dictionaries of the model's training
        label, batches: as for `inspect_recipe`
        seed: of the order of the batches and dropout

    Raises:
        UserError, OSError: the checkpoint or the data is faulty or missing, or they do not fit
    """
    with torch.random.fork_rng():
        model, cfg, task = _loaded(path, data, seed)
        found = _first_batches(task, model, cfg, batches, subset, seed)
        if getattr(cfg.criterion, "_name", None) == distillation.NAME:
            logger.warning(f"{path}: measured by the label-smoothed cross entropy alone, without the teachers' share")
            cfg.criterion.teacher_weight = 0.0
        criterion = task.build_criterion(cfg.criterion)
        if hasattr(criterion, "set_num_updates"):
            # A loss may change in the course of a training.
            state = checkpoint_utils.load_checkpoint_to_cpu(str(path))
            criterion.set_num_updates(state["optimizer_history"][-1]["num_updates"])
        return inspect_model(model, criterion, found, label or path.stem, seed)


def checkpoint_similarities(
    path: Path, data: Path, batches: int = 4, subset: str = "train", seed: int = 1
) -> list[list[float]]:
    """Return the similarities of a checkpoint's decoder layers; arguments and errors as in `inspect_checkpoint`."""
    with torch.random.fork_rng():
        model, cfg, task = _loaded(path, data, seed)
        found = _first_batches(task, model, cfg, batches, subset, seed)
    return similarities(model, found, task.target_dictionary.pad())


def _loaded(path: Path, data: Path, seed: int) -> tuple[Any, Any, Any]:
    """Return the model of a checkpoint, its configuration and its task."""
    _check_data(data)
    if not path.is_file():
        raise UserError(f"{path}: no such checkpoint")
    deepnmt.register()
    overrides = {"data": str(data), **{name.replace("-", "_"): False for name in OFF}}
    # Sublayer skipping draws by the seed with which the model was built.
    utils.set_torch_seed(seed)
    (model,), cfg, task = checkpoint_utils.load_model_ensemble_and_task([str(path)], arg_overrides=overrides)
    return model, cfg, task


def _check_data(data: Path) -> None:
    if not data.is_dir():
        raise UserError(f"{data}: no data folder made by fairseq-preprocess was found")
    if not any(data.glob("dict.*.txt")):
        raise UserError(f"{data}: no dict.*.txt found; data must be a folder made by fairseq-preprocess")


def _configuration(path: Path, data: Path, given: Mapping[str, str]) -> Any:
    """Return fairseq-train's configuration for a recipe."""
    options = {**read_recipe(path), **{key: _Given(value, path, 0) for key, value in given.items()}}
    for name in OFF:
        options.pop(name, None)
    args = check_recipe(path, options, [], optimizer=False)
    args.data = str(data)
    return convert_namespace_to_omegaconf(args)


def _set_up(cfg: Any, data: Path) -> Any:
    languages = [getattr(cfg.task, f"{side}_lang", "") for side in ("source", "target")]
    if None in languages and None in infer_language_pair(str(data)):
        raise UserError(f"{data}: no file that names the languages was found, such as train.de-en.de.idx")
    return tasks.setup_task(cfg.task)


def _first_batches(task: Any, model: Any, cfg: Any, batches: int, subset: str, seed: int) -> list[Any]:
    """Return the trainer's first batches, on one device. Raises `UserError` if they lack the model's inputs."""
    if isinstance(model, FairseqNATModel):
        # Its task makes the decoder's inputs anew in each update.
        raise UserError(f"inspection needs an autoregressive model, but this is a {type(model).__name__}")
    task.load_dataset(subset, combine=subset == cfg.dataset.train_subset, epoch=1)
    dataset = task.dataset(subset)
    tokens, sentences = cfg.dataset.max_tokens, cfg.dataset.batch_size
    # fairseq, too, takes 0 and less as unlimited.
    if max(tokens or 0, sentences or 0) <= 0:
        tokens = TOKENS
    limits = utils.resolve_max_positions(task.max_positions(), model.max_positions(), tokens)
    # fairseq fails on this with an IndexError.
    if not len(dataset.filter_indices_by_size(np.arange(len(dataset)), limits)[0]):
        raise UserError(f"the subset {subset}: no sentence of at most {limits} tokens found")
    iterator = task.get_batch_iterator(
        dataset=dataset,
        max_tokens=tokens,
        max_sentences=sentences,
        max_positions=limits,
        ignore_invalid_inputs=True,
        required_batch_size_multiple=cfg.dataset.required_batch_size_multiple,
        seed=seed,
    )
    return list(islice(iterator.next_epoch_itr(shuffle=True), batches))
