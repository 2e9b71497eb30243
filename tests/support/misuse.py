"""Misuse of fairseq's functions, and what each call raises: `python misuse.py FOLDER [plugin]` prints it as JSON."""

from __future__ import annotations

import json
import logging
import shutil
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq import checkpoint_utils, utils
from fairseq.data import Dictionary, data_utils
from fairseq.models.transformer import TransformerConfig, TransformerModelBase
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from torch import nn

from support.data_folders import data_folder

Call = Callable[[], object]


def tasks(folder: Path) -> TranslationTask:
    languages = {"source_lang": "de", "target_lang": "en", "dataset_impl": "mmap"}
    return TranslationTask.setup_task(TranslationConfig(data=str(folder), **languages))


def changed(folder: Path, name: str, change: Callable[[bytes], bytes | None]) -> Path:
    """A copy of a data folder, one of whose files is changed, or removed where nothing is left of it."""
    copy = folder.parent / f"{len(list(folder.parent.iterdir()))}"
    shutil.copytree(folder, copy)
    found = change((copy / name).read_bytes())
    (copy / name).unlink() if found is None else (copy / name).write_bytes(found)
    return copy


def files(folder: Path) -> Iterator[tuple[str, Call]]:
    """Checkpoints and embeddings that cannot be used."""
    model = {"model": {}, "cfg": None, "args": Namespace(arch="transformer", task="translation", criterion="none")}
    torch.save(model, folder / "whole.pt")
    contents = {
        "empty": b"",
        "text": b"text",
        "short": (folder / "whole.pt").read_bytes()[:200],
        "bad numbers": b"1 2\na b c\n",
        "bytes": b"a 1 2\n\xff\xfe 1\n",
        "one number": b"1 1\na 1\n",
        "ragged": b"2 2\na 1 2\nb 1\n",
    }
    for name, content in contents.items():
        path = folder / f"{name}.pt"
        path.write_bytes(content)
    torch.save([1], folder / "list.pt")
    torch.save({"model": {}}, folder / "bare.pt")
    for name in ("missing", "empty", "text", "short", "list", "bare"):
        path = str(folder / f"{name}.pt")
        yield f"checkpoint {name}", lambda path=path: checkpoint_utils.load_checkpoint_to_cpu(path)
        yield f"ensemble {name}", lambda path=path: checkpoint_utils.load_model_ensemble([path])
        yield f"ensemble and task {name}", lambda path=path: checkpoint_utils.load_model_ensemble_and_task([path])
    yield "checkpoint folder", lambda: checkpoint_utils.load_checkpoint_to_cpu(str(folder))
    types = Dictionary()
    types.add_symbol("a")
    for name in ("missing", "empty", "bad numbers", "bytes", "one number", "ragged"):
        path = str(folder / f"{name}.pt")
        table = nn.Embedding(len(types), 2)
        yield (
            f"embeddings {name}",
            lambda path=path, table=table: utils.load_embedding(utils.parse_embedding(path), types, table),
        )


def data(folder: Path) -> Iterator[tuple[str, Call]]:
    """Data folders that cannot be read, and batches that cannot be made."""
    (folder.parent / "nothing").mkdir()
    yield "no folder", lambda: tasks(folder / "nowhere")
    yield "no languages", lambda: TranslationTask.setup_task(TranslationConfig(data=str(folder.parent / "nothing")))
    yield "no dictionary", lambda: tasks(changed(folder, "dict.en.txt", lambda _: None))
    lines = {"fields": b"w0\n", "count": b"w0 x\n", "twice": b"w0 1\nw0 2\n", "bytes": b"\xff\xfe 1\n", "empty": b""}
    for name, text in lines.items():
        yield f"dictionary {name}", lambda text=text: tasks(changed(folder, "dict.en.txt", lambda _: text))
    yield "subset missing", lambda: tasks(folder).load_dataset("nothing")
    for end in ("bin", "idx"):
        name = f"train.de-en.de.{end}"
        yield f"{end} missing", lambda name=name: tasks(changed(folder, name, lambda _: None)).load_dataset("train")
        yield f"{end} empty", lambda name=name: tasks(changed(folder, name, lambda _: b"")).load_dataset("train")
        yield (
            f"{end} short",
            lambda name=name: tasks(changed(folder, name, lambda found: found[:-5])).load_dataset("train"),
        )
        yield f"{end} other", lambda name=name: tasks(changed(folder, name, lambda _: b"x" * 90)).load_dataset("train")
    whole = {"max_tokens": 100, "max_positions": (100, 100)}

    def batches(size: dict[str, Any]) -> Any:
        task = tasks(folder)  # which keeps its batches
        task.load_dataset("train")
        return task.get_batch_iterator(task.dataset("train"), **{**whole, **size})

    sizes: dict[str, dict[str, Any]] = {
        "long for a batch": {"max_tokens": 3},
        "long for positions": {"max_positions": (3, 3)},
        "workers": {"num_workers": -1},
        "no tokens": {"max_tokens": 0},
        "negative batch": {"max_sentences": -2},
        "shards": {"num_shards": 1, "shard_id": 3},
    }
    for name, size in sizes.items():
        yield f"batches {name}", lambda size=size: batches(size)
    position = {"epoch": 1, "iterations_in_epoch": 50, "shuffle": True, "version": 2}
    yield "position", lambda: batches({}).load_state_dict(position)
    empty = np.zeros(0, dtype=np.int64)
    yield (
        "no batches",
        lambda: data_utils.batch_by_size(empty, lambda _: 1, max_tokens=3, required_batch_size_multiple=8),
    )


def searches(folder: Path) -> Iterator[tuple[str, Call]]:
    """Searches that cannot be built."""
    task = tasks(folder)
    size = dict.fromkeys(("encoder_embed_dim", "decoder_embed_dim", "decoder_input_dim", "decoder_output_dim"), 8)
    model = TransformerModelBase.build_model(TransformerConfig.from_namespace(Namespace(**size)), task)
    for name, given in {
        "temperature": {"temperature": 0.0},
        "temperature below 0": {"temperature": -1.0},
        "topk": {"sampling_topk": 3},
        "topp": {"sampling_topp": 0.5},
        "two": {"sampling": True, "match_source_len": True},
        "groups": {"beam": 5, "diverse_beam_groups": 2},
        "groups and sampling": {"sampling": True, "diverse_beam_groups": 5},
        "topk, groups": {"sampling_topk": 3, "diverse_beam_groups": 2, "beam": 5},
        "no beam": {"beam": 0},
        "temperature, groups": {"temperature": 0.0, "diverse_beam_groups": 2, "beam": 5},
        "text": {"beam": "x"},
        "topk, nbest": {"sampling_topk": 3, "nbest": 9},
        "two, nbest": {"sampling": True, "match_source_len": True, "nbest": 9},
        "temperature of text": {"temperature": "x"},
        "no n-gram": {"no_repeat_ngram_size": -1},
        "length": {"min_len": -1},
    }.items():
        args = Namespace(**{"beam": 5, **given})
        yield f"search {name}", lambda args=args: task.build_generator([model], args)


def raised(call: Call) -> list[str]:
    """Names of the types of an error, the closest first; none of a call that raises nothing."""
    try:
        call()
    except (Exception, SystemExit) as error:
        return [f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__]
    return []


def main() -> None:
    root = Path(sys.argv[1])
    if "plugin" in sys.argv:
        import deepnmt

        deepnmt.register()
    (root / "files").mkdir(parents=True)
    folder = data_folder(root / "data" / "de-en")
    (folder / "preprocess.json").unlink()
    for each in (files(root / "files"), data(folder), searches(folder)):
        for name, call in each:
            print(json.dumps([name, raised(call)]), flush=True)


if __name__ == "__main__":
    logging.disable()
    main()
