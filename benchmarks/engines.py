"""The engines of deepnmt translate, and the search of fairseq-generate with the plug-in, against fairseq's own search.

Figures are sentences per second of the processor. The models are untrained unless --checkpoint gives others: their
translations are all of one length (random_model.py). An engine that does not run a model, or that is not installed,
has no row. With shortlists, which have random entries in untrained models, all translations differ.

All rows of docs/translating.md, on a machine that does nothing else, some 12 minutes:

    OMP_NUM_THREADS=1 python3 benchmarks/engines.py --repetitions 5 --save engines.json

The same command again resumes after the last model and kind (batches, single sentences) that were measured, and prints
all rows. Of wide models, a quarter of the single sentences are translated.
"""

from __future__ import annotations

import functools
import json
import logging
import statistics
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import astuple
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from common import Row, Step, Timing, commit, in_process, interleaved, main, note
from random_model import checkpoint, data_folder, sentences, shortlist

from deepnmt.text.lines import read_text, whole_text
from deepnmt.text.record import SHORTLIST

FAIRSEQ, GENERATE = "fairseq", "fairseq-generate"
# What model.json holds of the architecture.
DESCRIPTION = "architecture.json"
# Name of a case, engine, type of the weights.
CASES = {
    "package float32": ("torch", "float32"),
    "package bfloat16": ("torch", "bfloat16"),
    "package int8": ("torch", "int8"),
    "CTranslate2 float32": ("ctranslate2", "float32"),
    "CTranslate2 int8": ("ctranslate2", "int8"),
    "ONNX float32": ("onnx", "float32"),
    "ONNX int8": ("onnx", "int8"),
    "package float32, shortlist": ("torch", "float32"),
    "ONNX float32, shortlist": ("onnx", "float32"),
    "ONNX int8, shortlist": ("onnx", "int8"),
    "CTranslate2 by default": ("ctranslate2", "float32"),
    "CTranslate2 by default, plain model": ("ctranslate2", "float32"),
}
LISTED = ", shortlist"
# As it uses its threads outside of this package: all of them in each product.
RIVAL = "CTranslate2 by default"
# With DLCL, which CTranslate2 has no place for: the plain model of the same shape.
PLAIN_RIVAL = f"{RIVAL}, plain model"
# The package's own, with the results of the checkpoint.
EXACT = ("package float32", "ONNX float32")
PLAIN = {"encoder_groups": "none", "decoder_groups": "none"}
PRE_NORM = {"encoder_norm": "pre", "decoder_norm": "pre"}


def _options(encoder: int, decoder: int, sizes: tuple[int, int, int], more: dict[str, str]) -> dict[str, Any]:
    names = ("embed_dim", "ffn_embed_dim", "attention_heads")
    shared = {f"{stack}_{name}": size for stack in ("encoder", "decoder") for name, size in zip(names, sizes)}
    return {**shared, "encoder_layers": encoder, "decoder_layers": decoder, **more}


TINY, BASE = (128, 256, 4), (512, 2048, 8)
MODELS = {
    "Tiny 4 + 4": _options(4, 4, TINY, PLAIN),
    "DLCL 12 + 6, width 128": _options(12, 6, TINY, PRE_NORM),
    "base 6 + 6": _options(6, 6, BASE, PLAIN),
    "DLCL 12 + 6, width 512": _options(12, 6, BASE, PRE_NORM),
}
USUAL = ("Tiny 4 + 4", "DLCL 12 + 6, width 128", "DLCL 12 + 6, width 512")
# Of the issue that asked for speed: model, batch or single sentence, case; at least so many times fairseq's.
TARGETS = {
    **{("Tiny 4 + 4", "batches", f"{engine} float32"): ">= 2.8" for engine in ("package", "ONNX", "CTranslate2")},
    **{("Tiny 4 + 4", "single sentences", f"{engine} float32"): ">= 9" for engine in ("ONNX", "CTranslate2")},
    ("DLCL 12 + 6, width 128", "single sentences", "ONNX float32"): ">= 14",
    **{("Tiny 4 + 4", "batches", f"{engine} float32{LISTED}"): ">= 4.5" for engine in ("package", "ONNX")},
    **{("DLCL 12 + 6, width 512", "batches", f"{engine} int8"): ">= 4.0" for engine in ("package", "ONNX")},
}


Batches = Mapping[str, Sequence[Sequence[list[str]]]]


def by_engine(folder: Path, case: str, batches: Batches, output: Path) -> Step:
    """Translate all batches of a kind, which the step gets, with an engine, and write the best translations.

    Args:
        folder: the model folder, without its model.json
        case: of `CASES`
        batches: by kind; of sentences in subwords
        output: for a list of token lists
    """
    from deepnmt.engines.engine import SearchSettings
    from deepnmt.engines.model_folder import ModelFolder
    from deepnmt.engines.registry import load_engine
    from deepnmt.text.settings import TextSettings

    logging.disable(logging.INFO)
    described = folder / DESCRIPTION
    architecture = json.loads(whole_text(described))
    opened = ModelFolder(folder, TextSettings.read(folder), *CASES[case], architecture=architecture)
    engine: Any = load_engine(opened, torch.get_num_threads())
    if case in (RIVAL, PLAIN_RIVAL):
        import ctranslate2

        engine.threads = 1  # that search shares of a batch
        engine.translator = ctranslate2.Translator(str(folder / "ctranslate2"), intra_threads=torch.get_num_threads())

    def step(kind: str) -> None:
        found = [engine.search(batch, SearchSettings()) for batch in batches[kind]]
        output.write_text(json.dumps([each[0].tokens for batch in found for each in batch]), "utf-8")

    return step


def by_fairseq(case: str, path: Path, data: Path, batches: Batches, output: Path) -> Step:
    """Translate all batches of a kind, as `by_engine`, with the generator that `fairseq-generate` builds.

    Args:
        case: `FAIRSEQ`, whose generator is fairseq's, or `GENERATE`, the plug-in's
        path: of the checkpoint
        data: its data folder
        batches: by kind
        output: as of `by_engine`
    """
    from fairseq import checkpoint_utils
    from fairseq.data.data_utils import collate_tokens

    import deepnmt

    deepnmt.register()
    logging.disable(logging.INFO)
    models, _, task = checkpoint_utils.load_model_ensemble_and_task([str(path)], arg_overrides={"data": str(data)})
    for model in models:
        model.make_generation_fast_(beamable_mm_beam_size=None, need_attn=False)
        model.eval()
    source, target = task.source_dictionary, task.target_dictionary
    generator = task.build_generator(models, Namespace(beam=5, no_beamable_mm=case == FAIRSEQ))

    def translate(batch: Sequence[list[str]]) -> Any:
        rows = [torch.tensor([*map(source.index, sentence), source.eos()]) for sentence in batch]
        tokens = collate_tokens(rows, source.pad(), left_pad=True)
        lengths = torch.tensor([len(row) for row in rows])
        return task.inference_step(generator, models, {"net_input": {"src_tokens": tokens, "src_lengths": lengths}})

    def step(kind: str) -> None:
        with torch.no_grad():
            results = [translate(batch) for batch in batches[kind]]
        best = [found[0]["tokens"].tolist()[:-1] for result in results for found in result]
        output.write_text(json.dumps([[target[number] for number in tokens] for tokens in best]), "utf-8")

    return step


def measure(options: Namespace) -> Iterator[Row]:
    """The rows."""
    given = dict(pair.split("=", 1) for pair in options.checkpoint)
    if unknown := [name for name in given if name not in MODELS]:
        raise SystemExit(f"--checkpoint NAME=PATH must name one of {', '.join(MODELS)}, but names {unknown[0]}")
    saved = Saved(options.save, _settings(options))
    for name in options.model or USUAL[: 1 if options.quick else None]:
        yield from saved.rows(name, "batches")
        yield from saved.rows(name, "single sentences")
        if saved.has(name):
            continue
        with TemporaryDirectory() as temporary:
            folder = Path(temporary)
            if name in given:
                data, path = options.data, Path(given[name])
                lines = read_text(data / "text" / "test.bpe.en")
                chosen, label = [line.split() for line in lines][: options.sentences], f"{name}, trained"
            else:
                data = data_folder(folder / "data")
                path = checkpoint(folder / "model.pt", MODELS[name])
                chosen, label = sentences(options.sentences), f"{name}, untrained"
            lists = _shortlist(data) if name in given else shortlist()
            names = [case for case in computable() if not options.quick or CASES[case][1] == "float32"]
            plain = checkpoint(folder / "plain.pt", MODELS[name] | PLAIN) if name.startswith("DLCL") else None
            folders = dict(_exported(path, plain, data, folder, lists, names))
            wide = MODELS[name]["encoder_embed_dim"] > TINY[0]
            single = [[each] for each in chosen[: max(options.single // (4 if wide else 1), 1)]]
            batches = {"batches": _batches(chosen, 128), "single sentences": single}
            with ExitStack() as stack:
                outputs = {case: folder / f"{case}.json" for case in (FAIRSEQ, GENERATE, *folders)}
                steps = {
                    case: stack.enter_context(in_process(by_fairseq, case, path, data, batches, outputs[case]))
                    for case in (FAIRSEQ, GENERATE)
                }
                for case, place in folders.items():
                    steps[case] = stack.enter_context(in_process(by_engine, place, case, batches, outputs[case]))
                for kind in (kind for kind in batches if not saved.rows(name, kind)):
                    note(f"engines: {label}, {kind}: {options.repetitions} repetitions of {len(steps)} cases")
                    cases = {case: functools.partial(step, kind) for case, step in steps.items()}
                    timings = interleaved(cases, options.repetitions)
                    found = {case: json.loads(whole_text(file)) for case, file in outputs.items()}
                    yield from saved.add(name, kind, _rows(name, label, kind, timings, found))


def computable() -> Iterator[str]:
    """Yield the cases whose products this processor can compute."""
    from deepnmt.kernels.products import obstacle

    for case, (engine, weights) in CASES.items():
        reason = obstacle(weights, torch.device("cpu")) if engine == "torch" else None
        if reason is None:
            yield case
        else:
            note(f"engines: no {case}: {reason}")


class Saved:
    """Rows that have been measured, in a file from which the same command resumes.

    Args:
        path: of the file; None: nothing is saved
        settings: what rows depend on; those of others must not be mixed
    """

    def __init__(self, path: Path | None, settings: dict[str, Any]) -> None:
        self.path, self.settings = path, settings
        self.found: dict[str, list[list[Any]]] = {}
        if path is not None and path.is_file():
            record = json.loads(whole_text(path))
            if record["settings"] != settings:
                raise SystemExit(f"--save: {path} must be of {settings}, but is of {record['settings']}")
            self.found = record["rows"]

    def rows(self, name: str, kind: str) -> list[Row]:
        """The rows of a model that are there."""
        return [Row(*row) for row in self.found.get(f"{name}: {kind}", [])]

    def has(self, name: str) -> bool:
        """Whether all rows of a model are there."""
        return all(self.rows(name, kind) for kind in ("batches", "single sentences"))

    def add(self, name: str, kind: str, rows: Iterator[Row]) -> list[Row]:
        """Save rows, and return them."""
        found = list(rows)
        self.found[f"{name}: {kind}"] = [list(astuple(row)) for row in found]
        if self.path is not None:
            self.path.write_text(json.dumps({"settings": self.settings, "rows": self.found}, indent=1), "utf-8")
        return found


def _settings(options: Namespace) -> dict[str, Any]:
    names = ("repetitions", "threads", "sentences", "single", "checkpoint")
    return {"commit": commit(), **{name: getattr(options, name) for name in names}}


def _rows(
    name: str, label: str, kind: str, timings: dict[str, Timing], found: dict[str, list[list[str]]]
) -> Iterator[Row]:
    label = f"{label}, {len(found[FAIRSEQ])} {'in ' if kind == 'batches' else ''}{kind}"
    for case in timings:
        if case not in (FAIRSEQ, PLAIN_RIVAL):
            differ = sum(one != other for one, other in zip(found[case], found[FAIRSEQ], strict=True))
            what = f"{label}: {case} / fairseq; {differ} differ"
            yield _row(what, TARGETS.get((name, kind, case), ""), timings, FAIRSEQ, case)
    exact = [case for case in EXACT if case in timings]
    for rival, target in ((RIVAL, "<= 1.1"), (PLAIN_RIVAL, "<= 1.25")):
        if rival in timings and exact:
            best = min(exact, key=lambda case: _median(timings[case]))
            yield _row(f"{label}: time of {best} / {rival}", target, timings, best, rival)


def _row(what: str, target: str, timings: dict[str, Timing], one: str, other: str) -> Row:
    detail = f"{one} {_spread(timings[one])}, {other} {_spread(timings[other])}"
    return Row(what, _median(timings[one]) / _median(timings[other]), target, detail)


def _median(timing: Timing) -> float:
    return statistics.median(timing.cpu)


def _spread(timing: Timing) -> str:
    low, middle, high = statistics.quantiles(timing.cpu, n=4)
    return f"{middle:.3f} s ({low:.3f} to {high:.3f})"


def _shortlist(data: Path) -> Any:
    """The shortlists of a data folder."""
    from deepnmt.export.shortlists import shortlists
    from deepnmt.text.settings import TextSettings

    return shortlists(data, TextSettings.read(data).languages, 1000)


def _exported(
    path: Path, plain: Path | None, data: Path, folder: Path, lists: Any, cases: Sequence[str]
) -> Iterator[tuple[str, Path]]:
    """Yield a model folder for each of these cases that runs the model, or the plain one."""
    from deepnmt.engines.registry import engine_module
    from deepnmt.engines.torch.fairseq_engine import load_checkpoints
    from deepnmt.engines.torch.options import describe
    from deepnmt.errors import UserError

    reference = load_checkpoints([path], data, ("de", "en"), device="cpu")
    for number, case in enumerate(cases):
        engine, weights = CASES[case]
        given = plain if case == PLAIN_RIVAL else path
        if given is None:
            continue
        target = folder / str(number)
        target.mkdir()
        if case.endswith(LISTED):
            lists.write(target / SHORTLIST)
        try:
            engine_module(engine, "writer").write([given], data, target, weights)
        except (UserError, ModuleNotFoundError) as error:
            note(f"engines: no {case}: {str(error).splitlines()[0]}")
            continue
        for file in (*data.glob("dict.*.txt"), data / "preprocess.json"):
            (target / file.name).write_bytes(file.read_bytes())
        (target / DESCRIPTION).write_text(json.dumps(describe(reference)), "utf-8")
        yield case, target


def _batches(chosen: Sequence[list[str]], size: int) -> list[list[list[str]]]:
    by_length = sorted(chosen, key=len)
    return [by_length[start : start + size] for start in range(0, len(by_length), size)]


def add_options(parser: ArgumentParser) -> None:
    """Of this benchmark."""
    parser.set_defaults(threads=1)
    parser.add_argument("--sentences", type=int, default=128, help="to translate in batches of 128 (default: 128)")
    parser.add_argument(
        "--single", type=int, default=20, help="to translate one by one; of wide models, a quarter (20)"
    )
    parser.add_argument("--save", type=Path, metavar="FILE", help="keep the rows in FILE, and resume from those in it")
    parser.add_argument(
        "--model", choices=tuple(MODELS), action="append", help=f"repeatable (default: {', '.join(USUAL)})"
    )
    parser.add_argument(
        "--checkpoint",
        metavar="NAME=PATH",
        action="append",
        default=[],
        help="a trained model in place of a random one",
    )
    parser.add_argument("--data", type=Path, metavar="DATA", help="the folder that trained models were trained on")


if __name__ == "__main__":
    main(__doc__ or "", measure, add_options)
