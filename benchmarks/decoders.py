"""Deep encoders with cheap decoders against 4 + 4 layers: processor time of a translation, by engine.

The models have width 128 and are untrained, and their translations are all of one length (random_model.py). A row has
the time of a model over that of 4 + 4 layers with the same engine and beam. 1 / ratio is the gain in sentences per
second.
"""

from __future__ import annotations

import functools
import json
import logging
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from common import Row, Step, interleaved, main, note
from engines import CASES, DESCRIPTION, LISTED, MODELS, PLAIN, PRE_NORM, TINY, _options
from random_model import checkpoint, data_folder, sentences, shortlist

from deepnmt.text.lines import whole_text
from deepnmt.text.record import SHORTLIST

USUAL, SSRU = "4 + 4", {"decoder_self_attention": "ssru"}
DEEP = {**PRE_NORM, "decoder_groups": "none"}
DECODERS = {
    USUAL: MODELS["Tiny 4 + 4"],
    "4 + 4 shared": _options(4, 4, TINY, PLAIN | {"decoder_self_attention": "shared"}),
    "4 + 4 average": _options(4, 4, TINY, PLAIN | {"decoder_self_attention": "average"}),
    "4 + 4 SSRU": _options(4, 4, TINY, PLAIN | SSRU),
    "4 + 1 SSRU": _options(4, 1, TINY, PLAIN | SSRU),
    "DLCL 6 + 1 SSRU": _options(6, 1, TINY, DEEP | SSRU),
    "DLCL 12 + 1": _options(12, 1, TINY, DEEP),
    "DLCL 12 + 1 SSRU": _options(12, 1, TINY, DEEP | SSRU),
    "DLCL 12 + 2 SSRU": _options(12, 2, TINY, DEEP | SSRU),
    "DLCL 24 + 2 SSRU": _options(24, 2, TINY, DEEP | SSRU),
}
QUICK = (USUAL, "4 + 1 SSRU", "DLCL 12 + 1 SSRU")
ENGINES = ("package float32", "package float32, shortlist", "package int8", "ONNX float32", "ONNX int8, shortlist")


def exported(path: Path, data: Path, case: str, folder: Path) -> Path:
    """A model folder, without its model.json, for an engine."""
    from deepnmt.engines.registry import engine_module
    from deepnmt.engines.torch.fairseq_engine import load_checkpoints
    from deepnmt.engines.torch.options import describe

    folder.mkdir()
    engine, weights = CASES[case]
    if case.endswith(LISTED):
        shortlist().write(folder / SHORTLIST)
    engine_module(engine, "writer").write([path], data, folder, weights)
    for file in (*data.glob("dict.*.txt"), data / "preprocess.json"):
        (folder / file.name).write_bytes(file.read_bytes())
    if engine == "torch":
        described = describe(load_checkpoints([path], data, ("de", "en"), device="cpu"))
        (folder / DESCRIPTION).write_text(json.dumps(described), "utf-8")
    return folder


def by_engine(folder: Path, case: str, batches: Sequence[Sequence[list[str]]]) -> Step:
    """Translate all batches, of sentences in subwords, for a beam, which the step gets."""
    from deepnmt.engines.engine import SearchSettings
    from deepnmt.engines.model_folder import ModelFolder
    from deepnmt.engines.registry import load_engine
    from deepnmt.text.settings import TextSettings

    logging.disable(logging.INFO)
    described = folder / DESCRIPTION
    architecture = json.loads(whole_text(described)) if described.is_file() else {}
    opened = ModelFolder(folder, TextSettings.read(folder), *CASES[case], architecture=architecture)
    engine = load_engine(opened, torch.get_num_threads())

    def step(beam: int) -> None:
        for batch in batches:
            engine.search(batch, SearchSettings(beam=beam))

    return step


def measure(options: Namespace) -> Iterator[Row]:
    """The rows."""
    chosen = sorted(sentences(options.sentences), key=len)
    batches = [chosen[start : start + 64] for start in range(0, len(chosen), 64)]
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        data = data_folder(folder / "data")
        models = {name: DECODERS[name] for name in (QUICK if options.quick else DECODERS)}
        paths = {name: checkpoint(folder / f"{name}.pt", model) for name, model in models.items()}
        for case in options.engine or ENGINES[: 1 if options.quick else 2]:
            steps = {
                name: by_engine(exported(path, data, case, folder / f"{name} {case}"), case, batches)
                for name, path in paths.items()
            }
            for beam in (5,) if options.quick else (1, 5):
                note(f"decoders: {case}, beam {beam}: {options.repetitions} repetitions of {len(steps)} models")
                cases = {name: functools.partial(step, beam) for name, step in steps.items()}
                timings = interleaved(cases, options.repetitions)
                usual = timings[USUAL].processor
                for name in list(models)[1:]:
                    detail = f"CPU {timings[name].processor:.3f} s, {USUAL} {usual:.3f} s"
                    yield Row(f"{name}: {case}, beam {beam}", timings[name].processor / usual, "", detail)


def add_options(parser: ArgumentParser) -> None:
    """Of this benchmark."""
    parser.set_defaults(threads=1)
    parser.add_argument("--sentences", type=int, default=128, help="to translate in batches of 64 (default: 128)")
    parser.add_argument("--engine", choices=ENGINES, action="append", help="repeatable (default: the first two)")


if __name__ == "__main__":
    main(__doc__ or "", measure, add_options)
