"""Sources with the translations of terms beside them, for models with inline targets, and what became of the terms."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from deepnmt.text.data_folder import subset_prefix
from deepnmt.text.dictionary import read_types
from deepnmt.text.found_terms import note_terms
from deepnmt.text.index_file import binarise
from deepnmt.text.pipeline import TextPipeline
from deepnmt.text.subwords import CODES, Subwords
from deepnmt.text.translated_folder import INLINE, data_settings, lines_of, write_text

WANTED = "wanted"


def inline(terms: Path, data: Path, subset: str, folder: Path, reverse: bool) -> None:
    """Make a data folder whose sources have translations beside their terms; warn of terms that no source has.

    Args:
        terms: the glossary
        data: the data folder
        subset: of it
        folder: to make
        reverse: the sources are the texts of DATA's target

    Raises:
        UserError: the data have no inline targets, or a line of the glossary is faulty
    """
    settings = data_settings(data, reverse)
    source, target = settings.languages
    pipeline = TextPipeline.of(settings, data / CODES)
    types = read_types(data / f"dict.{source}.txt")
    known = frozenset(types)
    glossary = pipeline.glossary(terms, known)
    found = [glossary.inline(line) for line in lines_of(data / "text" / f"{subset}.tok.{source}")]
    folder.mkdir()
    for path in data.iterdir():
        (folder / path.name).symlink_to(path.resolve())
    side = f"{subset_prefix(data, subset, settings.languages)}.{source}"
    for ending in ("bin", "idx"):
        (folder / f"{Path(side).name}.{ending}").unlink(missing_ok=True)
    text = folder / f"{INLINE}.{source}"
    write_text(text, [pipeline.segment(line, known) for line, _ in found])
    binarise(text, str(folder / Path(side).name), types)
    # Two terms may have one translation.
    wanted = [list(dict.fromkeys(term.translation for term in each)) for _, each in found]
    cut = Subwords(data, settings, target)
    write_text(folder / WANTED, ["\t".join(map(cut, each)) for each in wanted])
    print(f"{sum(map(len, wanted))} terms in {sum(map(bool, wanted))} of {len(wanted)} sentences", file=sys.stderr)
    seen = {term.text for _, each in found for term in each}
    if absent := [text for text in dict.fromkeys(term.text for term in glossary.terms.values()) if text not in seen]:
        named = ", ".join(f"'{text}'" for text in absent[:3]) + (", ..." if len(absent) > 3 else "")
        print(
            f"warning: {terms}: {len(absent)} terms are in no source, or in longer ones alone: {named}", file=sys.stderr
        )


def note(folder: Path, data: Path, output: Path, reverse: bool) -> None:
    """Add to the record of translations how many terms they have, and keep what the model read."""
    settings = data_settings(data, reverse)
    note_terms(folder / WANTED, output, settings, "glossary")
    name = f"{INLINE}.{settings.source_lang}"
    shutil.copyfile(folder / name, output / name)
