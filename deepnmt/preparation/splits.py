"""Check, normalise and tokenise one split of a parallel corpus, a pair of lines at a time, or text of one language.

Reads PREFIX.LANG and writes OUTPUT.tok.LANG (tokenised) and OUTPUT.raw.LANG (unchanged except for white space), still
parallel, and reports skipped pairs. Validation pairs may be held out of the training pairs.
"""

import os
import re
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from tqdm import tqdm

from deepnmt.errors import UserError
from deepnmt.preparation.numbered_text import MANY
from deepnmt.preparation.stage_bar import Done, unseen
from deepnmt.text.dictionary import SPECIAL_SYMBOLS
from deepnmt.text.in_order import Block, blocks_in_order, in_order, itself, lines_of
from deepnmt.text.lines import check_parallel, clean, count_lines
from deepnmt.text.pipeline import Tokenizer, has_long_word
from deepnmt.text.settings import TextSettings
from deepnmt.text.words import number_of_words

SUBWORD = re.compile(r"\S@@ ")


@dataclass(frozen=True)
class Rules:
    """Rules for each pair; `max_len` and `max_ratio` count words, and 0 is no limit.

    With `only`, the text has that language alone.
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
        """The counted unit."""
        return "line" if self.only else "pair"


class Prepared(NamedTuple):
    """The tokenised sentences of a pair and its raw text, or the reason why it was skipped."""

    tokenised: tuple[str, ...] = ()
    raw: tuple[str, ...] = ()
    skipped: str = ""


class Preparer:
    """Turns the lines of pairs (source, target, and perhaps the raw text of both) into tokens and raw text."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.tokenizers = [Tokenizer(rules.text, language) for language in rules.languages]

    def __call__(self, lines: tuple[str, ...]) -> Prepared:
        """Prepare one pair."""
        cleaned, tokenised, (skipped,) = self.columns([[line] for line in lines])
        if skipped:
            return Prepared(skipped=skipped)
        raw = self.raw(cleaned)
        return Prepared(tuple(tokens for (tokens,) in tokenised), tuple(text for (text,) in raw))

    def columns(self, lines: list[list[str]]) -> tuple[list[list[str]], list[list[str]], list[str]]:
        """Return the clean lines and the tokens of parallel texts, and the reason to skip each pair or an empty one."""
        cleaned = [list(map(clean, column)) for column in lines]
        tokenised = [list(map(tokenize, column)) for tokenize, column in zip(self.tokenizers, cleaned)]
        lengths = [
            [number_of_words(line, language, tokens=True) for line in column]
            for column, language in zip(tokenised, self.rules.languages)
        ]
        skipped = list(map(self._skipped, zip(*cleaned), zip(*tokenised), zip(*lengths)))
        return cleaned, tokenised, skipped

    def raw(self, cleaned: list[list[str]]) -> list[list[str]]:
        """Return the texts that are raw."""
        return cleaned[len(self.tokenizers) :] if self.rules.text.pretokenized else cleaned

    def _skipped(self, cleaned: tuple[str, ...], tokenised: tuple[str, ...], lengths: tuple[int, ...]) -> str:
        short, long = min(lengths), max(lengths)
        if short == 0 or not all(cleaned):
            return "empty"
        if 0 < self.rules.max_len < long or any(map(has_long_word, tokenised)):
            return "too_long"
        return "ratio" if 0 < self.rules.max_ratio * short < long else ""


def prepare_split(prefixes: list[str], output: str, rules: Rules, workers: int, done: Done = unseen) -> dict[str, int]:
    """Prepare the files of one split, and return the counts.

    Args:
        prefixes: prefixes of the files to read, PREFIX.LANG; for pretokenised text, perhaps also of its raw text
        output: prefix of the files to write
        rules: rules for each pair
        workers: maximum number of processes
        done: told of the parts that are done

    Raises:
        UserError: the files are faulty or of different length, no pair is left, or the disk is full
    """
    inputs = [Path(f"{prefix}.{language}") for prefix in prefixes for language in rules.languages]
    total = check_parallel(inputs)
    names = " and ".join(map(str, inputs[: len(rules.languages)]))
    counts = Counter(read=total, kept=0, empty=0, too_long=0, ratio=0)
    kinds = ["tok"] if rules.text.pretokenized and len(prefixes) == 1 else ["tok", "raw"]
    paths = [f"{output}.{kind}.{language}" for kind in kinds for language in rules.languages]
    in_subwords = 0
    try:
        with ExitStack() as stack:
            files = [stack.enter_context(open(path, "wb")) for path in paths]
            for texts, reasons, subwords in blocks_in_order(_preparer(rules, inputs), inputs, workers, total):
                done(reasons.total() / total)
                counts.update(reasons)
                in_subwords += subwords
                for file, text in zip(files, texts):
                    file.write(text)
    except OSError as error:
        # Without a name where a write fails, as on a full disk.
        raise error if error.filename else UserError(f"cannot write {output}.*: {error.strerror}") from None
    said = (
        f"{counts['kept']} of {total} {rules.unit}s kept; skipped {counts['empty']} with an empty side, "
        f"{counts['too_long']} too long, {counts['ratio']} by length ratio"
    )
    if counts["kept"] == 0:
        raise UserError(f"no {rules.unit} of {names} is left: {said}")
    if in_subwords > counts["kept"] / 100:
        tqdm.write(
            f"warning: {names} seem to have had BPE already: {in_subwords} of {counts['kept']} "
            f"{rules.unit}s have words that end in @@",
            file=sys.stderr,
        )
    tqdm.write(f"{prefixes[0]}: {said}", file=sys.stderr)
    return dict(counts)


def _preparer(rules: Rules, inputs: list[Path]) -> Callable[[Block], tuple[list[bytes], Counter[str], int]]:
    """Return the function that prepares a block of pairs.

    It returns the text of each file, the numbers of pairs that were kept and skipped, and of pairs in subwords.
    """
    prepare = Preparer(rules)

    def prepared(block: Block) -> tuple[list[bytes], Counter[str], int]:
        first, texts = block
        lines = [lines_of(text, str(path), first) for text, path in zip(texts, inputs)]
        cleaned, tokenised, skipped = prepare.columns(lines)
        if rules.text.pretokenized:
            for number, (reason, tokens) in enumerate(zip(skipped, zip(*tokenised)), start=first):
                if not reason:
                    _check_symbols(inputs, number, tokens)
        columns = [*tokenised, *prepare.raw(cleaned)]
        given = cleaned[: len(tokenised)]
        if any(skipped):
            columns, given = ([_kept(column, skipped) for column in each] for each in (columns, given))
        in_subwords = 0
        if any("@@ " in line for column in given for line in column):
            in_subwords = sum(any(map(SUBWORD.search, pair)) for pair in zip(*given))
        written = ["\n".join([*column, ""]).encode() for column in columns]
        return written, Counter(reason or "kept" for reason in skipped), in_subwords

    return prepared


def _kept(column: list[str], skipped: list[str]) -> list[str]:
    return [text for text, reason in zip(column, skipped) if not reason]


def _check_symbols(inputs: list[Path], line: int, tokenised: tuple[str, ...]) -> None:
    """Raise `UserError` if tokens of a line are symbols of fairseq's; in text that is not tokenised they never are."""
    for path, tokens in zip(inputs, tokenised):
        if "<" in tokens and (symbol := next((token for token in tokens.split() if token in SPECIAL_SYMBOLS), "")):
            raise UserError(f"{path}:{line}: must be text in tokens, but has fairseq's symbol {symbol}")


def hold_out(train: Path, valid: Path, every: int, workers: int = 1) -> int:
    """Move lines `every`, 2 `every`, ... of each file TRAIN.KIND to VALID.KIND, and return their number.

    Raises:
        UserError: there are fewer lines than that
    """

    def move(source: Path) -> int:
        kind = source.name[len(train.name) :]
        rest = source.with_name(source.name + ".rest")
        with (
            source.open("rb") as lines,
            rest.open("wb") as kept,
            (valid.parent / (valid.name + kind)).open("wb") as out,
        ):
            moved = 0
            kept.writelines(islice(lines, every - 1))
            for line in lines:
                out.write(line)
                moved += 1
                kept.writelines(islice(lines, every - 1))
        if moved == 0:
            pairs = count_lines(source)
            raise UserError(f"--valid-every must be at most the number of training pairs, {pairs}, but is {every}")
        os.replace(rest, source)
        return moved

    sources = sorted(train.parent.glob(f"{train.name}.*"))
    pool = min(workers, 1 + sum(source.stat().st_size for source in sources) // MANY)
    return max(in_order(partial(itself, move), sources, pool))
