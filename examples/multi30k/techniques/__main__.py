"""Measure all techniques and write the table: see search.sh --help."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from deepnmt import console
from deepnmt.errors import UserError
from deepnmt.jobs.in_place import InPlace
from deepnmt.text.record import read_record, sha256
from deepnmt.text.settings import RECORD, TextSettings
from techniques.commands import ROOT, run
from techniques.curves import over_length_penalty
from techniques.findings import findings, settings_of
from techniques.first_pairs import first_pairs
from techniques.picture import Curve, draw
from techniques.plan import BEAMS, Models, techniques
from techniques.runs import VALID, Runs
from techniques.table import as_list, as_markdown, as_text, rows_of_table
from techniques.trainings import checkpoint, place

MODELS = "models.json"
KINDS = ("r2l", "two-sided", "reverse", "lm")


def main() -> None:
    """Measure what has not been measured."""
    arguments = parse()
    out = arguments.out
    if not arguments.model.is_file():
        raise UserError(f"{arguments.model}: no such checkpoint")
    given: dict[str, str | None] = {kind: getattr(arguments, kind.replace("-", "_")) for kind in KINDS}
    wanted = [*(("more", each) for each in arguments.more), *((kind, each) for kind, each in given.items() if each)]
    found = {kind: place(kind, value, out) if value else None for kind, value in given.items()}
    more = tuple(place("more", each, out) for each in arguments.more)
    models = Models(arguments.model, more, found["r2l"], found["two-sided"], found["reverse"], found["lm"])
    # What is wrong need not wait for trainings.
    if arguments.errors:
        shares(arguments.errors)
    TextSettings.read(arguments.data)
    with job_of(models, arguments, out).begun():
        measure(arguments, models, wanted)


def measure(arguments: argparse.Namespace, models: Models, wanted: Sequence[tuple[str, str]]) -> None:
    """Train and measure what has not been, and write tables and pictures.

    Args:
        arguments: the command line
        models: where they are, or will be
        wanted: kinds of models, each with a path or "train"
    """
    data, out = arguments.data, arguments.out
    options = ["--max-update", str(arguments.max_update)] if arguments.max_update else []
    for kind, value in wanted:
        checkpoint(kind, value, data, out, options)
    # Once more, with those that have been trained now.
    job = job_of(models, arguments, out)
    job.check()
    job.write()
    if arguments.limit:
        first_pairs(data, arguments.limit, out / "data")
        data = out / "data"
    runs = Runs(data, out, models)
    choices = runs.choices()
    rows = [*(runs.technique(each) for each in techniques(models)), *choices]
    curve = errors(arguments, data, out)
    table, settings = rows_of_table(rows), settings_of(rows)
    texts = {"table.tsv": as_text(table), "settings.tsv": as_text(settings)}
    texts["table.md"] = "\n".join((as_markdown(table), as_list(findings(rows, curve)), as_markdown(settings)))
    for name, text in texts.items():
        with console.whole_file(out / name) as temporary:
            temporary.write_text(text, encoding="utf-8")
    penalties = {beam: over_length_penalty(out / "searches" / f"beam-{beam}" / VALID, data) for beam in BEAMS}
    draw(out / "search.png", penalties, curve)
    print(texts["table.tsv"], end="")


def parse() -> argparse.Namespace:
    """Return the command line."""
    parser = argparse.ArgumentParser(prog="search.sh", add_help=False, allow_abbrev=False)
    for name in ("model", "data", "out"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--more", action="append", default=[])
    for kind in KINDS:
        parser.add_argument(f"--{kind}")
    parser.add_argument("--errors", type=Path)
    for name in ("--limit", "--max-update", "--error-sentences"):
        parser.add_argument(name, type=int)
    parser.set_defaults(error_sentences=200)
    arguments = parser.parse_args()
    for name, least in (("limit", 2), ("max_update", 1), ("error_sentences", 0)):
        value = getattr(arguments, name)
        if value is not None and value < least:
            raise UserError(f"--{name.replace('_', '-')}: must be at least {least}, but is {value}")
    # What is trained stands there, and commas or colons stand between the models of a list.
    if any(sign in str(arguments.out) for sign in ",:"):
        raise UserError(f"OUT: must be without commas and colons, but is {arguments.out}")
    if arguments.more.count("train") > 1:
        raise UserError("--more: must be train once at most, but is several times")
    return arguments


def job_of(models: Models, arguments: argparse.Namespace, out: Path) -> InPlace:
    """Return the job of measurements, which are not to be mixed with those of other models or data.

    What OUT does not say of them, as that of an earlier version or before a model was trained, is noted.
    """
    paths = [*map(str, (models.best, *models.more)), *(str(path or "") for path in models.helpers())]
    now: dict[str, Any] = {"models": paths, "limit": arguments.limit or 0, "max_update": arguments.max_update or 0}
    now["data"] = f"{os.path.realpath(arguments.data)} (preprocess.json: {sha256(arguments.data / RECORD)})"
    for path in map(Path, filter(None, paths)):
        if path.is_file():
            file = path.stat()
            now[f"model {path}"] = f"{file.st_size} bytes of {file.st_mtime_ns} ns"
    before = read_record(out / MODELS, models=list, limit=int) if (out / MODELS).exists() else {}
    # A model that is gone may be trained again.
    return InPlace("search.sh", out, MODELS, before | now, late=("model ", "data", "max-update"))


def errors(arguments: argparse.Namespace, data: Path, out: Path) -> Curve:
    """Return search errors in percent by beam: those of a file, or counted here."""
    if arguments.errors:
        return shares(arguments.errors)
    if not arguments.error_sentences:
        return {}
    folder, report = out / "search_errors", out / "search_errors" / "search_errors.json"
    options = ["--subset", VALID, "--beams", ",".join(map(str, BEAMS)), "--sentences", arguments.error_sentences]
    run(ROOT / "scripts" / "search_errors.sh", arguments.model, data, *options, "--out", folder)
    return shares(report)


def shares(path: Path) -> Curve:
    """Return search errors in percent by beam, as search_errors.sh writes them."""
    figures = read_record(path, beams=list)["beams"]
    try:
        return {float(each["beam"]): 100 * float(each["search_errors"]) for each in figures}
    except (KeyError, TypeError, ValueError):
        raise UserError(f"{path}: must be a search_errors.json of search_errors.sh, but is none") from None


if __name__ == "__main__":
    console.run(main, "search.sh")
