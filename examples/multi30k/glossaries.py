"""Glossaries for glossary.sh, out of the lexicons that align.sh learns from the training text.

commands:
  glossaries.py make ALIGNED TOKENS OUT [--least P]   words that translate each other with at least this probability,
                                         each way; TOKENS is the source of the training text
  glossaries.py wrong GLOSSARY OUT         the same terms, each with the translation of another one
  glossaries.py unseen GLOSSARY OUT        the same terms, each with a made-up word that no text has
  glossaries.py table RESULTS SUBSET       the scores of RESULTS/SUBSET and RESULTS/SUBSET.GLOSSARY
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from deepnmt import console
from deepnmt.text.lines import read_lines
from deepnmt.text.record import read_record

LEAST_COUNT = 5  # of a term, in the training text
SYLLABLES = ("ba", "fe", "glu", "kro", "li", "mon", "nist", "or", "pra", "quen", "ruf", "sil", "tav", "wex", "zul")
Pairs = dict[str, str]


def best(lexicon: Path, least: float) -> Pairs:
    """Return the translation of each word that has one with at least a probability."""
    rows = (line.rstrip("\n").split("\t") for line in list(read_lines(lexicon))[1:])
    return {word: other for word, other, probability in rows if float(probability) >= least}


def make(aligned: Path, text: Path, least: float) -> Pairs:
    """Return words that translate each other in most cases.

    Args:
        aligned: folder of align.sh --lexicon
        text: of the source that it was learnt from, in tokens
        least: probability of the translation, in each direction; above one half, a word has one at most
    """
    there, back = (best(aligned / f"lexicon.{way}.tsv", least) for way in ("forward", "reverse"))
    counts = Counter(word for line in read_lines(text) for word in line.split())
    pairs = {word: other for word, other in there.items() if back.get(other) == word and counts[word] >= LEAST_COUNT}
    return {
        word: other for word, other in sorted(pairs.items()) if word.isalpha() and other.isalpha() and word != other
    }


def wrong(pairs: Pairs) -> Pairs:
    """Return the terms with each other's translations, none with its own."""
    words = list(pairs)
    random.Random(1).shuffle(words)
    return {word: pairs[other] for word, other in sorted(zip(words, [*words[1:], words[0]]))}


def unseen(pairs: Pairs) -> Pairs:
    """Return the terms with made-up words, no two the same."""
    draw, made = random.Random(1), set[str]()
    while len(made) < len(pairs):
        made.add("".join(draw.sample(SYLLABLES, 3)))
    return dict(zip(pairs, sorted(made, key=lambda word: draw.random())))


def read(path: Path) -> Pairs:
    """Return a glossary."""
    return dict(line.rstrip("\n").split("\t") for line in read_lines(path))


def rows(results: Path, subset: str) -> Iterator[str]:
    """Yield a line for each result: terms that should be there and that are, and tokenised BLEU."""
    for folder in sorted(results.glob(f"{subset}*/scores.json")):
        terms = read_record(folder.parent / "generate.json").get("glossary", {"wanted": 0, "found": 0})
        bleu = read_record(folder)["tokenised BLEU"]["score"]
        yield f"{folder.parent.name}\t{terms['found']}/{terms['wanted']}\t{bleu}"


def main() -> None:
    """Do what the command line says."""
    parser = console.Parser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    changes: dict[str, Callable[[Pairs], Pairs]] = {"wrong": wrong, "unseen": unseen}
    for name, places in {"make": ("aligned", "text"), **dict.fromkeys(changes, ("glossary",))}.items():
        command = commands.add_parser(name)
        for place in (*places, "output"):
            command.add_argument(place, type=Path)
    commands.choices["make"].add_argument("--least", type=float, default=0.8, metavar="P", help="default: 0.8")
    command = commands.add_parser("table")
    command.add_argument("results", type=Path)
    command.add_argument("subset")
    given = parser.parse_args()
    if given.command == "table":
        print("\n".join(rows(given.results, given.subset)))
        return
    if given.command == "make":
        pairs = make(given.aligned, given.text, given.least)
    else:
        pairs = changes[given.command](read(given.glossary))
    with console.whole_file(given.output) as temporary:
        temporary.write_text("".join(f"{word}\t{other}\n" for word, other in pairs.items()), encoding="utf-8")
    print(f"{len(pairs)} terms in {given.output}")


if __name__ == "__main__":
    console.run(main)
