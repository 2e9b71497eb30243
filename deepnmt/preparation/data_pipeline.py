"""From raw text to a data folder, step by step: the work of `deepnmt preprocess`."""

import shutil
import sys
from collections.abc import Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from deepnmt.preparation.inline_pairs import make_inline, part_name
from deepnmt.preparation.preprocessing import TRAIN, VALID, Preprocessing
from deepnmt.preparation.rewriting import Segmentation, case_like, learn_case, tag
from deepnmt.preparation.splits import Rules, hold_out, prepare_split
from deepnmt.preparation.subword_learning import dropout_types, learn, learn_merges, types_of, write_dictionary
from deepnmt.text.dictionary import read_types
from deepnmt.text.index_file import binarise
from deepnmt.text.inline_targets import MARKS
from deepnmt.text.like_folder import side_name
from deepnmt.text.settings import TextSettings
from deepnmt.text.subwords import CODES, VOCABULARY, byte_symbols, codes_name, read_vocabulary, write_vocabulary
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
        self.pieces = partial(self._sides, self.text, ".bpe")
        self.splits: list[str] = []
        self.counts: dict[str, dict[str, Any]] = {}

    def run(self) -> dict[str, Any]:
        """Do all steps, and return the counts of each subset.

        Raises:
            UserError: a text is faulty, or has too little to learn from, or the disk is full
        """
        self.text.mkdir()
        self.work.mkdir()
        self._prepare()
        if self.options.truecase:
            self._true_case()
        if self.options.placeholders:
            self._tag()
        self._learn()
        if self.options.limited:
            self._limit()
        for split in self.splits:
            self._segmentation().write(self.tokens(split), self.pieces(split), self.workers)
        if self.options.glossary_training is not None:
            self._make_inline(self.options.glossary_training)
        self._write_dictionaries()
        self._binarise()
        shutil.rmtree(self.work)
        return self.counts

    def _sides(self, folder: Path, kind: str, split: str) -> list[Path]:
        """Return the files of a split's texts."""
        return [folder / f"{split}{kind}.{language}" for language in self.languages]

    def _prepare(self) -> None:
        options = self.options
        for name, *prefixes in options.splits():
            limits = (options.max_len, options.max_ratio) if name == TRAIN else (0, 0)
            given = [prefix for prefix in prefixes if prefix]
            output = str(self.text / name)
            counts = prepare_split(given, output, Rules(self.settings, *limits), self.workers)
            self.counts[name] = counts
            if name == TRAIN and options.valid_every:
                moved = hold_out(self.text / TRAIN, self.text / VALID, options.valid_every)
                self.counts[name] = {**counts, "kept": counts["kept"] - moved, "held_out": moved}
                self.counts[VALID] = {"read": moved, "kept": moved}
                print(f"{moved} pairs held out for validation")
        self.splits = list(self.counts)

    def _true_case(self) -> None:
        for language, text in zip(self.languages, self.tokens(TRAIN)):
            learn_case(text, self.folder / model_name(language), language)
        for split in self.splits:
            case_like(self.folder, self.settings, self.languages, self.tokens(split), self.workers)

    def _tag(self) -> None:
        untagged = self.tokens
        self.tokens = partial(self._sides, self.work, ".tagged")
        for split in self.splits:
            tag(self.settings, untagged(split), self.tokens(split), split == TRAIN, self.workers)

    def _learn(self) -> None:
        texts = dict(zip(self.languages, self.tokens(TRAIN)))
        names = {codes_name(self.settings, language): language for language in self.languages}
        for name, language in names.items():
            learnt_from = [texts[language]] if self.options.separate else list(texts.values())
            print(f"learning subwords: {name}", file=sys.stderr)
            if self.options.merges:
                learn_merges(self.folder / name, self.options.merges, learnt_from)
            else:
                kind, least = self.options.subwords, self.options.least_pairs
                learn(kind, self.folder / name, self.options.types, learnt_from, least)

    def _segmentation(self, **how: Any) -> Segmentation:
        return Segmentation(self.folder, self.settings, self.languages, **how)

    def _limit(self) -> None:
        """Write the types of the training text, which are cut by no others."""
        self._segmentation(limited=False).write(self.tokens(TRAIN), self.pieces(TRAIN), self.workers)
        least = max(self.options.vocabulary_threshold, 1)
        for language, text in zip(self.languages, self.pieces(TRAIN)):
            write_vocabulary(self.folder / f"{VOCABULARY}.{language}", text, least, self.options.spell_unknown)

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
        texts = dict(zip(self.languages, self.pieces(TRAIN)))
        if self.options.separate_dictionaries:
            for language, text in texts.items():
                write_dictionary(self._dictionary(language), [text], self._more_types([language]))
        else:
            source, target = map(self._dictionary, self.languages)
            write_dictionary(source, [*texts.values()], self._more_types(self.languages))
            shutil.copyfile(source, target)

    def _more_types(self, languages: Sequence[str]) -> set[str]:
        """Return the entries of a dictionary of some languages beside the types of their training text."""
        options, texts = self.options, dict(zip(self.languages, self.pieces(TRAIN)))
        types: set[str] = set()
        if options.copies:
            types |= dropout_types(self.folder / CODES, [texts[language] for language in languages])
        if options.limited:
            types |= set(chain.from_iterable(read_vocabulary(self.folder / f"{VOCABULARY}.{n}") for n in languages))
        if options.byte_fallback:
            types |= set(byte_symbols())
        if options.glossary_training is not None:
            # Inline targets are words of the other language.
            types |= types_of([*texts.values()]) | set(MARKS)
        return types

    def _binarise(self) -> None:
        for split in self.splits:
            if split != TRAIN or not self.options.copies:
                self._binarise_split(self.folder, split, self.pieces(split))
        for number in range(self.options.copies or 0):
            texts = self._sides(self.work, f".{number}", TRAIN)
            dropout = self.options.bpe_dropout or 0
            self._segmentation(dropout=dropout, seed=number + 1).write(self.tokens(TRAIN), texts, self.workers)
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
        side = binarise(text, str(prefix), types)
        share = f"{100 * side.unknown / side.tokens:.3}% replaced (by <unk>)"
        said = f"{side.sentences} sents, {side.tokens} tokens, {share}"
        # As fairseq-preprocess writes it.
        lines = f"[{language}] Dictionary: {len(types)} types\n[{language}] {text.relative_to(self.folder)}: {said}\n"
        print(lines, end="", file=sys.stderr)
        with (self.folder / LOG).open("a", encoding="utf-8", newline="\n") as log:
            log.write(lines)
