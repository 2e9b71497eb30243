"""One corpus of several languages into English, whose sources begin with the tag of their language, such as <de>.

    FOLDER/text/           made by corpus.fetch; the folder has the language's name
    FOLDER/clean.*         its training pairs after cleaning
    OUT/train.mul train.en valid.* test.*
    OUT/joined.json        checksums, and the number of pairs of each language before cleaning, after it, and in OUT

A page is held out in all languages. Its English may still stand in another page or in the interface of another
language: such pairs are left out.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from corpus.fetch import Pair, write_pairs
from deepnmt import console
from deepnmt.errors import UserError
from deepnmt.jobs.job import Job
from deepnmt.text.lines import check_parallel, read_lines
from deepnmt.text.record import sha256

MANY = "mul"
# Each split, and those whose English it must not have.
LATER = {"train": ("valid", "test"), "valid": ("test",), "test": ()}


def prefix(folder: Path, split: str) -> Path:
    """Return the path of a language's split, without its endings."""
    return folder / "clean" if split == "train" else folder / "text" / split


def read_pairs(path: Path, language: str) -> list[Pair]:
    """Return the pairs in PATH.LANGUAGE and PATH.en. Raises `UserError` if their numbers of lines differ."""
    paths = [Path(f"{path}.{ending}") for ending in (language, "en")]
    # Among few pages, none may be held out.
    if any(each.stat().st_size for each in paths):
        check_parallel(paths)
    return list(zip(*([line.removesuffix("\n") for line in read_lines(each)] for each in paths)))


def join(folders: list[Path], out: Path) -> dict[str, dict[str, int]]:
    """Write the joint corpus, and return the numbers of pairs of each language."""
    texts = {
        split: {folder.name: read_pairs(prefix(folder, split), folder.name) for folder in folders} for split in LATER
    }
    english = {split: {pair[1] for pairs in texts[split].values() for pair in pairs} for split in LATER}
    counts = {}
    for folder in folders:
        raw = len(read_pairs(folder / "text" / "train", folder.name))
        counts[folder.name] = {"before": raw, "clean": len(texts["train"][folder.name])}
    for split, later in LATER.items():
        held = set().union(*(english[each] for each in later))
        joined: list[Pair] = []
        for language, pairs in texts[split].items():
            kept = [(f"<{language}> {source}", target) for source, target in pairs if target not in held]
            counts[language][split] = len(kept)
            joined += kept
        write_pairs(out, split, MANY, joined)
    return counts


def main() -> None:
    """Join the languages that the command line names."""
    parser = console.Parser(console.program("join"), __doc__)
    parser.add_argument("out", type=Path, metavar="OUT", help="folder to make")
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER", help="folder of a language")
    given = parser.parse_args()
    for name, count in Counter(folder.name for folder in given.folders).items():
        if count > 1:
            raise UserError(f"FOLDER must have another name for each language, but '{name}' stands {count} times")
    files = [
        Path(f"{prefix(folder, split)}.{ending}")
        for folder in given.folders
        for split in LATER
        for ending in (folder.name, "en")
    ]
    record = {"inputs": {f"{path.parent.name}/{path.name}": sha256(path) for path in files}}
    job = Job(console.program("join"), given.out, "joined.json", record)

    def work(parts: Path) -> None:
        counts: dict[str, dict[str, int]] = {}
        with job.result(counts) as folder:
            counts.update(join(given.folders, folder))
        print("language  before cleaning   after   train  valid  test")
        for language, of in counts.items():
            print(f"{language:8} {of['before']:16} {of['clean']:7} {of['train']:7} {of['valid']:6} {of['test']:5}")

    job.do(work)


if __name__ == "__main__":
    console.run(main)
