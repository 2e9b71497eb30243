"""From raw text to a data folder, step by step: the work of `deepnmt preprocess`."""

import shutil
import sys
from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from tqdm import tqdm

from deepnmt.preparation.cut_text import Numbers, Output, Pieces, cut_words, learnt_pieces, write_texts
from deepnmt.preparation.inline_pairs import make_inline, part_name
from deepnmt.preparation.numbered_text import number_texts
from deepnmt.preparation.preprocessing import TRAIN, VALID, Preprocessing
from deepnmt.preparation.rewriting import Dropout, case_like, learn_case, tag
from deepnmt.preparation.splits import Rules, hold_out, prepare_split
from deepnmt.preparation.stage_bar import Stages, unseen
from deepnmt.preparation.subword_learning import learn, learn_merges, sampled_types, write_dictionary
from deepnmt.text.dictionary import read_types
from deepnmt.text.index_file import Binarised, binarise
from deepnmt.text.inline_targets import MARKS
from deepnmt.text.like_folder import side_name
from deepnmt.text.settings import TextSettings
from deepnmt.text.subwords import (
    CODES,
    VOCABULARY,
    Subwords,
    byte_symbols,
    codes_name,
    read_vocabulary,
    write_vocabulary,
)
from deepnmt.text.truecase import model_name

LOG = "preprocess.log"


class Pipeline:
    """Makes the data in a folder, which has the record of their inputs and settings.

    Args:
        folder: folder to write to; texts of intermediate steps have folders of their own there, removed at the end
        options: options of the data
        workers: maximum number of processes

    Attributes:
        counts: counts of pairs, by split
    """

    def __init__(self, folder: Path, options: Preprocessing, workers: int) -> None:
        self.folder, self.options, self.workers = folder, options, workers
        self.settings = TextSettings.read(folder)
        self.languages = self.settings.languages
        self.text, self.work = folder / "text", folder / "work"
        self.tokens = partial(self._sides, self.text, ".tok")
        self.splits: list[str] = []
        self.counts: dict[str, dict[str, Any]] = {}
        self.cut: dict[tuple[str, str], Pieces] = {}

    def run(self) -> dict[str, Any]:
        """Do all steps, and return the counts of each subset.

        Raises:
            UserError: a text is faulty, or has too little to learn from, or the disk is full
        """
        self.text.mkdir()
        self.work.mkdir()
        with Stages(self._times()) as self.stages:
            self._prepare()
            if self.options.truecase:
                self._true_case()
            if self.options.placeholders:
                self._tag()
            self._number()
            self._learn()
            if self.options.limited:
                self._limit()
            self._cut()
            if self.options.glossary_training is not None:
                self._make_inline(self.options.glossary_training)
            self._write_dictionaries()
            self._binarise()
        shutil.rmtree(self.work)
        return self.counts

    def _times(self) -> dict[str, float]:
        """Return the stages, with their expected times: microseconds on an Intel Xeon, for German and English text."""
        options, each = self.options, 1 / self.workers
        sizes = {
            split.name: sum(Path(f"{split.prefix}.{language}").stat().st_size for language in self.languages)
            for split in options.splits()
        }
        total = sum(sizes.values())
        # Of text that grows, distinct words become fewer and fewer.
        words = 0.75 * sizes[TRAIN] ** 0.7
        times = {f"preparing {name}": 0.15 * size * each for name, size in sizes.items()}
        if options.truecase:
            times["casing"] = (0.15 + 0.1 * each) * total
        if options.placeholders:
            times["tagging"] = 0.6 * total * each
        times["numbering words"] = 0.06 * total * each
        times["learning subwords"] = 70.0 * (options.merges or options.types) + 10 * words
        learnt = options.merges and not (options.limited or options.placeholders or self.settings.protect)
        times["cutting words"] = (0.1 if learnt else 14) * words * each
        for number in range(options.copies or 0):
            times[f"copy {number}"] = 3 * sizes[TRAIN] * each
        times["writing"] = 0.02 * total * each
        return times

    def _sides(self, folder: Path, kind: str, split: str) -> list[Path]:
        """Return the files of a split's texts."""
        return [folder / f"{split}{kind}.{language}" for language in self.languages]

    def _prepare(self) -> None:
        options = self.options
        for name, *prefixes in options.splits():
            limits = (options.max_len, options.max_ratio) if name == TRAIN else (0, 0)
            given = [prefix for prefix in prefixes if prefix]
            output = str(self.text / name)
            with self.stages.stage(f"preparing {name}") as done:
                counts = prepare_split(given, output, Rules(self.settings, *limits), self.workers, done)
            self.counts[name] = counts
            if name == TRAIN and options.valid_every:
                moved = hold_out(self.text / TRAIN, self.text / VALID, options.valid_every, self.workers)
                self.counts[name] = {**counts, "kept": counts["kept"] - moved, "held_out": moved}
                self.counts[VALID] = {"read": moved, "kept": moved}
                tqdm.write(f"{moved} pairs held out for validation")
        self.splits = list(self.counts)

    def _true_case(self) -> None:
        with self.stages.stage("casing") as done:
            for language, text in zip(self.languages, self.tokens(TRAIN)):
                learn_case(text, self.folder / model_name(language), language)
            for split in self.splits:
                told = done if split == TRAIN else unseen
                case_like(self.folder, self.settings, self.languages, self.tokens(split), self.workers, told)

    def _tag(self) -> None:
        untagged = self.tokens
        self.tokens = partial(self._sides, self.work, ".tagged")
        with self.stages.stage("tagging") as done:
            for split in self.splits:
                told = done if split == TRAIN else unseen
                tag(self.settings, untagged(split), self.tokens(split), split == TRAIN, self.workers, told)

    def _number(self) -> None:
        """Number the words of all texts; work goes on with the distinct words."""
        sides = [(split, language) for split in self.splits for language in self.languages]
        texts = [text for split in self.splits for text in self.tokens(split)]
        with self.stages.stage("numbering words") as done:
            numbered = number_texts(texts, self.work, self.workers, done)
        self.numbered = dict(zip(sides, numbered))
        self.words = {language: self.numbered[TRAIN, language].words for language in self.languages}

    def _learn(self) -> None:
        names = {codes_name(self.settings, language): language for language in self.languages}
        with self.stages.stage("learning subwords") as done:
            for name, language in names.items():
                learnt_from = [self.words[language]] if self.options.separate else list(self.words.values())
                if self.options.merges:
                    sides = [language] if self.options.separate else self.languages
                    learn_merges(
                        self.folder / name, self.options.merges, learnt_from, done, partial(self._keep_cut, sides)
                    )
                else:
                    kind, least = self.options.subwords, self.options.least_pairs
                    learn(kind, self.folder / name, self.options.types, learnt_from, least, done)

    def _keep_cut(self, languages: Sequence[str], symbols: Numbers, names: list[str]) -> None:
        """Keep the cut of the training text's words that learning has left."""
        numbers = [len(self.words[language].counts) for language in languages]
        for language, pieces in zip(languages, learnt_pieces(numbers, symbols, names)):
            self.cut[TRAIN, language] = pieces

    def _cutters(self, limited: bool = True) -> dict[str, Subwords]:
        return {name: Subwords(self.folder, self.settings, name, limited) for name in self.languages}

    def _limit(self) -> None:
        """Write the types of the training text, which are cut by no others."""
        cutters = self._cutters(limited=False)
        texts = [(self.numbered[TRAIN, language], cutters[language]) for language in self.languages]
        least = max(self.options.vocabulary_threshold, 1)
        for language, pieces in zip(self.languages, cut_words(texts, self.workers)):
            counts = pieces.counts(self.words[language].counts)
            write_vocabulary(self.folder / f"{VOCABULARY}.{language}", counts, least, self.options.spell_unknown)

    def _cut(self) -> None:
        cutters = self._cutters()
        self.cut = {side: pieces for side, pieces in self.cut.items() if cutters[side[1]].by_merges}
        left = [side for side in self.numbered if side not in self.cut]
        with self.stages.stage("cutting words") as done:
            texts = [(self.numbered[side], cutters[side[1]]) for side in left]
            self.cut.update(zip(left, cut_words(texts, self.workers, done)))
        self.types = {
            language: self.cut[TRAIN, language].counts(words.counts) for language, words in self.words.items()
        }

    def _make_inline(self, share: float) -> None:
        from deepnmt.corpus.alignment.align_job import ALIGNMENTS, AlignJob

        source, target = texts = self.tokens(TRAIN)
        job, parts, aligned = AlignJob(source, target), self.work / "parts", self.work / "aligned"
        parts.mkdir()
        aligned.mkdir()
        pairs = self.counts[TRAIN]["kept"]
        # A few pairs are not worth several processes.
        job.align(parts, min(self.workers, 1 + pairs // 1_000))
        job.finish(parts, aligned)
        for each in (self.settings, self.settings.reversed()):
            by_language = dict(zip(self.languages, texts))
            joined = aligned / ALIGNMENTS[2]
            self.counts[part_name(each)] = make_inline(self.folder, each, by_language, joined, share, self.workers)

    def _dictionary(self, language: str) -> Path:
        return self.folder / f"dict.{language}.txt"

    def _write_dictionaries(self) -> None:
        if self.options.separate_dictionaries:
            for language, types in self.types.items():
                write_dictionary(self._dictionary(language), types, self._more_types([language]))
        else:
            source, target = map(self._dictionary, self.languages)
            both: Counter[str] = Counter()
            for types in self.types.values():
                both.update(types)
            write_dictionary(source, both, self._more_types(self.languages))
            shutil.copyfile(source, target)

    def _more_types(self, languages: Sequence[str]) -> set[str]:
        """Return the entries of a dictionary of some languages beside the types of their training text."""
        options = self.options
        types: set[str] = set()
        if options.copies:
            words = chain.from_iterable(self.words[language].distinct() for language in languages)
            types |= sampled_types(self.folder / CODES, words)
        if options.limited:
            types |= set(chain.from_iterable(read_vocabulary(self.folder / f"{VOCABULARY}.{n}") for n in languages))
        if options.byte_fallback:
            types |= set(byte_symbols())
        if options.glossary_training is not None:
            # Inline targets are words of the other language.
            types |= set(chain(*self.types.values(), MARKS))
        return types

    def _binarise(self) -> None:
        outputs, types = [], {name: read_types(self._dictionary(name)) for name in self.languages}
        for split, language in self.numbered:
            name = side_name(split, self.languages, language)
            # Otherwise the numbers are those of the copies.
            prefix = self.folder / name if split != TRAIN or not self.options.copies else None
            text = self.text / f"{split}.bpe.{language}"
            sources = self.numbered[split, language], self.cut[split, language]
            outputs.append(Output(*sources, text, prefix, types[language]))
        with self.stages.stage("writing") as done:
            sides = write_texts(outputs, self.workers, done)
        for output, (_, language), side in zip(outputs, self.numbered, sides):
            if output.prefix:
                self._log(output.text, language, len(output.types), side)
        for number in range(self.options.copies or 0):
            texts = self._sides(self.work, f".{number}", TRAIN)
            rate = self.options.bpe_dropout or self.options.unigram_sampling or 0
            dropout = Dropout(self.folder, self.settings, self.languages, rate, number + 1)
            with self.stages.stage(f"copy {number}") as done:
                dropout.write(self.tokens(TRAIN), texts, self.workers, done)
            folder = self.folder / f"copy{number}" if number else self.folder
            folder.mkdir(exist_ok=True)
            self._binarise_split(folder, TRAIN, texts)
            for language in self.languages if number else ():
                shutil.copyfile(self._dictionary(language), folder / self._dictionary(language).name)
        if self.options.glossary_training is not None:
            for each in (self.settings, self.settings.reversed()):
                for language in each.languages:
                    text = self.text / f"{part_name(each)}.bpe.{language}"
                    self._binarise_text(text, self.folder / f"{part_name(each)}.{language}", language)

    def _binarise_split(self, folder: Path, split: str, texts: Sequence[Path]) -> None:
        for language, text in zip(self.languages, texts):
            self._binarise_text(text, folder / side_name(split, self.languages, language), language)

    def _binarise_text(self, text: Path, prefix: Path, language: str) -> None:
        types = read_types(self._dictionary(language))
        self._log(text, language, len(types), binarise(text, str(prefix), types))

    def _log(self, text: Path, language: str, types: int, side: Binarised) -> None:
        """Write the counts of a text, as fairseq-preprocess does."""
        share = f"{100 * side.unknown / side.tokens:.3}% replaced (by <unk>)"
        said = f"{side.sentences} sents, {side.tokens} tokens, {share}"
        lines = f"[{language}] Dictionary: {types} types\n[{language}] {text.relative_to(self.folder)}: {said}\n"
        tqdm.write(lines, end="", file=sys.stderr)
        with (self.folder / LOG).open("a", encoding="utf-8", newline="\n") as log:
            log.write(lines)
