"""Check, normalise and tokenise one split of a parallel corpus, a pair of lines at a time, or text of one language.

Reads PREFIX.LANG and writes OUTPUT.tok.LANG (tokenised) and OUTPUT.raw.LANG (as it was, but for white
space) for both languages, still parallel, and reports what was skipped.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import workers

from deepnmt import console
from deepnmt.errors import UserError
from deepnmt.text.dictionary import SPECIAL_SYMBOLS
from deepnmt.text.lines import check_parallel, clean, read_lines
from deepnmt.text.normalisation import parse_steps
from deepnmt.text.pipeline import LONG_WORD, Tokenizer
from deepnmt.text.placeholders import parse_kinds
from deepnmt.text.record import read_record
from deepnmt.text.settings import TextSettings
from deepnmt.text.words import counted_words

SUBWORD = re.compile(r"\S@@ ")


@dataclass(frozen=True)
class Rules:
    """What is done to each pair; `max_len` and `max_ratio` count words, and 0 is no limit.

    With `only`, the text is of that language alone.
    """

    text: TextSettings
    max_len: int = 0
    max_ratio: float = 0
    only: str = ""

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages of the files."""
        return (self.only,) if self.only else self.text.languages

    @property
    def unit(self) -> str:
        """What is counted."""
        return "line" if self.only else "pair"


@dataclass(frozen=True)
class Prepared:
    """The tokenised sentences of a pair and its raw text, or the reason why it was skipped."""

    tokenised: tuple[str, ...] = ()
    raw: tuple[str, ...] = ()
    skipped: str = ""
    in_subwords: bool = False


class Preparer:
    """Turns the lines of one pair (source, target, and perhaps the raw text of both) into a `Prepared`."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.tokenizers = [Tokenizer(rules.text, language) for language in rules.languages]

    def __call__(self, lines: tuple[str, ...]) -> Prepared:
        """Prepare one pair."""
        cleaned = [clean(line) for line in lines]
        tokenised = tuple(tokenize(line) for tokenize, line in zip(self.tokenizers, cleaned))
        lengths = sorted(
            len(counted_words(line, language, tokens=True)) for line, language in zip(tokenised, self.rules.languages)
        )
        if lengths[0] == 0 or not all(cleaned):
            return Prepared(skipped="empty")
        if 0 < self.rules.max_len < lengths[-1] or any(map(LONG_WORD.search, tokenised)):
            return Prepared(skipped="too_long")
        if 0 < self.rules.max_ratio * lengths[0] < lengths[-1]:
            return Prepared(skipped="ratio")
        raw = cleaned[len(tokenised) :] if self.rules.text.pretokenized else cleaned
        in_subwords = any(SUBWORD.search(line) for line in cleaned[: len(tokenised)])
        return Prepared(tokenised=tokenised, raw=tuple(raw), in_subwords=in_subwords)


def prepare_split(inputs: list[Path], output: str, rules: Rules, processes: int) -> Counter[str]:
    """Prepare the files of one split, and return what was counted.

    Args:
        inputs: source, target, and perhaps raw source and target
        output: prefix of the files to write
        rules: what is done to each pair
        processes: how many, at most

    Raises:
        UserError: the files are faulty or of different length, no pair is left, or the disk is full
    """
    total = check_parallel(inputs)
    names = " and ".join(map(str, inputs[: len(rules.languages)]))
    counts = Counter(read=total, kept=0, empty=0, too_long=0, ratio=0)
    kinds = ["tok"] if rules.text.pretokenized and len(inputs) == len(rules.languages) else ["tok", "raw"]
    paths = [f"{output}.{kind}.{language}" for kind in kinds for language in rules.languages]
    pairs = zip(*map(read_lines, inputs))
    in_subwords = 0
    try:
        with ExitStack() as stack:
            files = [stack.enter_context(open(path, "w", encoding="utf-8", newline="\n")) for path in paths]
            bar = stack.enter_context(console.progress(total, f"preparing {Path(output).name}", " lines"))
            processes = min(processes, 1 + total // workers.CHUNK)
            for prepared in workers.map_in_order(partial(Preparer, rules), pairs, processes):
                bar.update()
                counts[prepared.skipped or "kept"] += 1
                in_subwords += prepared.in_subwords
                if rules.text.pretokenized:
                    check_symbols(inputs, counts.total() - total, prepared.tokenised)
                if not prepared.skipped:
                    for file, text in zip(files, prepared.tokenised + prepared.raw):
                        file.write(text + "\n")
    except OSError as error:
        # Without a name where a write fails, as on a full disk.
        raise error if error.filename else UserError(f"cannot write {output}.*: {error.strerror}") from None
    if counts["kept"] == 0:
        raise UserError(f"no {rules.unit} of {names} is left: {describe(counts, rules.unit)}")
    if in_subwords > counts["kept"] / 100:
        print(
            f"warning: {names} seem to have had BPE already: {in_subwords} of {counts['kept']} "
            f"{rules.unit}s have words that end in @@",
            file=sys.stderr,
        )
    return counts


def check_symbols(inputs: list[Path], line: int, tokenised: tuple[str, ...]) -> None:
    """Raise `UserError` if tokens of a line are symbols of fairseq's; in text that is not tokenised they never are."""
    for path, tokens in zip(inputs, tokenised):
        if "<" in tokens and (symbol := next((token for token in tokens.split() if token in SPECIAL_SYMBOLS), "")):
            raise UserError(f"{path}:{line}: must be text in tokens, but has fairseq's symbol {symbol}")


def describe(counts: Counter[str], unit: str = "pair") -> str:
    """Return what was kept and skipped, in one line."""
    return (
        f"{counts['kept']} of {counts['read']} {unit}s kept; skipped {counts['empty']} with an empty side, "
        f"{counts['too_long']} too long, {counts['ratio']} by length ratio"
    )


def parse_arguments() -> argparse.Namespace:
    """Return the command line's arguments."""
    parser = console.Parser(
        description=__doc__,
        epilog="example: prepare_text.py --source-lang en --target-lang de --input raw/train --output text/train",
    )
    add = parser.add_argument
    add("--source-lang", required=True, metavar="LANG")
    add("--target-lang", required=True, metavar="LANG")
    add("--only", default="", metavar="LANG", help="the text is of this one of the two languages alone")
    add("--input", required=True, metavar="PREFIX", help="reads PREFIX.LANG")
    add("--output", required=True, metavar="PREFIX", help="writes PREFIX.tok.LANG and PREFIX.raw.LANG")
    add("--raw", metavar="PREFIX", help="untokenised text of the same lines, where the input is tokenised")
    add("--pretokenized", action="store_true", help="the input is normalised and tokenised already")
    add("--keep-punctuation", action="store_true", help="with --sacremoses: do not normalise the punctuation")
    add("--sacremoses", action="store_true", help="tokens of folders whose preprocess.json has no 'reversible'")
    add("--normalise", default="", metavar="STEPS", help="width, nfkc, punctuation, simplified, with commas between")
    add("--lowercase", action="store_true", help="lower-case the tokenised text")
    add("--language-case", action="store_true", help="with --lowercase: by the rules of each language")
    add("--protect", type=Path, metavar="RECORD", help="keep words whole as this preprocess.json says: by its patterns")
    add("--placeholders", default="", metavar="KINDS", help="keep numbers or urls whole; a comma between both")
    add("--segment", default="", choices=["", "jieba"], help="cut Chinese into words by jieba")
    add("--max-len", type=int, default=0, metavar="N", help="skip pairs with more words on a side; 0: keep all (0)")
    add("--max-ratio", type=float, default=0, metavar="R", help="skip pairs of a higher length ratio; 0: keep all (0)")
    add("--workers", type=int, default=os.cpu_count() or 1, metavar="N", help="processes (one per core)")
    add("--counts", metavar="FILE", help="write what was counted to this file, as JSON")
    arguments = parser.parse_args()
    if arguments.raw and not arguments.pretokenized:
        parser.error("--raw is for --pretokenized input alone; otherwise the input is the raw text")
    return arguments


def main() -> None:
    """Prepare the split named on the command line."""
    arguments = parse_arguments()
    units = read_record(arguments.protect) if arguments.protect else {}
    text = TextSettings(
        arguments.source_lang,
        arguments.target_lang,
        arguments.lowercase,
        arguments.pretokenized,
        arguments.keep_punctuation,
        ",".join(parse_steps(arguments.normalise)),
        protect=tuple(units.get("protect", ())),
        placeholders=",".join(parse_kinds(arguments.placeholders)),
        segment=arguments.segment,
        units_first=units.get("units_first", False),
        language_case=arguments.language_case,
        reversible=not arguments.sacremoses,
    )
    rules = Rules(text, arguments.max_len, arguments.max_ratio, arguments.only)
    prefixes = [arguments.input] + ([arguments.raw] if arguments.raw else [])
    inputs = [Path(f"{prefix}.{language}") for prefix in prefixes for language in rules.languages]
    counts = prepare_split(inputs, arguments.output, rules, arguments.workers)
    print(f"{arguments.input}: {describe(counts, rules.unit)}", file=sys.stderr)
    if arguments.counts:
        Path(arguments.counts).write_text(json.dumps(counts), encoding="utf-8")


if __name__ == "__main__":
    console.run(main)
