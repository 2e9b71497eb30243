"""The steps of select.sh: the training pairs of a data folder that are like a text, as a data folder.

commands:
  select_pairs.py begin FOLDER DATA [options]     check everything, and begin FOLDER's record
  select_pairs.py finish FOLDER DATA [options]    choose the pairs, and complete the record
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import manifest
import numpy as np

from deepnmt import console
from deepnmt.corpus.selection.chosen import Scorer, best, score_all
from deepnmt.corpus.selection.cross_entropy_difference import CrossEntropyDifference
from deepnmt.corpus.selection.tfidf import TfIdf
from deepnmt.errors import UserError
from deepnmt.text.data_folder import check_dictionaries, check_subset, check_texts
from deepnmt.text.in_order import cores
from deepnmt.text.leakage import held_out
from deepnmt.text.like_folder import TRAIN, binarise_text, check_like, copy_frame, frame_record, settings_record
from deepnmt.text.lines import clean, read_lines, read_text
from deepnmt.text.pipeline import TextPipeline
from deepnmt.text.record import SELECTED_ON, read_record, selected_on, sha256, write_record
from deepnmt.text.settings import RECORD, TextSettings
from deepnmt.text.words import Words, counted_words, spread

TFIDF, CROSS_ENTROPY = METHODS = ("tfidf", "cross-entropy")
LEAST_LINES = 100
SCORES = "selection.tsv"


def check(data: Path, like: Path, method: str, number: int) -> tuple[int, list[Words]]:
    """Return the number of DATA's training pairs, and the words of the text as DATA has them.

    Raises:
        UserError: DATA is faulty or has fewer pairs than are to be chosen, or the text is missing, too short, or one of
            references
    """
    languages = check_like(data).languages
    pairs = check_subset(data, TRAIN, languages, check_dictionaries(data, languages))
    if pairs is None:
        raise UserError(f"{data}: must be binarised by preprocess.sh, but is in an older format of fairseq's")
    check_texts(data, TRAIN, [f"{kind}.{name}" for kind in ("tok", "bpe") for name in languages], pairs)
    if not 1 <= number < pairs:
        raise UserError(f"--number must be from 1 to {pairs - 1}, one less than the pairs of {data}, but is {number}")
    if not like.is_file():
        raise UserError(f"--like must be a text, but there is no '{like}'")
    tokenize = TextPipeline.read(data).tokenize
    lines = [tokenize(clean(line)) for line in read_text(like)]
    if method == CROSS_ENTROPY and len(lines) < LEAST_LINES:
        raise UserError(f"{like}: must have at least {LEAST_LINES} lines for --method {method}, but has {len(lines)}")
    references = held_out(data, languages[1])
    found = sum(line in references for line in lines)
    if 2 * found > len(lines):
        raise UserError(
            f"--like must be a text of the source, but {found} of the {len(lines)} lines of {like} are references of "
            f"the validation or test sets of {data}"
        )
    return pairs, [counted_words(line, languages[0], tokens=True) for line in lines]


def begin(folder: Path, data: Path, like: Path, method: str, number: int) -> None:
    """Check everything, and begin the record."""
    check(data, like, method, number)
    record = {
        **settings_record(data),
        **frame_record(data),
        "selection": {"method": method, "number": number},
        # First this text, then those that DATA's own pairs were chosen by.
        **selected_on([{SELECTED_ON: {"file": like.name, "sha256": sha256(like)}}, read_record(data / RECORD)]),
        "inputs": {name: sha256(data / "text" / f"{TRAIN}.tok.{name}") for name in TextSettings.read(data).languages},
    }
    write_record(folder / RECORD, record)


def scorer_of(data: Path, like: list[Words], method: str, pairs: int) -> Scorer:
    """Return what scores lines of DATA's source."""
    language = TextSettings.read(data).source_lang
    lines = read_lines(data / "text" / f"{TRAIN}.tok.{language}")
    chosen = lines if method == TFIDF else spread(lines, len(like), pairs)
    words = (counted_words(line, language, tokens=True) for line in chosen)
    return TfIdf(words, like) if method == TFIDF else CrossEntropyDifference(words, like)


def finish(folder: Path, data: Path, like: Path, method: str, number: int) -> None:
    """Write the chosen pairs as a data folder: DATA's, with these as its training text."""
    pairs, words = check(data, like, method, number)
    languages = TextSettings.read(data).languages
    scorer = scorer_of(data, words, method, pairs)
    source = data / "text" / f"{TRAIN}.tok.{languages[0]}"
    with console.progress(pairs, "scoring", " pairs") as bar:
        scores = score_all(scorer, read_lines(source), languages[0], cores(), bar.update)
    # A cosine of 0 has nothing to say, and the first pairs of DATA would be taken.
    if method == TFIDF and (alike := int((scores > 0).sum())) < number:
        raise UserError(
            f"--number must be at most {alike}, the pairs of {data} whose source has a word in common with {like}, but "
            f"is {number}"
        )
    chosen = np.zeros(pairs, bool)
    chosen[best(scores, number)] = True
    (folder / "text").mkdir(exist_ok=True)
    copy_frame(data, folder)
    for name in (f"{TRAIN}.{kind}.{language}" for kind in ("tok", "bpe") for language in languages):
        with (folder / "text" / name).open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(
                line.rstrip("\n") + "\n" for line, taken in zip(read_lines(data / "text" / name), chosen) if taken
            )
    with (folder / SCORES).open("w", encoding="utf-8") as file:
        file.write(f"{method.replace('-', '_')}\n")
        file.writelines(f"{score:.6g}\n" for score in scores)
    binarise_text(folder, TRAIN)
    (folder / "counts").mkdir()
    path = folder / "counts" / f"{TRAIN}.json"
    path.write_text(json.dumps({"read": pairs, "kept": number}), encoding="utf-8")
    manifest.finish(folder / RECORD, folder, [path])
    shutil.rmtree(path.parent)


def main() -> None:
    """Do what the command line says."""
    parser = console.Parser("select.sh", "", "")
    commands: dict[str, Callable[..., None]] = {"begin": begin, "finish": finish}
    parser.add_argument("command", choices=commands)
    parser.add_argument("folder", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--like", type=Path, required=True)
    parser.add_argument("--method", choices=METHODS, default=TFIDF)
    parser.add_argument("--number", type=int, required=True)
    given: argparse.Namespace = parser.parse_args()
    commands[given.command](given.folder, given.data, given.like, given.method, given.number)


if __name__ == "__main__":
    console.run(main)
