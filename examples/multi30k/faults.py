"""Put faults into a corpus, and see which of them a cleaning has found.

    faults.py put PREFIX OUT --source-lang de --target-lang en [--broken 14500 | --replace 0.2] [--kinds cut,copied]
    faults.py count OUT.kinds REJECTED.reason

`put` writes OUT.LANG and OUT.kinds, a kind a line: the pairs of PREFIX in another order with so many broken ones among
them, or with such a share of them broken. `count` prints recall by kind, and precision, of what
`clean.sh --rejected REJECTED` has removed.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

from tabulate import tabulate

from deepnmt import console
from deepnmt.corpus.cleaning.breaking import FAULTS, broken
from deepnmt.errors import UserError
from deepnmt.text.lines import read_text

GOOD = "good"


def put(
    prefix: str, output: str, languages: tuple[str, str], number: int, replace: float, kinds: list[str], seed: int
) -> None:
    """Write a corpus with faults, and the kinds of its pairs.

    Args:
        prefix: of the corpus
        output: of the files to write
        languages: source and target
        number: of broken pairs to add; 0: they take the place of good ones
        replace: share of pairs to break in their place
        kinds: of faults, in turn
        seed: of the faults and the order
    """
    source, target = (read_text(Path(f"{prefix}.{language}")) for language in languages)
    pairs, random = list(zip(source, target)), Random(seed)
    rows = random.sample(range(len(pairs)), min(number or round(replace * len(pairs)), len(pairs)))
    faulty = {row: (kinds[place % len(kinds)]) for place, row in enumerate(rows)}
    made = [(GOOD, pair) for row, pair in enumerate(pairs) if number or row not in faulty]
    made += [(kind, broken(kind, pairs, row, seed, languages)) for row, kind in faulty.items()]
    random.shuffle(made)
    for side, language in enumerate(languages):
        Path(f"{output}.{language}").write_text("".join(f"{pair[side]}\n" for _, pair in made), encoding="utf-8")
    Path(f"{output}.kinds").write_text("".join(f"{kind}\n" for kind, _ in made), encoding="utf-8")


def count(kinds: Path, reasons: Path) -> str:
    """Return a table of how many pairs of each kind were removed, and the precision."""
    names = read_text(kinds)
    gone = Counter(names[int(line.split("\t")[0]) - 1] for line in read_text(reasons))
    rows = [(kind, total, gone[kind], f"{gone[kind] / total:.1%}") for kind, total in sorted(Counter(names).items())]
    faults = gone.total() - gone[GOOD]
    table = tabulate(rows, ("kind", "pairs", "removed", "share"), colalign=("left", "right", "right", "right"))
    return f"{table}\nprecision {faults / gone.total():.1%}"


def main() -> None:
    """Do what the command line says."""
    parser = console.Parser("faults.py", __doc__ or "", "")
    commands = parser.add_subparsers(dest="command", required=True)
    add = commands.add_parser("put", description="", epilog="").add_argument
    add("prefix")
    add("output")
    add("--source-lang", required=True)
    add("--target-lang", required=True)
    add("--broken", type=int, default=0)
    add("--replace", type=float, default=0.2)
    add("--kinds", default=",".join(FAULTS))
    add("--seed", type=int, default=1)
    add = commands.add_parser("count", description="", epilog="").add_argument
    add("kinds", type=Path)
    add("reasons", type=Path)
    given = parser.parse_args()
    if given.command == "count":
        print(count(given.kinds, given.reasons))
        return
    kinds = given.kinds.split(",")
    if unknown := [kind for kind in kinds if kind not in FAULTS]:
        raise UserError(f"--kinds must be of {', '.join(FAULTS)}, but has {unknown[0]}")
    languages = (given.source_lang, given.target_lang)
    put(given.prefix, given.output, languages, given.broken, given.replace, kinds, given.seed)


if __name__ == "__main__":
    console.run(main)
