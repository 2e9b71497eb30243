"""The steps of clean.sh: a corpus to the pairs of it that are worth training on.

commands:
  clean.py begin FOLDER ... [options]          check everything, and begin FOLDER, which keeps the work done
  clean.py measure FOLDER --workers N          measure the chunks that are missing
  clean.py finish FOLDER                       decide, and write pairs and reports
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from functools import partial
from pathlib import Path
from typing import Any, Optional

from deepnmt import console
from deepnmt.corpus.cleaning.chunk_results import ChunkMeasurer, result_path, scores_path
from deepnmt.corpus.cleaning.clean_job import Job, Options
from deepnmt.corpus.cleaning.clean_page import html_page
from deepnmt.corpus.cleaning.clean_report import summary, table, text_report
from deepnmt.corpus.cleaning.decisions import decide
from deepnmt.corpus.cleaning.filter_recipe import OPTIONS, Filter, joined, parse_filter, read_recipe
from deepnmt.corpus.cleaning.filters import KINDS
from deepnmt.corpus.cleaning.learnt import CLASSIFIER, Learnt
from deepnmt.corpus.cleaning.outcome import write_pairs
from deepnmt.errors import UserError
from deepnmt.text.in_order import cores, in_order
from deepnmt.text.record import read_record, write_record

JOB = "job.json"
# What the record of a result ends with; the file of scores among the results.
RECORD, SCORE = ".clean.json", "score"
REPORTS = ("report.txt", "report.html")


def begin(folder: Path, output: str, prefix: str, options: Options, rejected: str) -> bool:
    """Begin the folder of a job's work, or see that it was begun with the same; return whether the result is there.

    Raises:
        UserError: something does not fit, or folder or result are of something else
    """
    if os.path.abspath(output) == os.path.abspath(prefix):
        raise UserError(f"--output must be another prefix than --input, but is {output}")
    if rejected and os.path.abspath(rejected) in map(os.path.abspath, (output, prefix)):
        raise UserError(f"--rejected must be another prefix than --input and --output, but is {rejected}")
    files = results(options, output, rejected)
    own = [*(path for name, path in files.items() if name != SCORE), Path(f"{output}{RECORD}")]
    if options.scores and os.path.abspath(options.scores) in map(os.path.abspath, own):
        raise UserError(f"--score must be another file than those that clean.sh writes, but is {options.scores}")
    options.check()
    paths = Job(options).paths(prefix)
    with console.progress(sum(path.stat().st_size for path in paths), "reading", "B") as bar:
        job = Job.of(options, prefix, bar.update)
    record = {**job.record(), "rejected": rejected}
    made, begun = Path(f"{output}{RECORD}"), folder / JOB
    if made.exists():
        done = read_record(made, job=dict, files=dict)
        compare(f"{made} was made", done["job"], record)
        check_sizes(done["files"], files, made)
        return True
    if begun.exists():
        compare(f"{folder} was begun", read_record(begun, record=dict)["record"], record)
    else:
        for path in files.values():
            if path.exists():
                raise UserError(f"{path} exists, and clean.sh has not finished it; remove it or choose another name")
            path.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    if not begun.exists():
        # Of a job whose record is gone, nothing can be used but the lock, which its process may hold.
        for path in folder.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name != "lock":
                path.unlink()
    with console.whole_file(begun) as temporary:
        write_record(temporary, {"record": record, "output": output, "input": prefix, **job.as_json()})
    return False


def results(options: Options, output: str, rejected: str) -> dict[str, Path]:
    """Return the files that a job makes, but for its record, by their names in it."""
    ends = [*options.languages, *REPORTS, *([CLASSIFIER] if options.train_classifier else [])]
    files = {end: Path(f"{output}.{end}") for end in ends}
    if rejected:
        files |= {f"rejected.{end}": Path(f"{rejected}.{end}") for end in (*options.languages, "reason")}
    return files | ({SCORE: Path(options.scores)} if options.scores else {})


def check_sizes(sizes: dict[str, int], files: dict[str, Path], record: Path) -> None:
    """Raise `UserError` if a file of a finished job is missing or of another size than its record says."""
    for name, path in files.items():
        has = path.stat().st_size if path.exists() else "none"
        if has != sizes.get(name):
            raise UserError(
                f"{path}: must have the {sizes.get(name)} bytes of {record}, but has {has}; remove the job's files to "
                "run it again"
            )


def compare(what: str, old: dict[str, Any], new: dict[str, Any]) -> None:
    """Raise `UserError` naming the first difference between what was done and what is asked for."""
    for key in sorted(old.keys() | new.keys()):
        if old.get(key) != new.get(key):
            values = "another input" if key == "inputs" else f"{key} {shown(old.get(key))}, not {shown(new.get(key))}"
            raise UserError(f"{what} with {values}; remove it or choose another --output")


def shown(value: object) -> str:
    """Return a value of a record for messages."""
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def measure(folder: Path, processes: int) -> None:
    """Measure the chunks that are missing."""
    job = Job.from_json(read_record(folder / JOB))
    todo = [chunk for chunk in range(job.chunks) if not result_path(folder, chunk).exists()]
    left = sum(len(job.files["source"].lines_of(chunk)) for chunk in todo)
    if not todo:
        return
    print("learning from a sample of the corpus", file=sys.stderr)
    measurer = ChunkMeasurer(job, folder, Learnt.of(job, folder))
    with console.progress(job.pairs, "measuring", " pairs") as bar:
        # The estimate of the time left is of what this start has done.
        bar.initial = bar.n = job.pairs - left
        # Processes share what was learnt with this one, where the system can fork.
        for done in in_order(partial(_itself, measurer), todo, min(processes, len(todo))):
            bar.update(done)


def _itself(measurer: ChunkMeasurer) -> ChunkMeasurer:
    return measurer


def finish(folder: Path) -> None:
    """Decide about all pairs, and write them and the reports; the record comes last.

    Raises:
        UserError: a filter removes all pairs, or the disk is full
    """
    record = read_record(folder / JOB, record=dict, output=str, input=str)
    job, output, rejected = Job.from_json(record), record["output"], record["record"]["rejected"]
    try:
        decisions = decide(job, folder)
    except UserError:
        # The same filters would remove all pairs again, and others would be refused for this work.
        shutil.rmtree(folder)
        raise
    kept, rest = str(folder / "kept"), str(folder / "rejected") if rejected else ""
    with console.progress(job.pairs, "writing", " pairs") as bar:
        outcomes = write_pairs(job, decisions, kept, rest, bar.update)
    name = Path(record["input"]).name
    for end, text in (
        ("report.txt", text_report(outcomes, job.pairs, decisions.kept, decisions.unseen)),
        ("report.html", html_page(outcomes, decisions, name)),
    ):
        Path(f"{kept}.{end}").write_text(text, encoding="utf-8")
    if job.options.scores:
        write_scores(job, folder)
    if job.options.train_classifier:
        areas = read_record(folder / CLASSIFIER)["areas"]
        print("area under the ROC curve, on held-out pairs: " + ", ".join(f"{k} {v:.3f}" for k, v in areas.items()))
        shutil.copyfile(folder / CLASSIFIER, f"{output}.{CLASSIFIER}")
    for end in (*job.options.languages, "reason") if rejected else ():
        shutil.move(f"{rest}.{end}", f"{rejected}.{end}")
    for end in (*job.options.languages, *REPORTS):
        shutil.move(f"{kept}.{end}", f"{output}.{end}")
    with console.whole_file(Path(f"{output}.clean.json")) as temporary:
        write_record(
            temporary,
            {
                "job": record["record"],
                "counts": {"read": job.pairs, "kept": decisions.kept, "unseen": decisions.unseen},
                "removed": {each.filter.label: each.removed for each in outcomes},
                "files": {name: path.stat().st_size for name, path in results(job.options, output, rejected).items()},
            },
        )
    print(f"{table(outcomes, decisions.kept)}\n{summary(job.pairs, decisions.kept, decisions.unseen)}")


def write_scores(job: Job, folder: Path) -> None:
    """Write the measures of all pairs as one file."""
    measurer = ChunkMeasurer(job, folder, Learnt.of(job, folder))
    with console.whole_file(Path(job.options.scores)) as temporary, temporary.open("wb") as file:
        file.write(measurer.header().encode())
        for chunk in range(job.chunks):
            with scores_path(folder, chunk).open("rb") as part:
                shutil.copyfileobj(part, file)


def parse(words: list[str]) -> tuple[str, str, Options, str]:
    """Return the arguments of `begin` but the folder.

    Raises:
        UserError: one is missing, unknown or wrong
    """
    parser = console.Parser("clean.sh", "", "")
    add = parser.add_argument
    for name in ("input", "output", "source-lang", "target-lang"):
        add(f"--{name}", required=True)
    add("--recipe", type=Path)
    add("--rejected", default="")
    add("--chunk", default=str(Options.chunk))
    for name, kind in KINDS.items():
        flag = f"--{name}" if name != "score" else "--score-filter"
        nargs = "?" if kind.default else None
        add(flag, dest="filters", action=FilterAction, nargs=nargs, const="", default=[])
    for name, has_value in OPTIONS.items():
        if has_value:
            add(f"--{name}")
        else:
            add(f"--{name}", action="store_const", const="")
    add("--score", default="")
    add("--seed", default="1")
    given = parser.parse_args(words)
    filters, said = read_recipe(given.recipe) if given.recipe else ([], {})
    for name in OPTIONS:
        value: Optional[str] = getattr(given, name.replace("-", "_"))
        if value is not None:
            said[name] = value
    options = Options(
        given.source_lang,
        given.target_lang,
        joined(filters, given.filters),
        number("--chunk", given.chunk, 1, 1_000_000),
        lexicon=said.get("lexicon", ""),
        language_models=tuple(said.get("language-models", "").split()),
        classifier=said.get("classifier", ""),
        train_classifier="train-classifier" in said,
        rank_by=said.get("rank-by", ""),
        keep_best=said.get("keep-best", ""),
        keep_unseen=number("--keep-unseen", said.get("keep-unseen", "0"), 0, 1_000_000),
        seed=number("--seed", given.seed, 0, 2**31 - 1),
        scores=given.score,
    )
    return given.output, given.input, options, given.rejected


def number(name: str, text: str, low: int, high: int) -> int:
    """Return a whole number. Raises `UserError` if it is none, or outside its range."""
    if not text.isdecimal() or not low <= int(text) <= high:
        raise UserError(f"{name} must be a whole number from {low} to {high}, but is {text}")
    return int(text)


class FilterAction(argparse.Action):
    """Collects the filters in the order of the command line."""

    def __call__(
        self, parser: argparse.ArgumentParser, space: argparse.Namespace, value: object, option: str | None = None
    ) -> None:
        """Append a filter."""
        name = str(option).removeprefix("--").removesuffix("-filter")
        filters: list[Filter] = [*space.filters, parse_filter(name, str(value or ""), str(option))]
        space.filters = filters


def main() -> None:
    """Do what the command line says."""
    command, folder, *words = sys.argv[1:] if len(sys.argv) > 2 else ["", ""]
    if command == "begin":
        print("made" if begin(Path(folder), *parse(words)) else "begun")
    elif command == "measure" and (not words or words[0] == "--workers"):
        measure(Path(folder), int(words[1]) if words else cores())
    elif command == "finish":
        finish(Path(folder))
    else:
        raise UserError("the first argument must be begin, measure or finish")


if __name__ == "__main__":
    console.run(main)
