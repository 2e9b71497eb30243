"""How many of the translations that terms should have are in the translations of a folder."""

import sys
from pathlib import Path

from deepnmt.text.pipeline import Detokenizer, Tokenizer, tokens_of
from deepnmt.text.record import read_record, write_record
from deepnmt.text.settings import TextSettings
from deepnmt.text.terms import forms_of, has_term
from deepnmt.text.translated_folder import RECORD, lines_of


def note_terms(wanted: Path, folder: Path, settings: TextSettings, key: str = "terms") -> None:
    """Add to a folder's record how many terms its translations should have, and how many they have.

    Args:
        wanted: file with the subwords of each, with tabs between them, a line for each translation
        folder: of the translations
        settings: of the data
        key: of the record
    """
    target = settings.target_lang
    tokenize, detokenize = Tokenizer(settings, target), Detokenizer(target, segment=settings.segment)
    number = found = 0
    for line, tokens in zip(lines_of(wanted), lines_of(folder / f"hyp.tok.{target}")):
        for term in line.split("\t") if line else []:
            given = tokens_of(term, settings)
            number += 1
            found += has_term(tokens, given, *map(" ".join, forms_of(detokenize(given), tokenize)))
    record = read_record(folder / RECORD)
    write_record(folder / RECORD, {**record, key: {"wanted": number, "found": found}})
    print(f"{found} of {number} terms are in the translations", file=sys.stderr)
