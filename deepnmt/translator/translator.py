"""Raw text in, translated text out."""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from pathlib import Path
from typing import Union, overload

from deepnmt.engines.engine import Engine, Hypothesis, SearchSettings, Value
from deepnmt.engines.model_folder import RECORD, ModelFolder
from deepnmt.engines.registry import load_engine
from deepnmt.errors import UserError
from deepnmt.text.data_folder import check_dictionaries
from deepnmt.text.dictionary import SPECIAL_SYMBOLS, read_types
from deepnmt.text.glossary import Glossary
from deepnmt.text.lines import clean
from deepnmt.text.pipeline import LONGEST_WORD, TextPipeline, has_long_word
from deepnmt.text.second_pass import SecondPass
from deepnmt.text.subwords import CODES, join_bpe
from deepnmt.text.terms import Term
from deepnmt.translator.paragraphs import Paragraph

LOG = logging.getLogger(__name__)
BATCH = 128
UNKNOWN = "<unk>"
# A batch of this many subwords, padding included, fits into a few gigabytes with any model.
BATCH_SUBWORDS = 16_384
# Translations by their terms, or the file that contains them.
GlossaryLike = Union[Glossary, Mapping[str, str], str, Path]


@dataclass(frozen=True)
class Translation:
    """A translation.

    Attributes:
        text: as people write it
        score: log-probability, the end symbol counted, divided by the length's penalty
        tokens: its subwords
    """

    text: str
    score: float
    tokens: list[str]


@dataclass(frozen=True)
class Translated:
    """The result for one line.

    Attributes:
        translations: the best first; a single empty one where there was nothing to translate
        source: subwords
        unknown: source subwords that the model does not know
        fault: why the line was not translated; empty if it was
        tokens: of the source, before it was cut into subwords
        terms: of the glossary, in the order of the line
        missing: terms whose translations are absent from the best translation
    """

    translations: list[Translation]
    source: list[str]
    unknown: list[str]
    fault: str = ""
    tokens: str = ""
    terms: Sequence[Term] = ()
    missing: Sequence[Term] = ()


class Translator:
    """Translates raw text. Loading takes seconds, so one object should translate everything; threads may share it.

    Args:
        folder: made by deepnmt export
        threads: of the engine; None: no limit

    Raises:
        UserError: the folder is not a model folder, one of its files is missing or altered, or a library is missing
    """

    def __init__(self, folder: str | Path, threads: int | None = None) -> None:
        model = ModelFolder.open(folder)
        engine = load_engine(model, threads)
        try:
            engine.check(model.search)
        except UserError as error:
            lines = str(error).splitlines()
            raise UserError(*(f"{model.path / RECORD}: 'search': {line}" for line in lines)) from None
        self._set(model.pipeline(), engine, model.search, model.dictionary(model.source_lang))

    @classmethod
    def from_checkpoint(cls, checkpoint: str | Path, data: str | Path, threads: int | None = None) -> Translator:
        """Return a translator without a model folder, right after training, with the torch engine.

        Args:
            checkpoint: fairseq's; several, colon-separated, form an ensemble
            data: the folder of their training, made by deepnmt preprocess
            threads: as above

        Raises:
            UserError: a file is missing or faulty, or the checkpoints were trained on other data
        """
        from deepnmt.checkpoints.data_fit import trained_settings
        from deepnmt.engines.torch.fairseq_engine import load_checkpoints

        folder = Path(data)
        paths = [Path(path) for path in str(checkpoint).split(os.pathsep)]
        check_dictionaries(folder, TextPipeline.read(folder).settings.languages)
        pipeline = TextPipeline.of(trained_settings(paths, folder), folder / CODES)
        languages = pipeline.settings.languages
        engine = load_checkpoints(paths, folder, languages, threads)
        return cls.of_parts(pipeline, engine, SearchSettings(), folder / f"dict.{languages[0]}.txt")

    @classmethod
    def of_parts(cls, pipeline: TextPipeline, engine: Engine, search: SearchSettings, dictionary: Path) -> Translator:
        """Return a translator made from its parts; the dictionary is the source's."""
        self = cls.__new__(cls)
        self._set(pipeline, engine, search, dictionary)
        return self

    def _set(self, pipeline: TextPipeline, engine: Engine, search: SearchSettings, dictionary: Path) -> None:
        self.pipeline, self.engine, self.search = pipeline, engine, search
        self._known = frozenset(read_types(dictionary))

    # A str is a sequence of str, too.
    @overload
    def translate(  # type: ignore[overload-overlap]
        self,
        text: str,
        *,
        batch_size: int = BATCH,
        glossary: GlossaryLike | None = None,
        split: bool = True,
        **search: Value,
    ) -> str: ...

    @overload
    def translate(
        self,
        text: Sequence[str],
        *,
        batch_size: int = BATCH,
        glossary: GlossaryLike | None = None,
        split: bool = True,
        **search: Value,
    ) -> list[str]: ...

    def translate(
        self,
        text: str | Sequence[str],
        *,
        batch_size: int = BATCH,
        glossary: GlossaryLike | None = None,
        split: bool = True,
        **search: Value,
    ) -> str | list[str]:
        """Return the translation of a line, or the translations of a list of lines.

        A line of white space alone has an empty translation; so has one that is too long, with a warning.

        Args:
            text: a line, or several
            batch_size: most sentences to translate at a time
            glossary: terms and their required translations: a mapping, a file, or the result of `glossary`
            split: translate each sentence of a line by itself
            search: `beam`, `lenpen`, ... in place of the model's defaults, see `SearchSettings`

        Raises:
            UserError: an option is out of range, or the engine lacks it. Or the glossary is faulty, or the model was
                trained without inline targets
        """
        single = isinstance(text, str)
        lines = [text] if isinstance(text, str) else text
        found = self.nbest(lines, 1, batch_size=batch_size, glossary=glossary, split=split, **search)
        best = [translations[0].text for translations in found]
        return best[0] if single else best

    def nbest(
        self,
        sentences: Sequence[str],
        number: int = 1,
        *,
        batch_size: int = BATCH,
        glossary: GlossaryLike | None = None,
        split: bool = True,
        **search: Value,
    ) -> list[list[Translation]]:
        """Return the `number` best translations of each line with their scores, the best first; see `translate`.

        The beam must be at least as large. Raises `UserError` as `translate`.
        """
        if "nbest" in search:
            raise UserError("nbest: must be given as the number of Translator.nbest alone")
        settings = self.settings(nbest=number, **search)
        found = self.run(sentences, settings, batch_size, glossary=self.glossary(glossary), split=split)
        for position, line in enumerate(found, start=1):
            if line.fault:
                LOG.warning("sentence %d is %s; its translation is left empty", position, line.fault)
        return [line.translations for line in found]

    def settings(self, **search: Value) -> SearchSettings:
        """Return the model's settings of the search with some replaced.

        Raises:
            UserError: a line for each setting that is out of range, or that the engine or its model lacks
        """
        own = {name: value for name, value in search.items() if name in SearchSettings.__dataclass_fields__}
        more = {name: value for name, value in search.items() if name not in own}
        settings, faults = dataclasses.replace(self.search, more={**self.search.more, **more}), []
        try:
            settings = dataclasses.replace(settings, **own)  # type: ignore[arg-type]
        except UserError as error:
            faults += str(error).splitlines()
        try:
            self.engine.check(settings)
        except UserError as error:
            faults += str(error).splitlines()
        if faults:
            raise UserError(*faults)
        return settings

    def glossary(self, terms: GlossaryLike | None) -> Glossary | None:
        """Return a glossary for any number of calls of `translate`; None for none.

        Args:
            terms: a mapping, or a file with a term, a tab and its translation on each line

        Raises:
            UserError: an entry is faulty, or the model was trained without inline targets
        """
        if terms is None or isinstance(terms, Glossary):
            return terms
        return self.pipeline.glossary(terms if isinstance(terms, Mapping) else Path(terms), self._known)

    def run(
        self,
        text: Iterable[str],
        settings: SearchSettings,
        batch_size: int = BATCH,
        done: Callable[[int], object] = lambda lines: None,
        glossary: Glossary | None = None,
        split: bool = False,
    ) -> list[Translated]:
        """Return the results of raw lines; sentences of similar length are translated together.

        Args:
            text: raw lines
            settings: of the search
            batch_size: most sentences of a batch
            done: receives the number of further finished lines
            glossary: terms and their required translations; sentences that lack one are translated twice
            split: translate each sentence of a line by itself; lines of tokenised text remain whole
        """
        if batch_size < 1:
            raise UserError(f"--batch-size must be at least 1, but is {batch_size}")
        if not split or self.pipeline.settings.pretokenized:
            return self._run(text, settings, batch_size, lambda numbers: done(len(numbers)), glossary)
        paragraphs = [Paragraph.of(line, *self.pipeline.settings.languages) for line in text]
        sentences = [sentence for paragraph in paragraphs for sentence in paragraph.sentences]
        last = {end - 1 for end in accumulate(len(paragraph.sentences) for paragraph in paragraphs)}
        found = iter(
            self._run(sentences, settings, batch_size, lambda numbers: done(len(last.intersection(numbers))), glossary)
        )
        return [paragraph.joined(list(islice(found, len(paragraph.sentences)))) for paragraph in paragraphs]

    def _run(
        self,
        text: Iterable[str],
        settings: SearchSettings,
        batch_size: int,
        done: Callable[[Collection[int]], object],
        glossary: Glossary | None,
    ) -> list[Translated]:
        """Return the results of sentences; `done` receives the positions of further finished ones."""
        lines = list(map(self.encoded, text))
        to_do = {number: line.source for number, line in enumerate(lines) if not line.translations}
        done(set(range(len(lines))) - to_do.keys())
        found = self._searched(to_do, settings, batch_size, done)
        if glossary is not None:
            tokens = {number: lines[number].tokens for number in found}
            second = SecondPass(glossary, self.pipeline, self._known, tokens)

            def again(numbers: Iterable[int]) -> dict[int, list[Hypothesis]]:
                read = {number: second.read(number).split() for number in numbers}
                fits = {number: source for number, source in read.items() if len(source) <= self.engine.longest}
                return self._searched(fits, settings, batch_size)

            found |= second.better(found, _best_tokens, again)
            for number, terms in second.terms.items():
                missing = second.missing(number, _best_tokens(found[number]))
                lines[number] = dataclasses.replace(lines[number], terms=terms, missing=missing)
        for number, hypotheses in found.items():
            lines[number] = self.decoded(lines[number], hypotheses)
        return lines

    def _searched(
        self,
        sources: Mapping[int, Sequence[str]],
        settings: SearchSettings,
        batch_size: int,
        done: Callable[[Collection[int]], object] = lambda numbers: None,
    ) -> dict[int, list[Hypothesis]]:
        """Return the best hypotheses of each source."""
        found: dict[int, list[Hypothesis]] = {}
        numbers = sorted(sources, key=lambda number: len(sources[number]))
        for batch in _batches(numbers, sources, batch_size):
            found.update(zip(batch, rated_search(self.engine, [sources[number] for number in batch], settings)))
            done(batch)
        return found

    def encoded(self, line: str) -> Translated:
        """Return a sentence in subwords; it has a translation already if there is nothing to translate."""
        nothing = [Translation("", 0.0, [])]
        longest, text = self.engine.longest, clean(line)
        # Texts of this size take minutes to tokenise, and cannot fit.
        if text.count(" ") > 2 * longest or len(text) > LONGEST_WORD * longest:
            return Translated(nothing, [], [], f"too long: {len(text)} characters; the model has {longest} subwords")
        tokens = self.pipeline.tokenize(text)
        if has_long_word(tokens):
            return Translated(nothing, [], [], f"too long: a word has more than {LONGEST_WORD:,} characters")
        if self.pipeline.settings.pretokenized and (symbols := set(SPECIAL_SYMBOLS) & set(tokens.split())):
            return Translated(nothing, [], [], f"not text: it has fairseq's symbol {min(symbols)}")
        source = self.pipeline.segment(tokens).split()
        if len(source) > longest:
            return Translated(nothing, source, [], f"too long: {len(source)} subwords; the model has {longest}")
        if not source:
            return Translated(nothing, [], [])
        unknown = [token for token in source if token not in self._known]
        return Translated([], source, unknown, tokens=tokens)

    def decoded(self, line: Translated, hypotheses: Iterable[Hypothesis]) -> Translated:
        """Return the result of `encoded` with its translations, given in subwords."""
        texts = ((found, self.pipeline.decode(" ".join(found.tokens), line.tokens)) for found in hypotheses)
        translations = [Translation(text, found.score, found.tokens) for found, text in texts]
        return dataclasses.replace(line, translations=translations)


def rated_search(
    engine: Engine, sentences: Sequence[Sequence[str]], settings: SearchSettings
) -> list[list[Hypothesis]]:
    """Return the best hypotheses of each sentence, as `Engine.search`, by the weights of the settings, if any.

    All hypotheses of the beam are rated by the weighted sum of their features, tuned by deepnmt rerank:

        model    log P of the translation, the end symbol included, by the rule of its search
        length   its subwords and the end symbol
        unk      its unknown words
    """
    weights = settings.rerank_weights()
    if not weights:
        return engine.search(sentences, settings)
    found = engine.search(sentences, dataclasses.replace(settings, nbest=settings.beam))
    unknown = [
        (source, each.tokens)
        for source, hypotheses in zip(sentences, found)
        for each in hypotheses
        if each.log_prob is None
    ]
    scored = iter(engine.score(*zip(*unknown)) if unknown else [])
    result = []
    for each in found:
        rated = []
        for hypothesis in each:
            features = {
                "model": sum(next(scored)) if hypothesis.log_prob is None else hypothesis.log_prob,
                "length": len(hypothesis.tokens) + 1,
                "unk": hypothesis.tokens.count(UNKNOWN),
            }
            rated.append(Hypothesis(hypothesis.tokens, sum(weights[name] * features[name] for name in weights)))
        # Equal ones stay in the search's order.
        rated.sort(key=lambda hypothesis: -hypothesis.score)
        result.append(rated[: settings.nbest])
    return result


def _best_tokens(hypotheses: Sequence[Hypothesis]) -> str:
    return join_bpe(" ".join(hypotheses[0].tokens))


def _batches(numbers: Iterable[int], sources: Mapping[int, Sequence[str]], batch_size: int) -> Iterator[list[int]]:
    """Yield sentences, sorted by length, in batches."""
    batch: list[int] = []
    for number in numbers:
        if batch and (len(batch) == batch_size or (len(batch) + 1) * len(sources[number]) > BATCH_SUBWORDS):
            yield batch
            batch = []
        batch.append(number)
    if batch:
        yield batch
