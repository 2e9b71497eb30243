"""Checks of a training's options against ranges, data and memory before anything is built.

They serve fairseq's own commands. `deepnmt train` has asked the ranges before, by its recipe and from the same table.
"""

import json
import logging
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, Optional

import torch
from fairseq import tasks
from fairseq.data import data_utils
from fairseq.dataclass.configs import GenerationConfig
from fairseq.distributed import utils as distributed_utils
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_DATACLASS_REGISTRY, FairseqLanguageModel
from fairseq.registry import REGISTRIES
from fairseq.tasks import TASK_REGISTRY
from omegaconf import DictConfig, OmegaConf

from deepnmt.checkpoints.starts import check_starts, missing_starts
from deepnmt.checkpoints.state import CheckpointState
from deepnmt.criterions import distillation
from deepnmt.errors import UserError, in_place_of
from deepnmt.fairseq_patches.checks import not_autoregressive
from deepnmt.fairseq_patches.checks.data_checks import local_folders, task_languages
from deepnmt.fairseq_patches.checks.model_options import transformer_faults
from deepnmt.fairseq_patches.patch import replaces
from deepnmt.model import validate
from deepnmt.model.config import DLCLTransformerConfig
from deepnmt.model.memory import least_parameters
from deepnmt.options.dual_rules import missing, untrained
from deepnmt.options.option_table import TRAINING, dashed, is_json_mapping, literal_faults, range_faults
from deepnmt.recipe.combinations import HALF, TEXT_TASKS, precision_faults, rule_faults
from deepnmt.text.data_folder import check_dictionaries, check_same_types
from deepnmt.text.dictionary import read_types
from deepnmt.text.training_data import Limits, check_lengths
from deepnmt.training import launched

logger = logging.getLogger(__name__)

HYDRA_TRAIN = "fairseq_cli.hydra_train"
# Arguments of fairseq-train whose options a recipe's check has accepted in this process.
accepted: list[str] | None = None


@replaces(
    distributed_utils, "call_main", order=40, why="name options out of range, long sentences and large models at once"
)
def check_training_first(stock: Any, cfg: Any, main: Callable[..., object], **kwargs: Any) -> None:
    """Check the options of a training; other commands come here too, and are left alone."""
    if hasattr(sys.modules.get(main.__module__), "should_stop_early"):
        check_training(cfg)
    stock(cfg, main, **kwargs)


@replaces(
    tasks, "setup_task", order=10, why="fairseq-hydra-train imports the plug-in too late for check_training_first"
)
def check_training_of_hydra(stock: Any, cfg: Any, **kwargs: Any) -> Any:
    """Check a training of fairseq-hydra-train: the task is the first thing that it sets up."""
    if (
        HYDRA_TRAIN in sys.modules
        or getattr(getattr(sys.modules["__main__"], "__spec__", None), "name", "") == HYDRA_TRAIN
    ):
        check_training(cfg._get_root())
    return stock(cfg, **kwargs)


def check_training(cfg: Any) -> None:
    """Check a configuration, and log departures from a paper and left-out sentences.

    Languages known only from the data folder are set in the options: checkpoints then name them, too. Otherwise a model
    of the other direction with the same dictionaries is like any model of this one.

    Raises:
        UserError: every option that is out of range, a line each; or the first fault of folders, data or memory
    """
    model = model_config(cfg)
    asked = sys.argv[1:] == accepted or launched.is_led()
    faults = [*_missing(cfg), *(() if asked else _option_faults(cfg, model)), *_bleu_faults(cfg.task)]
    faults += transformer_faults(cfg)
    # A resumed training has these weights.
    begins = not (Path(cfg.checkpoint.save_dir) / cfg.checkpoint.restore_file).exists()
    faults += missing_starts(cfg.model) if begins else ()
    if model is not None:
        faults += validate.training_faults(model)
    if faults:
        no_size = cfg.dataset.max_tokens is None and cfg.dataset.batch_size is None
        kind = AssertionError if no_size else ValueError if cfg.optimizer is None else Exception
        raise in_place_of(kind, *dict.fromkeys(faults))
    warnings = [] if model is None else list(validate.split_pairs(model))
    warnings += untrained(flat(cfg)) if begins else ()
    _check_log_folder(cfg.common.tensorboard_logdir)
    _check_seed_of_averages(cfg.ema)
    _name_languages(cfg.task)
    folders = _folders(cfg)
    if model is not None:
        check_memory(cfg, model, _types(cfg, folders[0]) if folders else (0, 0))
    if folders:
        check_same_types(folders, task_languages(cfg.task, folders[0]))
        if model is not None and begins:
            check_starts(model, folders[0], task_languages(cfg.task, folders[0]))
        if model is not None and model.merge_src_tgt_embed:
            _check_one_dictionary(cfg.task, folders[0])
        data_utils.raise_if_valid_subsets_unintentionally_ignored(cfg)
        warnings += left_out(cfg, model, folders)
    # Of several processes, one is enough to say it.
    if int(os.environ.get("RANK", cfg.distributed_training.distributed_rank or 0)) == 0:
        for line in warnings:
            logger.warning(line)


def flat(cfg: Any) -> dict[str, Any]:
    """Return all options by name, without mere aliases of another one."""
    values: dict[str, Any] = {name: getattr(cfg[name], "_name", None) for name in ("lr_scheduler", "criterion", "task")}
    values["arch"] = getattr(cfg.model, "_name", None)
    for group in (cfg[name] for name in cfg):
        # Optimizers without a dataclass come as a namespace.
        if isinstance(group, (DictConfig, Namespace)):
            plain: Any = vars(group)
            if isinstance(group, DictConfig):
                plain = OmegaConf.to_container(group, resolve=False, enum_to_str=True)
            for name, value in plain.items():
                if not str(value).startswith("${"):
                    values.setdefault(str(name), value)
    return values


def _missing(cfg: Any) -> Iterator[str]:
    if cfg.optimizer is None:
        yield "--optimizer must be given, but is not"
    if cfg.dataset.max_tokens is None and cfg.dataset.batch_size is None:
        yield "--max-tokens or --batch-size must be given, but neither is"
    yield from not_autoregressive.training_faults(
        *(getattr(group, "_name", None) for group in (cfg.model, cfg.criterion, cfg.task))
    )
    if getattr(cfg.criterion, "_name", None) == distillation.NAME and not cfg.criterion.teacher:
        yield distillation.MISSING_TEACHER
    yield from (f"--{name} {rest}" for name, rest in missing(flat(cfg)))
    yield from _kind_of_model(getattr(cfg.task, "_name", None), getattr(cfg.model, "_name", None))
    if cfg.common.amp and (cfg.common.cpu or not torch.cuda.is_available()):
        yield "--amp must not be set with --cpu, but is; --bf16 works there"
    if cfg.checkpoint.write_checkpoints_asynchronously:
        yield (
            "--write-checkpoints-asynchronously must not be given: without the package iopath fairseq trains nothing, "
            "and with it it writes no checkpoint_last.pt"
        )
    # fairseq's command line takes --bf16 for a TPU.
    if cfg.common.tpu and not cfg.common.bf16 and distributed_utils.xm is None:
        yield "--tpu must not be given without torch_xla, but is"


def _kind_of_model(task: Optional[str], arch: Optional[str]) -> Iterator[str]:
    """Yield that a language model is to translate, or another model to be one: fairseq finds out when it is built."""
    kind = ARCH_MODEL_REGISTRY.get(arch)
    if kind is None:
        return
    is_language_model = issubclass(kind, FairseqLanguageModel)
    if hasattr(TASK_REGISTRY.get(task), "eval_lm_dataloader") and not is_language_model:
        yield f"--arch must be a language model with --task {task}, such as transformer_lm, but is {arch}"
    if task in TEXT_TASKS and is_language_model:
        yield f"--arch must not be a language model with --task {task}, but is {arch}"


def _bleu_faults(task: Any) -> Iterator[str]:
    """Yield the faults that prevent scoring translations of validation, which appear after the first epoch."""
    if not getattr(task, "eval_bleu", False):
        return
    tokenizers = REGISTRIES["tokenizer"]["registry"]
    if task.eval_bleu_detok not in tokenizers:
        yield f"--eval-bleu-detok must be one of {', '.join(sorted(tokenizers))}, but is {task.eval_bleu_detok}"
    try:
        data_utils.post_process("", task.eval_bleu_remove_bpe)
    except NotImplementedError:
        yield f"--eval-bleu-remove-bpe must be a kind of BPE such as subword_nmt, but is {task.eval_bleu_remove_bpe}"
    if is_json_mapping(task.eval_bleu_args):  # which is checked by itself
        known = {each.name for each in fields(GenerationConfig)}
        for name in json.loads(task.eval_bleu_args or "{}"):
            if name not in known:
                yield f"--eval-bleu-args must have options of fairseq-generate's search, such as beam, but has '{name}'"


def _option_faults(cfg: Any, model: Optional[DLCLTransformerConfig]) -> Iterator[str]:
    values = flat(cfg)
    half = [dashed(name) for name in HALF if values.get(name)]
    found = *range_faults(values, TRAINING), *literal_faults(values), *rule_faults(values, {}), *precision_faults(half)
    yield from (f"--{name} {rest}" for name, rest in found)
    try:
        if model is not None:
            # Whether source and target share a dictionary shows when the data is read.
            validate.check(model, joined=True)
    except UserError as error:
        yield from str(error).splitlines()


def model_config(cfg: Any) -> Optional[DLCLTransformerConfig]:
    """Return the options of the model; None for fairseq's own models."""
    kind = MODEL_DATACLASS_REGISTRY.get(getattr(cfg.model, "_name", None))
    if isinstance(kind, type) and issubclass(kind, DLCLTransformerConfig):
        return kind.from_options(cfg.model)
    return None


@replaces(data_utils, "raise_if_valid_subsets_unintentionally_ignored", order=10, why="name ignored subsets in a line")
def refuse_ignored_subsets(stock: Callable[[Any], None], train_cfg: Any) -> None:
    """Say which validation sets would be ignored. Raises `UserError` if there are any."""
    try:
        stock(train_cfg)
    except ValueError:
        named = train_cfg.dataset.valid_subset.split(",")
        # fairseq compares them with names of files, and so finds sets too that are named.
        found = {path.split(".")[0] for path in data_utils._find_extra_valid_paths(train_cfg.task.data)}
        if ignored := sorted(found - set(named)):
            raise in_place_of(
                ValueError,
                f"--valid-subset must name {', '.join(ignored)} too, or --combine-valid-subsets or "
                f"--ignore-unused-valid-subsets be given, but is {train_cfg.dataset.valid_subset}",
            ) from None


def check_memory(cfg: Any, model: DLCLTransformerConfig, types: tuple[int, int]) -> None:
    """Raise `UserError` if the weights, their gradients and Adam's moments cannot fit into the memory."""
    parameters, size = least_parameters(model, types), bytes_of_parameter(cfg)
    if cfg.common.cpu or not torch.cuda.is_available():
        place, there = "this machine", os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    else:
        device = int(os.environ.get("LOCAL_RANK", 0)) % torch.cuda.device_count()
        place, there = "the GPU", torch.cuda.get_device_properties(device).total_memory
    if parameters * size > there:
        sizes = ", ".join(
            f"--{stack}-{name.replace('_', '-')} {getattr(model, f'{stack}_{name}')}"
            for stack in ("encoder", "decoder")
            for name in ("layers", "embed_dim", "ffn_embed_dim")
        )
        raise UserError(
            f"the model must fit into the {there / 1e9:,.1f} GB of {place}, but training needs at least "
            f"{parameters * size / 1e9:,.1f} GB: {size} bytes for each of {parameters:,} parameters ({sizes})"
        )


def bytes_of_parameter(cfg: Any) -> int:
    """Return a parameter's least memory: itself, its gradient, its copies in full precision, Adam's moments."""
    common, optimizer = cfg.common, cfg.optimizer
    half = common.fp16 or common.bf16
    copies = half and not (common.memory_efficient_fp16 or common.memory_efficient_bf16)
    # Sharded or offloaded moments are elsewhere.
    own = optimizer._name == "adam" and cfg.distributed_training.zero_sharding == "none"
    moments = 4 if getattr(optimizer, "fp16_adam_stats", False) else 8
    return (4 if half else 8) + (8 if copies else 0) + (moments if own else 0)


def _folders(cfg: Any) -> list[Path]:
    """Return the data folders of a task whose files are known; none for another one's."""
    known = getattr(cfg.task, "_name", None) in TEXT_TASKS and cfg.task.dataset_impl in (None, "mmap")
    return local_folders(cfg.task) if known else []


def _check_log_folder(path: Optional[str]) -> None:
    try:
        if path:
            os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise in_place_of(
            type(error), f"--tensorboard-logdir must be a folder, but is {path}: {error.strerror}"
        ) from None


def _check_seed_of_averages(ema: Any) -> None:
    """Raise `UserError` if --ema-seed-model has no moving average: fairseq finds out at the first update."""
    if ema.store_ema and ema.ema_seed_model:
        path = Path(ema.ema_seed_model)
        if not CheckpointState.of(path, numbers=False).has_average():
            raise in_place_of(KeyError, f"--ema-seed-model must be of a training with --store-ema, but {path} is not")


def _name_languages(task: Any) -> None:
    if getattr(task, "_name", None) in TEXT_TASKS:
        for folder in local_folders(task)[:1]:
            task.source_lang, task.target_lang = task_languages(task, folder)


def _types(cfg: Any, folder: Path) -> tuple[int, int]:
    source, target = task_languages(cfg.task, folder)
    dictionaries = check_dictionaries(folder, (source, target))
    return dictionaries[source].types, dictionaries[target].types


def _check_one_dictionary(task: Any, folder: Path) -> None:
    """Raise `UserError` if the languages have two dictionaries: fairseq takes the numbers of one for the other's."""
    source, target = (folder / f"dict.{language}.txt" for language in task_languages(task, folder))
    if read_types(source) != read_types(target):
        raise UserError(f"--merge-src-tgt-embed {validate.ONE_DICTIONARY}, but {source} and {target} differ")


def left_out(cfg: Any, model: Optional[DLCLTransformerConfig], folders: list[Path]) -> list[str]:
    """Return a line for the training sentences that no batch can hold, which fairseq leaves out.

    Raises:
        UserError: none is left, or there are such sentences in a validation set, for which fairseq fails
    """
    task, data = cfg.task, cfg.dataset
    if task.truncate_source:
        return []
    languages = task_languages(task, folders[0])
    source, target = (
        min(getattr(options, f"max_{side}_positions") for options in (task, model) if options is not None)
        for side in ("source", "target")
    )
    positions = (source, target)
    lines = []
    if data.max_tokens is not None:
        limits = Limits("--max-tokens", data.max_tokens, positions, batch_leaves_out=True, positions_leave_out=True)
        # Of later epochs' folders, and joined as fairseq joins them: train, train1, ...
        lines = [check_lengths(folder, data.train_subset, languages, limits, joined=True) for folder in folders]
    if not data.disable_validation:
        name = "--max-tokens" if data.max_tokens_valid == data.max_tokens else "--max-tokens-valid"
        leave_out = data.skip_invalid_size_inputs_valid_test
        limits = Limits(name, data.max_tokens_valid, positions, batch_leaves_out=False, positions_leave_out=leave_out)
        for subset in ("valid",) if data.combine_valid_subsets else data.valid_subset.split(","):
            check_lengths(folders[0], subset, languages, limits, joined=bool(data.combine_valid_subsets))
    return [line for line in lines if line]
