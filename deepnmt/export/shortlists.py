"""Make a model's shortlists from its training text and a lexicon: see `deepnmt/search/shortlist.py`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np

from deepnmt.errors import UserError
from deepnmt.search.shortlist import Shortlist
from deepnmt.text.dictionary import END, SPECIAL_SYMBOLS, read_types
from deepnmt.text.lines import read_lines

if TYPE_CHECKING:
    from deepnmt.corpus.alignment.lexicon import Entry

# The types on the list of a source.
ListOf = Callable[[Sequence[str]], Set[str]]

# Candidates of a source type, at most: most have fewer of at least the lexicon's least probability.
CANDIDATES = 50
# Share of a lexicon's words that must be types: a dictionary may leave rare ones out, but has all others.
KNOWN = 0.5


def shortlists(
    data: Path, languages: tuple[str, str], frequent: int, lexicon: Path | None = None, reverse: bool = False
) -> Shortlist:
    """Return the shortlists of models for a data folder.

    Args:
        data: the folder
        languages: of source and target
        frequent: number of frequent types
        lexicon: file of `deepnmt align DATA OUT --subwords --lexicon`; None: learnt from the training text
        reverse: whether the models translate in the opposite direction to the data folder

    Raises:
        UserError: the training text is missing, or the lexicon is faulty or of another dictionary
    """
    texts = [data / "text" / f"train.bpe.{language}" for language in languages]
    for path in texts:
        if not path.is_file():
            raise UserError(f"{path}: no such file, but --shortlist needs it")
    source, target = (read_types(data / f"dict.{language}.txt") for language in languages)
    number = {name: place for place, name in enumerate(target)}
    entries = _learnt(texts[0], texts[1]) if lexicon is None else _read(lexicon, reverse, source, target)
    candidates = np.full((len(source), 1 + CANDIDATES), END)
    for row, best in _best(entries, {name: place for place, name in enumerate(source)}, number):
        candidates[row, 1 : 1 + len(best)] = best
    for row, name in enumerate(source):
        candidates[row, 0] = number.get(name, END)
    return Shortlist(_frequent(texts[1], number, frequent), candidates, len(target))


def by_name(lists: Shortlist, source: Path, target: Path) -> ListOf:
    """Return the function from the subwords of a source to the types on its list; the paths are of dictionaries."""
    names = read_types(target)
    number = {name: place for place, name in enumerate(read_types(source))}
    unknown = SPECIAL_SYMBOLS.index("<unk>")

    def listed(sentence: Sequence[str]) -> Set[str]:
        further = lists.further(np.array([[number.get(name, unknown) for name in sentence]]))
        return {names[place] for place in (*lists.common, *further.types[further.used])}

    return listed


def _frequent(text: Path, numbers: dict[str, int], most: int) -> np.ndarray:
    """Return the most frequent types of a text; of equally frequent ones, the first in the dictionary."""
    counts: Counter[str] = Counter()
    for line in read_lines(text):
        counts.update(line.split())
    known = [numbers[name] for name in counts if name in numbers and numbers[name] >= len(SPECIAL_SYMBOLS)]
    types = list(numbers)
    known.sort(key=lambda place: (-counts[types[place]], place))
    return np.array(known[:most], dtype=np.int64)


def _best(
    entries: Iterable[Entry], sources: dict[str, int], targets: dict[str, int]
) -> Iterator[tuple[int, list[int]]]:
    """Yield each source type and its most probable translations that are types.

    Special symbols lack them: padding's would be on the lists of a batch's shorter sentences.
    """
    found: dict[int, list[tuple[float, int]]] = {}
    for word, other, probability in entries:
        if word in sources and word not in SPECIAL_SYMBOLS and other in targets:
            found.setdefault(sources[word], []).append((-probability, targets[other]))
    for row, others in found.items():
        yield row, [place for _, place in sorted(others)[:CANDIDATES]]


def _learnt(source: Path, target: Path) -> Iterator[Entry]:
    """Yield the entries of a lexicon that is learnt from two texts."""
    # Here, since these need the libraries of an extra.
    from deepnmt.corpus.alignment.align_job import AlignJob
    from deepnmt.corpus.alignment.learning import SIDES
    from deepnmt.corpus.alignment.lexicon import table_entries

    job = AlignJob(source, target)
    job.check()
    with TemporaryDirectory() as folder:
        # One process: torch's threads are running, and would not survive a fork.
        learning = job.learning(Path(folder), workers=1)
        learning.run()
        words = learning.words(SIDES[0]).words(), learning.words(SIDES[1]).words()
        yield from table_entries(learning.word_pairs(), learning.tables(), words, reverse=False)


def _read(path: Path, reverse: bool, source: list[str], target: list[str]) -> Iterator[Entry]:
    """Return the entries of a file. Raises `UserError` for a faulty line, or if most words are no types."""
    if not path.is_file():
        raise UserError(f"--lexicon {path}: no such file")
    entries = list(_entries(path, reverse))
    if not entries:
        raise UserError(f"{path}: must have entries after its header")
    for side, types in enumerate((set(source), set(target))):
        words = {entry[side] for entry in entries}
        if len(words & types) < KNOWN * len(words):
            raise UserError(
                f"{path}: must have the subwords of DATA (deepnmt align DATA OUT --subwords --lexicon), but the "
                f"dictionary lacks {len(words - types)} of its {len(words)} words"
            )
    return iter(entries)


def _entries(path: Path, reverse: bool) -> Iterator[Entry]:
    from deepnmt.corpus.alignment.align_job import LEXICONS
    from deepnmt.corpus.alignment.lexicon import HEADERS

    lines = read_lines(path)
    header = next(lines, "").rstrip("\n")
    if header != HEADERS[reverse]:
        raise UserError(f"{path}:1: must be the header of {LEXICONS[reverse]} of deepnmt align, but is '{header[:60]}'")
    for number, line in enumerate(lines, start=2):
        fields = line.rstrip("\n").split("\t")
        try:
            word, other, probability = fields[0], fields[1], float(fields[2])
        except (IndexError, ValueError):
            probability = math.nan
        if len(fields) != 3 or not 0 < probability <= 1:
            raise UserError(f"{path}:{number}: must be a word, its translation and a probability, with tabs between")
        yield word, other, probability
