"""Learn the tables of both directions by EM, in a folder from which a killed process resumes.

    5 rounds of IBM model 1, by maximum likelihood: log P of the text never falls
    5 rounds with the diagonal prior, by variational Bayes: its lower bound of log P never falls (Dyer 2013)

In the end the tables are the means of the posterior. The folder gets, in this order, words.source and words.target; a
file of links for each piece of the text; keys.npy (word pairs). Then come places for each piece, and the tables
of the last round. Every write is atomic. Counts are added in the order of the pieces: the tables are the same bit for
bit, for any number of processes and of interruptions.
"""

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from deepnmt import console
from deepnmt.corpus.alignment.expectation import DIAGONAL, MODEL_1, Expected, expected
from deepnmt.corpus.alignment.links import Links, Pair, pieces
from deepnmt.corpus.alignment.parallel_text import ParallelText, WordNumbers
from deepnmt.corpus.alignment.word_table import BAYES, LIKELIHOOD, MEAN, Tables, WordPairs, union
from deepnmt.corpus.distinct import Keys
from deepnmt.errors import UserError
from deepnmt.text.in_order import in_order
from deepnmt.text.lines import whole_text
from deepnmt.text.words import Words

# Longer pairs say little, and take long.
LONGEST_LEARNT = 100
SIDES = ("source", "target")


@dataclass(frozen=True)
class Learning:
    """Text, folder and options of the learning: `rounds` per model, at most `learn_from` pairs, evenly spread."""

    folder: Path
    text: ParallelText
    pairs: int
    learn_from: int
    rounds: int
    workers: int

    def run(self) -> None:
        """Do the missing steps. Raises `UserError` if no pair has words on both sides."""
        if self.tables_folder.exists():
            return
        self._number_words()
        self._write_links()
        self._write_places()
        self._learn()
        (self.folder / f"round-{2 * self.rounds:02d}").rename(self.tables_folder)
        for path in [*self.folder.glob("links-*.npz"), *self.folder.glob("places-*.npy")]:
            path.unlink()

    @property
    def tables_folder(self) -> Path:
        """The result."""
        return self.folder / "tables"

    def words(self, side: str) -> WordNumbers:
        """Return the numbers of a side's words."""
        return WordNumbers.read(self.folder / f"words.{side}")

    def word_pairs(self) -> WordPairs:
        """Return the word pairs that the tables are of."""
        sizes = json.loads(whole_text(self.folder / "sizes.json"))
        return WordPairs(np.load(self.folder / "keys.npy", mmap_mode="r"), sizes["source"], sizes["target"])

    def tables(self) -> Tables:
        """Return the result."""
        return Tables.read(self.tables_folder)

    def history(self) -> list[dict[str, float | str]]:
        """Return the measurements of each round."""
        history: list[dict[str, float | str]] = json.loads(whole_text(self.tables_folder / "history.json"))
        return history

    def _sample(self) -> Iterator[tuple[Words, Words]]:
        """Yield the pairs to learn from."""
        for source, target in self.text.spread(self.learn_from, self.pairs):
            if 0 < len(source) <= LONGEST_LEARNT >= len(target) > 0:
                yield source, target

    def _number_words(self) -> None:
        paths = [self.folder / f"words.{side}" for side in SIDES]
        if all(path.exists() for path in paths):
            return
        words: tuple[dict[str, None], dict[str, None]] = ({}, {})
        with console.progress(min(self.pairs, self.learn_from), "reading words", " pairs") as bar:
            for pair in self._sample():
                for known, line in zip(words, pair):
                    known.update(dict.fromkeys(line))
                bar.update()
        if not words[0]:
            raise UserError(f"{self.text.source}: no pair has 1 to {LONGEST_LEARNT} words on each side")
        for path, known in zip(paths, words):
            WordNumbers(known).write(path)

    def _pieces(self) -> Iterator[tuple[int, list[Pair]]]:
        """Yield the pieces that have no file yet."""
        source, target = (self.words(side) for side in SIDES)
        pairs = ((source.encode(one), target.encode(other)) for one, other in self._sample())
        for number, piece in enumerate(pieces(pairs)):
            if not self._links_path(number).exists():
                yield number, piece

    def _links_path(self, number: int) -> Path:
        return self.folder / f"links-{number:05d}.npz"

    def _places_path(self, number: int) -> Path:
        return self.folder / f"places-{number:05d}.npy"

    def _write_links(self) -> None:
        sizes = self.folder / "sizes.json"
        if sizes.exists():
            return
        numbers = [self.words(side) for side in SIDES]
        make = partial(_link_writer, self.folder, len(numbers[1]))
        with console.progress(min(self.pairs, self.learn_from), "linking words", " pairs") as bar:
            for done in in_order(make, self._pieces(), self.workers):
                bar.update(done)
        count = len(list(self.folder.glob("links-*.npz")))
        record = {"source": len(numbers[0]), "target": len(numbers[1]), "pieces": count}
        console.write_whole(sizes, json.dumps(record))

    def _numbers(self) -> range:
        return range(int(json.loads(whole_text(self.folder / "sizes.json"))["pieces"]))

    def _write_places(self) -> None:
        if not (self.folder / "keys.npy").exists():
            with console.progress(len(self._numbers()), "joining word pairs", " pieces") as bar:
                keys = union(_shown(bar.update, (_keys(self._links_path(number)) for number in self._numbers())))
            with console.whole_file(self.folder / "keys.npy") as temporary, temporary.open("wb") as file:
                np.save(file, keys)
        missing = [number for number in self._numbers() if not self._places_path(number).exists()]
        with console.progress(len(missing), "numbering word pairs", " pieces") as bar:
            for _ in in_order(partial(_place_writer, self), missing, self.workers):
                bar.update()

    def _learn(self) -> None:
        """Do the rounds that are missing."""
        kinds = [MODEL_1] * self.rounds + [DIAGONAL] * self.rounds
        done = max((int(path.name[6:]) for path in self.folder.glob("round-??")), default=-1)
        word_pairs = self.word_pairs()
        if done < 0:
            self._write_round(0, word_pairs.uniform(), [])
            done = 0
        pieces_ = self._numbers()
        with console.progress(len(kinds) * len(pieces_), "learning", " pieces", done * len(pieces_)) as bar:
            for number in range(done, len(kinds)):
                history = self._read_history(number)
                last = number == len(kinds) - 1
                rule = MEAN if last else (LIKELIHOOD if kinds[number] == MODEL_1 else BAYES)
                counts, likelihoods = self._count(number, kinds[number], word_pairs, bar.update)
                before = history[-1] if history and kinds[number] == kinds[number - 1] else {}
                entry: dict[str, float | str] = {"model": kinds[number]}
                for side, value in zip(("forward", "reverse"), likelihoods):
                    # Of the tables that this round began with.
                    entry[side] = value - float(before.get(f"{side}_divergence", 0.0))
                tables, *divergences = word_pairs.estimate(counts, rule, self.workers)
                entry["forward_divergence"], entry["reverse_divergence"] = divergences
                self._write_round(number + 1, tables, [*history, entry])

    def _count(
        self, number: int, kind: str, word_pairs: WordPairs, show: Callable[[], object]
    ) -> tuple[list[npt.NDArray[np.float64]], npt.NDArray[np.float64]]:
        """Return the expected numbers of links under the tables of a round, and log P of both sides' words."""
        size = len(word_pairs.keys)
        counts = [np.zeros(length) for length in (size, size, word_pairs.targets, word_pairs.sources)]
        likelihoods = np.zeros(2)
        make = partial(_expecter, self, self.folder / f"round-{number:02d}", kind)
        for piece, found in zip(self._numbers(), in_order(make, self._numbers(), self.workers)):
            places = np.load(self._places_path(piece))
            for count, more in zip(counts[:2], (found.forward, found.reverse)):
                count[places] += more
            counts[2] += found.forward_null
            counts[3] += found.reverse_null
            likelihoods += found.likelihoods
            show()
        return counts, likelihoods

    def _read_history(self, number: int) -> list[dict[str, float | str]]:
        path = self.folder / f"round-{number:02d}" / "history.json"
        history: list[dict[str, float | str]] = json.loads(whole_text(path))
        return history

    def _write_round(self, number: int, tables: Tables, history: list[dict[str, float | str]]) -> None:
        _write_folder(self.folder / f"round-{number:02d}", tables, history)
        if number:
            shutil.rmtree(self.folder / f"round-{number - 1:02d}")


def _write_folder(folder: Path, tables: Tables, history: list[dict[str, float | str]]) -> None:
    temporary = folder.with_name(folder.name + ".tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    tables.write(temporary)
    (temporary / "history.json").write_text(json.dumps(history, indent=1), encoding="utf-8")
    temporary.rename(folder)


def _shown(show: Callable[[], object], items: Iterator[Keys]) -> Iterator[Keys]:
    for item in items:
        yield item
        show()


def _keys(path: Path) -> Keys:
    with np.load(path) as file:
        keys: Keys = file["keys"]
    return keys


def _read_links(path: Path) -> Links:
    with np.load(path) as file:
        return Links(*(file[name] for name in Links.__dataclass_fields__))


def _link_writer(folder: Path, stride: int) -> Callable[[tuple[int, list[Pair]]], int]:
    def write(item: tuple[int, list[Pair]]) -> int:
        number, pairs = item
        links = Links.of(pairs, stride)
        path = folder / f"links-{number:05d}.npz"
        with console.whole_file(path) as temporary, temporary.open("wb") as file:
            np.savez(file, **{name: getattr(links, name) for name in Links.__dataclass_fields__})
        return len(pairs)

    return write


def _place_writer(learning: Learning) -> Callable[[int], None]:
    word_pairs = learning.word_pairs()

    def write(number: int) -> None:
        places = word_pairs.places(_keys(learning._links_path(number)))
        with console.whole_file(learning._places_path(number)) as temporary, temporary.open("wb") as file:
            np.save(file, places)

    return write


def _expecter(learning: Learning, folder: Path, kind: str) -> Callable[[int], Expected]:
    tables = Tables.read(folder)

    def expect(number: int) -> Expected:
        links = _read_links(learning._links_path(number))
        forward, reverse = tables.at(np.load(learning._places_path(number)))
        return expected(links, forward, reverse, tables, kind)

    return expect
