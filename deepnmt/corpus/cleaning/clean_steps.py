"""The steps of `deepnmt clean`: measure chunks, decide about all pairs, write pairs and reports; the record is last."""

import os
import shutil
import sys
from functools import partial
from pathlib import Path
from typing import Any

from deepnmt import console
from deepnmt.corpus.cleaning.chunk_results import ChunkMeasurer, header, result_path, scores_path
from deepnmt.corpus.cleaning.clean_job import CleanJob, Options
from deepnmt.corpus.cleaning.clean_report import html_page, summary, table, text_report
from deepnmt.corpus.cleaning.decisions import decide
from deepnmt.corpus.cleaning.learnt import CLASSIFIER, Learnt
from deepnmt.corpus.cleaning.outcome import write_pairs
from deepnmt.errors import UserError
from deepnmt.jobs.job import RECORD, Job
from deepnmt.text.in_order import in_order
from deepnmt.text.record import read_record, write_record

# The file of scores among the results.
SCORE = "score"
REPORTS = ("report.txt", "report.html")


def clean(program: str, options: Options, prefix: str, output: Path, rejected: str, workers: int) -> None:
    """Keep the pairs of a corpus that pass all filters.

    `prefix`, `output` and `rejected` are prefixes of the corpus, the results and the other pairs; an empty `rejected`
    means no files of other pairs. Raises `UserError` if options or files do not match, a filter removes all pairs, or a
    result or unfinished work belongs to another job.
    """
    if _is_one_of(output, prefix):
        raise UserError(f"--output must be another prefix than --input, but is {output}")
    if rejected and _is_one_of(rejected, output, prefix):
        raise UserError(f"--rejected must be another prefix than --input and --output, but is {rejected}")
    files = results(options, output, rejected)
    if options.scores and _is_one_of(options.scores, *(path for name, path in files.items() if name != SCORE)):
        raise UserError(f"--score must not be a file that {program} writes otherwise, but is {options.scores}")
    options.check()
    with console.progress(sum(path.stat().st_size for path in options.paths(prefix)), "reading", "B") as bar:
        job = CleanJob.of(options, prefix, bar.update)
    note = f": report in {files[REPORTS[0]]} and {files[REPORTS[1]]}"
    made = Job(program, output, "job.json", {**job.record(), "rejected": rejected}, "--output", files, note)

    def work(parts: Path) -> None:
        for path in files.values():
            path.parent.mkdir(parents=True, exist_ok=True)
        measure(job, parts, workers)
        finish(job, parts, made)

    made.do(work)


def _is_one_of(path: Path | str, *others: Path | str) -> bool:
    return os.path.abspath(path) in map(os.path.abspath, others)


def results(options: Options, output: Path, rejected: str) -> dict[str, Path]:
    """Return the files that are made, by their names in the record."""
    languages = options.languages
    ends = [*languages, *REPORTS, *([CLASSIFIER] if options.train_classifier else [])]
    files = {RECORD: Path(f"{output}.clean.json")} | {end: Path(f"{output}.{end}") for end in ends}
    if rejected:
        files |= {f"rejected.{end}": Path(f"{rejected}.{end}") for end in (*languages, "reason")}
    return files | ({SCORE: Path(options.scores)} if options.scores else {})


def measure(job: CleanJob, folder: Path, processes: int) -> None:
    """Measure the chunks that are missing."""
    todo = [chunk for chunk in range(job.chunks) if not result_path(folder, chunk).exists()]
    left = sum(len(job.files["source"].lines_of(chunk)) for chunk in todo)
    if not todo:
        return
    print("learning from a sample of the corpus", file=sys.stderr)
    measurer = ChunkMeasurer(job, folder, Learnt.of(job, folder))
    with console.progress(job.pairs, "measuring", " pairs", job.pairs - left) as bar:
        # Processes share the learnt values with this one, where the system can fork.
        for done in in_order(partial(_itself, measurer), todo, min(processes, len(todo))):
            bar.update(done)


def _itself(measurer: ChunkMeasurer) -> ChunkMeasurer:
    return measurer


def finish(job: CleanJob, folder: Path, made: Job) -> None:
    """Decide about all pairs, and write them and the reports.

    Raises `UserError` if a filter removes all pairs, or the disk is full.
    """
    try:
        decisions = decide(job, folder)
    except UserError:
        # The same filters would remove all pairs again, and others would be refused for this work.
        shutil.rmtree(folder)
        raise
    rejected = any(name.startswith("rejected.") for name in made.files)
    kept, rest = folder / "kept", folder / "rejected"
    with console.progress(job.pairs, "writing", " pairs") as bar:
        outcomes = write_pairs(job, decisions, kept, rest if rejected else None, bar.update)
    texts = {
        "report.txt": text_report(outcomes, job.pairs, decisions.kept, decisions.unseen),
        "report.html": html_page(outcomes, decisions, job.files["source"].path.stem),
    }
    for end, text in texts.items():
        Path(f"{kept}.{end}").write_text(text, encoding="utf-8")
    if job.options.scores:
        write_scores(job, folder)
    if job.options.train_classifier:
        areas = read_record(folder / CLASSIFIER)["areas"]
        print("area under the ROC curve, on held-out pairs: " + ", ".join(f"{k} {v:.3f}" for k, v in areas.items()))
        shutil.copyfile(folder / CLASSIFIER, made.files[CLASSIFIER])
    for name, path in made.files.items():
        built = folder / (name if name.startswith("rejected.") else f"kept.{name}")
        if built.exists():
            shutil.move(built, path)
    record: dict[str, Any] = {
        "job": dict(made.made_with),
        "counts": {"read": job.pairs, "kept": decisions.kept, "unseen": decisions.unseen},
        "removed": {each.filter.label: each.removed for each in outcomes},
        "files": {name: path.stat().st_size for name, path in made.files.items() if name != RECORD},
    }
    write_record(made.record, record)
    print(f"{table(outcomes, decisions.kept)}\n{summary(job.pairs, decisions.kept, decisions.unseen)}")


def write_scores(job: CleanJob, folder: Path) -> None:
    """Write the measures of all pairs as one file."""
    with console.whole_file(Path(job.options.scores)) as temporary, temporary.open("wb") as file:
        file.write(header(job).encode())
        for chunk in range(job.chunks):
            with scores_path(folder, chunk).open("rb") as part:
                shutil.copyfileobj(part, file)
