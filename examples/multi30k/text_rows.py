"""Make the test sets of text.sh, and its table.

    text_rows.py misspell PREFIX OUT --kinds lc.norm.tok
    text_rows.py topic SOURCE OUT
    text_rows.py table RESULTS --lines OUT.lines --cased REFERENCE

`misspell` swaps two neighbouring letters in a tenth of the words of PREFIX.en, and of each PREFIX.KIND.en, and copies
the references. `topic` writes the half of a text that is nearest to one of two clusters of its lines to OUT.en, and
their numbers to OUT.lines. In the table, `cased` is BLEU against the references in their own case, of rows that are
translated in their own case; each translation then begins with a capital. `detokenised` ignores case in the other rows.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import numpy as np
from rows import score
from sacrebleu.metrics.bleu import BLEU
from tabulate import tabulate

from deepnmt import console
from deepnmt.errors import UserError
from deepnmt.text.lines import read_text, whole_text
from deepnmt.text.record import read_record
from deepnmt.text.token_bleu import TokenBleu
from deepnmt.text.translated_folder import RECORD
from deepnmt.text.truecase import sentence_case

SHARE = 0.1
HEADER = ["row", "seed", "validation", "test", "misspelt", "topic", "other topic", "detokenised", "cased"]


def misspelt(line: str, seed: object) -> str:
    """Return a line with two neighbouring letters swapped in a tenth of its words of four letters or more.

    Args:
        line: words between blanks
        seed: of the words and letters, always the same ones for a seed
    """
    random = Random(str(seed))
    words = line.split(" ")
    for place, word in enumerate(words):
        if len(word) >= 4 and word.isalpha() and random.random() < SHARE:
            at = random.randrange(1, len(word) - 2)
            words[place] = word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    return " ".join(words)


def misspell(prefix: str, output: str, kinds: list[str]) -> None:
    """Write a test set with misspelt sources, in each of its kinds."""
    for kind in ["", *(f".{kind}" for kind in kinds)]:
        lines = [misspelt(line, number) for number, line in enumerate(read_text(Path(f"{prefix}{kind}.en")))]
        write(Path(f"{output}{kind}.en"), lines)
        with console.whole_file(Path(f"{output}{kind}.de")) as temporary:
            shutil.copyfile(f"{prefix}{kind}.de", temporary)


def topic_half(lines: list[str]) -> list[int]:
    """Return the numbers, from 0, of the half of the lines that are nearest to one of two clusters by tf-idf."""
    # here, since it takes seconds
    from sklearn.cluster import KMeans
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectors = TfidfVectorizer(stop_words="english").fit_transform(lines)
    distances = KMeans(n_clusters=2, n_init=10, random_state=1).fit_transform(vectors)
    order = np.argsort(distances[:, 0] - distances[:, 1], kind="stable")
    return sorted(order[: len(lines) // 2].tolist())


def write(path: Path, lines: list[str]) -> None:
    """Write lines, unless the file has them: what was made of it stays up to date."""
    text = "".join(f"{line}\n" for line in lines)
    if path.is_file() and whole_text(path) == text:
        return
    with console.whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def tokenised(folder: Path, numbers: list[int]) -> str:
    """Return the tokenised BLEU of some lines of a folder of translations."""
    translations, references = (read_text(folder / f"{kind}.tok.de") for kind in ("hyp", "ref"))
    bleu = TokenBleu("de")
    chosen = [translations[number] for number in numbers], [[references[number] for number in numbers]]
    return f"{bleu.corpus_score(*chosen).score:.2f}"


def in_own_case(folder: Path, references: list[str]) -> str:
    """Return the BLEU of a folder of translations against references in their own case; '-' where it is lower-cased."""
    if read_record(folder / RECORD, lowercase=bool)["lowercase"]:
        return "-"
    sentences = [sentence_case(line, language="de") for line in read_text(folder / "hyp.de")]
    return f"{BLEU().corpus_score(sentences, [references]).score:.2f}"


def table(results: Path, lines: Path, cased: Path) -> list[list[str]]:
    """Return the fields of each row that is scored.

    Args:
        results: folder of text.sh
        lines: numbers of the half on one topic
        cased: references in their own case

    Raises:
        UserError: no row is scored
    """
    here = [int(line) for line in read_text(lines)]
    references = read_text(cased)
    there = sorted(set(range(len(references))) - set(here))
    rows = []
    for folder in sorted(results.glob("seed-*/*"), key=lambda folder: (folder.name, folder.parent.name)):
        if not (folder / "misspelt" / "scores.json").is_file():
            continue
        test = folder / "test"
        valid = max((score(found.parent) for found in folder.glob("valid.*/scores.json")), key=float)
        fields = [folder.name, folder.parent.name.removeprefix("seed-"), valid, score(test), score(folder / "misspelt")]
        fields += [tokenised(test, here), tokenised(test, there), score(test, "BLEU")]
        rows.append([*fields, in_own_case(test, references)])
    if not rows:
        raise UserError(f"{results}: must have scores of a test set, but has none")
    return rows


def main() -> None:
    """Do what the command line says."""
    parser = console.Parser("text_rows.py", __doc__ or "", "")
    commands = parser.add_subparsers(dest="command", required=True)
    add = commands.add_parser("misspell", description="", epilog="").add_argument
    add("prefix")
    add("output")
    add("--kinds", nargs="*", default=[])
    add = commands.add_parser("topic", description="", epilog="").add_argument
    add("source", type=Path)
    add("output")
    add = commands.add_parser("table", description="", epilog="").add_argument
    add("results", type=Path)
    add("--lines", type=Path, required=True)
    add("--cased", type=Path, required=True)
    given = parser.parse_args()
    if given.command == "misspell":
        misspell(given.prefix, given.output, given.kinds)
    elif given.command == "topic":
        text = read_text(given.source)
        numbers = topic_half(text)
        write(Path(f"{given.output}.en"), [text[number] for number in numbers])
        write(Path(f"{given.output}.lines"), [str(number) for number in numbers])
    else:
        print(tabulate(table(given.results, given.lines, given.cased), HEADER, disable_numparse=True))


if __name__ == "__main__":
    console.run(main)
