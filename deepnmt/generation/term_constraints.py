"""Constraints of a search: the translations of terms that each sentence must have."""

import sys
from pathlib import Path

from deepnmt.errors import UserError
from deepnmt.text.dictionary import read_types
from deepnmt.text.pipeline import Tokenizer, placeholders_of, whole_units
from deepnmt.text.subwords import Subwords
from deepnmt.text.terms import Term, places_of, read_terms, terms_of, with_first_words
from deepnmt.text.translated_folder import data_settings, lines_of
from deepnmt.text.truecase import Truecaser, model_name


def write_constraints(terms: Path, data: Path, subset: str, output: Path, reverse: bool = False) -> list[list[Term]]:
    """Write the subwords that each translation must have, and return the terms of each sentence.

    Report their number, and warn of terms that no source has.

    Raises:
        UserError: a line of the file is faulty, or has text that the model does not write
    """
    settings = data_settings(data, reverse)
    source, target = settings.languages
    known = read_terms(terms, Tokenizer(settings, source), Tokenizer(settings, target))
    if settings.truecase:
        truecaser = Truecaser(data / model_name(source), whole_units(settings), settings.case_language(source))
        known = with_first_words(known, truecaser)
    if settings.placeholders:
        units = placeholders_of(settings)
        translations = (each.translation for each in known.values())
        if kept := next((each for each in translations if units.tagged(each) != each), None):
            raise UserError(
                f"{terms}: '{kept}' cannot be combined with --placeholders {settings.placeholders}: "
                "translations take these from the source"
            )
    cut, types = Subwords(data, settings, target), frozenset(read_types(data / f"dict.{target}.txt"))
    for translation in (each.translation for each in known.values()):
        if unknown := next((piece for piece in cut(translation).split() if piece not in types), None):
            raise UserError(f"{terms}: '{translation}' must be of types of the dictionary alone, but has '{unknown}'")
    lines = lines_of(data / "text" / f"{subset}.tok.{source}")
    found = [terms_of(line, known) for line in lines]
    # Two terms may have one translation.
    wanted = [list({term.translation: term for term in each}.values()) for each in found]
    with output.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines("\t".join(cut(term.translation) for term in each) + "\n" for each in wanted)
    number = sum(map(len, wanted))
    print(f"{number} terms in {sum(map(bool, wanted))} of {len(wanted)} sentences", file=sys.stderr)
    # Also those inside longer terms, whose translations the longer ones' take the place of.
    seen = {term.text for line in lines for _, _, term in places_of(line, known)}
    if absent := [text for text in dict.fromkeys(term.text for term in known.values()) if text not in seen]:
        named = ", ".join(f"'{text}'" for text in absent[:3]) + (", ..." if len(absent) > 3 else "")
        print(f"warning: {terms}: no source has {len(absent)} of the terms: {named}", file=sys.stderr)
    return wanted
