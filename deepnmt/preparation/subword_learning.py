"""Learn the codes of each kind of subwords, and the dictionaries of texts in subwords."""

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, count
from pathlib import Path

from tqdm import tqdm

from deepnmt import console
from deepnmt.console import whole_file
from deepnmt.errors import UserError
from deepnmt.preparation.merge_learning import Cut, learn_pairs
from deepnmt.preparation.numbered_text import Words
from deepnmt.preparation.stage_bar import Done, unseen
from deepnmt.text.dictionary import SPECIAL_SYMBOLS
from deepnmt.text.lines import read_lines
from deepnmt.text.subwords import CHARACTERS, MERGES, SEPARATOR, kind_of
from deepnmt.text.unigram import END_OF_WORD, Unigram, learn_unigram
from deepnmt.text.unigram import HEADER as UNIGRAM
from deepnmt.text.word_pieces import learn_word_pieces, symbols_of


def learn(kind: str, codes: Path, size: int, texts: Sequence[Words], least: int, done: Done = unseen) -> None:
    """Write codes of `size` types.

    Args:
        kind: one of `preprocessing.KINDS`
        codes: codes to write
        size: number of types, including characters; unused for the kind of characters
        texts: words of texts in tokens
        least: number of times that two word pieces must be adjacent to be merged
        done: told of the parts that are done

    Raises:
        UserError: the size leaves no room beside the characters, sentencepiece is missing, or the disk is full
    """
    if kind == "char":
        console.write_whole(codes, f"{CHARACTERS}\n")
        return
    words: Counter[str] = Counter()
    for text in texts:
        words.update(dict(zip(text.distinct(), text.counts.tolist())))
    characters = len({symbol for cut in symbols_of(words) for symbol in cut})
    if size <= characters:
        raise UserError(
            f"--vocabulary must be at least {characters + 1}, one more than the text's characters within words and at "
            f"their ends, but is {size}"
        )
    if kind == "bpe":
        learn_merges(codes, size - characters, texts, done)
        return
    with console.whole_file(codes) as temporary:
        if kind == "unigram":
            model = learn_unigram(chain.from_iterable(read_lines(text.source) for text in texts), size)
            model.write(temporary)
            made = len(model.log_probs)
        else:
            merges = learn_word_pieces(words, size - characters, least)
            if not merges:
                raise UserError(
                    f"--min-pair-count must be a number of times that two characters are side by side, but is {least}"
                )
            made = len(merges) + characters
            with temporary.open("w", encoding="utf-8", newline="\n") as file:
                file.write(f"{MERGES}\n")
                file.writelines(f"{first} {second}\n" for first, second in merges)
    if made < size:
        tqdm.write(f"warning: --vocabulary is {size}, but the text has only {made} types to learn", file=sys.stderr)


def learn_merges(codes: Path, merges: int, texts: Sequence[Words], done: Done = unseen, cut: Cut | None = None) -> int:
    """Write the codes of a BPE, and return how many merges the texts had for them; `cut` is as for `learn_pairs`.

    Raises:
        UserError: there is nothing to merge, or the disk is full
    """
    made = 0
    with console.whole_file(codes) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
        file.write(f"{MERGES}\n")
        for pair in learn_pairs([(text.text, text.counts) for text in texts], merges, cut):
            file.write(" ".join(pair) + "\n")
            made += 1
            done(1 / merges)
        if not made:
            names = " and ".join(str(text.source) for text in texts)
            raise UserError(
                f"{names}: contain no adjacent symbols that occur twice for the BPE to merge; is there more text?"
            )
    if made < merges:
        tqdm.write(f"warning: --bpe-merges is {merges}, but the text has only {made} merges to make", file=sys.stderr)
    return made


def write_dictionary(path: Path, types: Mapping[str, int], more: Iterable[str] = ()) -> None:
    """Write types with their counts, and some more, as fairseq-preprocess does.

    They are ordered by count, then by name; the number of types is filled up to a multiple of eight.
    """
    counts = {**dict.fromkeys(more, 0), **types}
    for symbol in SPECIAL_SYMBOLS:
        counts.pop(symbol, None)
    entries = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
    fillers = (name for number in count() if (name := f"madeupword{number:04d}") not in counts)
    entries += [(next(fillers), 0) for _ in range(-(len(entries) + len(SPECIAL_SYMBOLS)) % 8)]
    with whole_file(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{word} {number}\n" for word, number in entries)


def sampled_types(codes: Path, words: Iterable[str]) -> set[str]:
    """Return every symbol that random cuts can leave of words.

    With BPE-dropout, these are their characters and the result of each merge; else the pieces of the unigram model.
    """
    if kind_of(codes) == UNIGRAM:
        pieces = Unigram.read(codes).log_probs
        return {
            piece.removesuffix(END_OF_WORD) if piece.endswith(END_OF_WORD) else piece + SEPARATOR for piece in pieces
        }
    types: set[str] = set()
    for word in words:
        types.update(f"{sign}{SEPARATOR}" for sign in word[:-1])
        types.add(word[-1])
    for line in list(read_lines(codes))[1:]:
        symbol = "".join(line.strip("\r\n ").split(" "))
        types.add(symbol.removesuffix("</w>") if symbol.endswith("</w>") else symbol + SEPARATOR)
    return types
