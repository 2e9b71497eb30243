"""The states of a model's decoder on known text, for `--datastore` of the search."""

import argparse
import logging
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq import checkpoint_utils, utils

import deepnmt
from deepnmt.checkpoints.data_fit import trained_settings
from deepnmt.console import program, progress
from deepnmt.errors import UserError
from deepnmt.reranking.result_folder import ResultFolder
from deepnmt.search.neighbours import KEYS, RECORD, TYPES, fingerprints
from deepnmt.text.data_folder import check_data_folder
from deepnmt.text.record import read_record, selected_on, sha256, write_record
from deepnmt.text.settings import RECORD as DATA_RECORD
from deepnmt.translation_task import DeepTranslationConfig, DeepTranslationTask


def store(arguments: argparse.Namespace) -> None:
    """Run `deepnmt datastore`: read, check, compute, write, print. Raises `UserError` for faulty input."""
    out = ResultFolder(program("datastore"), arguments.out, RECORD)
    if arguments.max_tokens < 1:
        raise UserError(f"--max-tokens must be at least 1, but is {arguments.max_tokens}")
    languages = trained_settings([arguments.checkpoint], arguments.data).languages
    check_data_folder(arguments.data, [arguments.subset])
    deepnmt.register()
    # fairseq reports every step.
    logging.getLogger("fairseq").setLevel(logging.WARNING)
    task = make_task(arguments.data, languages)
    (model,), _ = checkpoint_utils.load_model_ensemble([str(arguments.checkpoint)], task=task)
    keys, types, left_out = entries(model, task, arguments.subset, arguments.max_tokens)
    record: dict[str, Any] = {
        "checkpoint": str(arguments.checkpoint),
        "sha256": sha256(arguments.checkpoint),
        "data": str(arguments.data),
        "subset": arguments.subset,
        "entries": len(keys),
        "left_out": left_out,
        "model": fingerprints(model),
        **selected_on([read_record(arguments.data / DATA_RECORD)]),
    }
    with out.building() as folder:
        np.save(folder / KEYS, keys)
        np.save(folder / TYPES, types)
        write_record(folder / RECORD, record)
    print(f"{arguments.out} is ready: {len(keys)} entries" + (f", {left_out} pairs left out" if left_out else ""))


def make_task(data: Path, languages: tuple[str, str]) -> DeepTranslationTask:
    """Return the task of a data folder, without options of a command line."""
    config = DeepTranslationConfig(
        data=str(data),
        source_lang=languages[0],
        target_lang=languages[1],
        dataset_impl="mmap",
        required_seq_len_multiple=1,
        seed=1,
    )
    task: DeepTranslationTask = DeepTranslationTask.setup_task(config)
    return task


def entries(model: Any, task: DeepTranslationTask, subset: str, max_tokens: int) -> tuple[Any, Any, int]:
    """Return keys, E x C, and types, E, of a subset, and how many pairs are too long for the model.

    Raises:
        UserError: a key is not finite in half precision
    """
    cuda = torch.cuda.is_available()
    model = model.eval().cuda() if cuda else model.eval()
    task.load_dataset(subset)
    dataset, padding = task.dataset(subset), task.target_dictionary.pad()
    longest = utils.resolve_max_positions(task.max_positions(), model.max_positions())
    keys, types, pairs = [], [], 0
    batches = task.get_batch_iterator(
        dataset,
        # A longer pair is a batch of its own.
        max_tokens=max(max_tokens, int(dataset.sizes.max())),
        max_positions=longest,
        ignore_invalid_inputs=True,
        disable_iterator_cache=True,
    ).next_epoch_itr(shuffle=False)
    with torch.inference_mode(), progress(len(dataset), "states", " pairs") as bar:
        for sample in batches:
            sample = utils.move_to_cuda(sample) if cuda else sample
            states, _ = model(**sample["net_input"], features_only=True)
            known = sample["target"].ne(padding)
            keys.append(states[known].half().cpu())
            types.append(sample["target"][known].int().cpu())
            pairs += len(known)
            bar.update(len(known))
    if not keys:
        raise UserError(f"{subset}: every pair is too long for the model")
    joined = torch.cat(keys)
    if not joined.isfinite().all():
        raise UserError("the decoder's states must be finite in half precision, but are not")
    return joined.numpy(), torch.cat(types).numpy(), len(dataset) - pairs
