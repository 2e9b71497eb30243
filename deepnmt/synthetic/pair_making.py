"""From text and models to synthetic pairs: a data folder, by chunks of translations kept until it is complete.

A chunk is a fixed number of consecutive lines, whatever the number of machines. Its translations do not depend on
other chunks. On machines that compute alike, they are therefore the same, bit for bit, for any order, process and
number of starts. A chunk is written atomically, and only once.
"""

import json
import math
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, Optional

from deepnmt import console
from deepnmt.console import whole_file
from deepnmt.errors import UserError
from deepnmt.jobs.data_job import DataJob
from deepnmt.synthetic.decoding import LineDecoder, Method
from deepnmt.synthetic.noise import NO_NOISE, Noise
from deepnmt.synthetic.pairs import Pair, PairRules
from deepnmt.synthetic.synthesis import COPY, DISTIL, Synthesis
from deepnmt.text.like_folder import TRAIN, binarise_text, copy_frame
from deepnmt.text.lines import read_lines
from deepnmt.text.record import read_record, selected_on, sha256, write_record
from deepnmt.text.settings import RECORD
from deepnmt.text.subwords import CODES, join_bpe


@dataclass(frozen=True)
class Chunks:
    """The chunks of a text.

    Attributes:
        folder: folder that they are written to
        lines: lines of the text
        size: size of a chunk, in lines
    """

    folder: Path
    lines: int
    size: int

    def of_shard(self, shard: int, shards: int) -> range:
        """Return the numbers of the chunks that one of several machines makes."""
        return range(shard, -(-self.lines // self.size), shards)

    def lines_of(self, chunk: int) -> range:
        """Return the numbers of a chunk's lines."""
        return range(chunk * self.size, min((chunk + 1) * self.size, self.lines))

    def path(self, chunk: int) -> Path:
        """Return the file of a chunk."""
        return self.folder / f"chunk-{chunk:06d}.json"

    def missing(self, shard: int = 0, shards: int = 1) -> list[int]:
        """Return the numbers of the chunks that have not been made, by default of all machines."""
        return [chunk for chunk in self.of_shard(shard, shards) if not self.path(chunk).exists()]

    def write(self, chunk: int, results: Sequence[Optional[str]]) -> None:
        """Write the results of a chunk, None for a line without a result."""
        assert len(results) == len(self.lines_of(chunk))
        with whole_file(self.path(chunk)) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(json.dumps(result, ensure_ascii=False) + "\n" for result in results)

    def read(self) -> Iterator[Optional[str]]:
        """Yield the results of all lines. Raises `UserError` if a chunk is not whole."""
        for chunk in self.of_shard(0, 1):
            number = 0
            for line in read_lines(self.path(chunk)):
                number += 1
                try:
                    yield json.loads(line)
                except ValueError:
                    raise UserError(f"{self.path(chunk)}:{number}: must be a result, but is not; remove it") from None
            if number != len(self.lines_of(chunk)):
                raise UserError(
                    f"{self.path(chunk)}: must have {len(self.lines_of(chunk))} lines, but has {number}; remove it"
                )


def closest(candidates: Sequence[str], reference: str, language: str) -> str:
    """Return the candidate most similar to the reference, the first of equally similar ones.

        argmax over the n-best of sim(y, reference)                                                              (31)

    Args:
        candidates: translations in tokens, best first; at least one
        reference: reference in tokens
        language: language of both
    """
    return max(candidates, key=lambda candidate: similarity(candidate, reference, language))


def similarity(candidate: str, reference: str, language: str) -> float:
    """Return BLEU+1 of one sentence, 0 to 100: all counts except single words' have 1 added (Lin and Och 2004)."""
    return float(_metric(language).sentence_score(candidate, [reference]).score)


@lru_cache(maxsize=8)
def _metric(language: str) -> Any:
    from deepnmt.text.token_bleu import TokenBleu  # here, since it imports sacrebleu

    return TokenBleu(language, smooth_method="add-k", smooth_value=1, effective_order=True)


BATCHES = 8  # in a chunk


def make(job: Synthesis, program: str, out: Path, shards: int = 1, shard: int = 0) -> None:
    """Make a data folder of synthetic pairs, or a part of the translations for it.

    Args:
        job: the synthesis
        program: name of the command in messages
        out: folder to make
        shards: number of parts, each translated by another process; the last to finish makes the folder
        shard: number of the part, from 0

    Raises:
        UserError: inputs or options do not match, or the folder or its unfinished work belongs to another job
    """
    job.check()
    # One shard waits for another that is making the folder.
    made = DataJob(program, out, made_with=job.record(), resumes=True, wait=math.inf if shards > 1 else None)
    if shards > 1 and not made.is_made():
        # Translated without the lock, since others do the same.
        made.begin()
        # Another shard may have made the folder meanwhile.
        if not made.is_made():
            translate(made.parts, job, shards, shard)
        left = 0 if made.is_made() else len(chunks_of(made.parts, job).missing())
        if left:
            print(f"shard {shard} of {shards} is done; chunks that other shards have left: {left}")
            return
    counts: dict[str, Any] = {}

    def work(parts: Path) -> None:
        translate(parts, job)
        with made.result(counts, lambda folder: note_checksums(folder, job)) as folder:
            counts[TRAIN] = write_pairs(chunks_of(parts, job), job, folder)

    made.do(work)


def chunks_of(folder: Path, job: Synthesis) -> Chunks:
    """Return the chunks of a job."""
    return Chunks(folder, job.lines(), BATCHES * job.options.batch_size)


def translate(folder: Path, job: Synthesis, shards: int = 1, shard: int = 0) -> None:
    """Make the missing chunks of a shard."""
    chunks, options = chunks_of(folder, job), job.options
    todo = chunks.missing(shard, shards)
    if not todo:
        return
    texts = lines_of(job.text("bpe"))
    references = lines_of(job.text("tok", job.languages[1])) if options.closest else []
    decode = None
    if options.kind != COPY:
        method = Method(options.method, options.beam, options.top, options.nbest)
        decode = LineDecoder(job.checkpoints, job.data, job.model_languages, method, options.batch_size)
    total, left = (sum(len(chunks.lines_of(n)) for n in numbers) for numbers in (chunks.of_shard(shard, shards), todo))
    with console.progress(total, "translating", " sentences", total - left) as bar:
        for chunk in todo:
            lines = chunks.lines_of(chunk)
            text = texts[lines.start : lines.stop]
            if decode is None:
                chunks.write(chunk, text)
                bar.update(len(text))
                continue
            found = decode(text, f"{options.seed} {chunk}", bar.update)
            chunks.write(
                chunk,
                [
                    choose(best, references[n] if references else None, job.languages[1])
                    for best, n in zip(found, lines)
                ],
            )


def choose(translations: Optional[Sequence[str]], reference: Optional[str], language: str) -> Optional[str]:
    """Return the translation to keep, of a language: the best, or with a reference the one closest to it."""
    if not translations or reference is None:
        return translations[0] if translations else None
    chosen = closest([join_bpe(translation) for translation in translations], reference, language)
    return next(translation for translation in translations if join_bpe(translation) == chosen)


def write_pairs(chunks: Chunks, job: Synthesis, output: Path) -> dict[str, int]:
    """Write the pairs into a data folder that is otherwise DATA's, and return the counts.

    Raises:
        UserError: no pair is left
    """
    options, (source, target) = job.options, job.languages
    (output / "text").mkdir(parents=True, exist_ok=True)
    copy_frame(job.data, output)
    for name in (source, target):
        shutil.copyfile(job.folder / f"dict.{name}.txt", output / f"dict.{name}.txt")
    noise = Noise.parse(options.noise) if options.noise else NO_NOISE
    rules = PairRules(
        job.data / CODES, job.languages, options.synthetic_source, options.max_ratio, noise, options.tag, options.seed
    )  # fmt: skip
    counts: Counter[str] = Counter(read=0, kept=0, empty=0, too_long=0, ratio=0)
    text = zip(stripped(job.text("tok")), stripped(job.text("bpe")))
    pairs = rules.pairs(text, chunks.read(), counts)
    kinds = [("tok", source), ("tok", target), ("bpe", source), ("bpe", target)]
    with ExitStack() as stack:
        files = [
            stack.enter_context((output / "text" / f"{TRAIN}.{kind}.{name}").open("w", encoding="utf-8", newline="\n"))
            for kind, name in kinds
        ]
        for pair in chain(pairs, real_pairs(job, counts) if options.keep_real else ()):
            for file, line in zip(files, pair):
                file.write(line + "\n")
    if not counts["kept"]:
        raise UserError(f"no pair of the {counts['read']} is left: {describe(counts)}")
    print(describe(counts), file=sys.stderr)
    binarise_text(output, TRAIN)
    return dict(counts)


def note_checksums(folder: Path, job: Synthesis) -> None:
    """Add to the record the checksums of the pairs, and the text that DATA's own were chosen to be like."""
    made = sorted(path for path in folder.iterdir() if path.name.startswith(f"{TRAIN}."))
    record = {**read_record(folder / RECORD), "checksums": {path.name: sha256(path) for path in made}}
    chosen = selected_on([read_record(job.data / RECORD)]) if job.options.kind == DISTIL else {}
    write_record(folder / RECORD, record | chosen)


def describe(counts: Counter[str]) -> str:
    """Return the counts of kept and dropped pairs, in one line."""
    line = (
        f"{counts['kept']} of {counts['read']} pairs kept; dropped {counts['empty']} with an empty side, "
        f"{counts['too_long']} longer than the positions, {counts['ratio']} by length ratio"
    )
    return f"{line}; {counts['real']} real pairs added" if counts["real"] else line


def real_pairs(job: Synthesis, counts: Counter[str]) -> Iterator[Pair]:
    """Yield the real pairs of DATA."""
    texts = [job.text(kind, language) for kind in ("tok", "bpe") for language in job.languages]
    for lines in zip(*map(stripped, texts)):
        counts["real"] += 1
        yield Pair(*lines)


def stripped(path: Path) -> Iterator[str]:
    """Yield the lines of a text without their line feeds."""
    return (line.rstrip("\n") for line in read_lines(path))


def lines_of(path: Path) -> list[str]:
    """Return the lines of a text without their line feeds."""
    return list(stripped(path))
