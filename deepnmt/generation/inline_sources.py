"""A subset's second pass with a glossary, by a data folder of the sentences that are translated again."""

import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from deepnmt.text.data_folder import subset_prefix
from deepnmt.text.dictionary import read_types
from deepnmt.text.found_terms import note_terms
from deepnmt.text.index_file import binarise
from deepnmt.text.nbest import FILE as NBEST
from deepnmt.text.nbest import read_nbest, write_nbest
from deepnmt.text.pipeline import TextPipeline
from deepnmt.text.second_pass import SecondPass
from deepnmt.text.subwords import CODES
from deepnmt.text.translated_folder import INLINE, data_settings, lines_of, write_text

READ = "read"


class InlineSources:
    """The sentences of a subset with the translations of their terms; warns of terms that no sentence has.

    Args:
        terms: the glossary
        data: the data folder
        subset: subset of it
        reverse: the sources are the texts of DATA's target

    Raises:
        UserError: the data have no inline targets, or a line of the glossary is faulty
    """

    def __init__(self, terms: Path, data: Path, subset: str, reverse: bool) -> None:
        self._data, self._subset, self._settings = data, subset, data_settings(data, reverse)
        pipeline = TextPipeline.of(self._settings, data / CODES)
        types = frozenset(read_types(data / f"dict.{self._settings.source_lang}.txt"))
        glossary = pipeline.glossary(terms, types)
        sources = lines_of(data / "text" / f"{subset}.tok.{self._settings.source_lang}")
        self.second = SecondPass(glossary, pipeline, types, dict(enumerate(sources)))
        wanted = self.second.terms.values()
        print(f"{sum(map(len, wanted))} terms in {sum(map(bool, wanted))} of {len(sources)} sentences", file=sys.stderr)
        seen = {term.text for each in wanted for term in each}
        if absent := [
            text for text in dict.fromkeys(term.text for term in glossary.terms.values()) if text not in seen
        ]:
            named = ", ".join(f"'{text}'" for text in absent[:3]) + (", ..." if len(absent) > 3 else "")
            print(
                f"warning: {terms}: {len(absent)} terms are in no source, or in longer ones alone: {named}",
                file=sys.stderr,
            )

    def followed(
        self, found: Mapping[int, str], folder: Path, search: Callable[[Path, Path, int], Mapping[int, str]]
    ) -> dict[int, str]:
        """Return the translations of a subset after the second pass; the folder may have their n-best list.

        `found` are those without inline targets, by number. The search translates all sentences of a data folder,
        with a folder for the n-best list, and their number.
        """
        read = folder / READ

        def again(numbers: Sequence[int]) -> dict[int, str]:
            self._write(read, numbers)
            return {numbers[place]: text for place, text in search(read, read, len(numbers)).items()}

        better = self.second.better(found, str, again)
        if (read / NBEST).exists():
            kept = (each for each in read_nbest(folder / NBEST, in_order=False) if each.sentence not in better)
            more = (
                replace(each, sentence=self.second.twice[each.sentence]) for each in read_nbest(read / NBEST, False)
            )
            write_nbest(folder / NBEST, [*kept, *(each for each in more if each.sentence in better)])
        if read.exists():
            shutil.rmtree(read)
        return {**found, **better}

    def _write(self, folder: Path, numbers: Sequence[int]) -> None:
        """Make a data folder whose subset has these sentences, with inline targets."""
        folder.mkdir()
        for path in self._data.iterdir():
            (folder / path.name).symlink_to(path.resolve())
        prefix = folder / Path(f"{subset_prefix(self._data, self._subset, self._settings.languages)}").name
        source, target = self._settings.languages
        # Options that follow a target, such as --prefix-size, get the targets of the same sentences.
        targets = lines_of(self._data / "text" / f"{self._subset}.bpe.{target}")
        lines = {source: map(self.second.read, numbers), target: (targets[number] for number in numbers)}
        for language, side in lines.items():
            for ending in ("bin", "idx"):
                Path(f"{prefix}.{language}.{ending}").unlink()
            text = folder / f"{INLINE}.{language}"
            write_text(text, list(side))
            binarise(text, f"{prefix}.{language}", read_types(self._data / f"dict.{language}.txt"))

    def note(self, output: Path) -> None:
        """Add to the record of translations how many terms they have, and keep the sources with inline targets."""
        terms = self.second.terms
        note_terms(output, list(terms.values()), self._settings, "glossary", twice=len(self.second.twice))
        write_text(output / f"{INLINE}.{self._settings.source_lang}", list(map(self.second.read, terms)))
