"""A folder of translations, as `deepnmt generate` leaves it and `deepnmt score` reads it."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from deepnmt.errors import UserError
from deepnmt.text.data_folder import check_dictionaries, check_record, check_subset, check_texts
from deepnmt.text.lines import count_lines, read_lines
from deepnmt.text.pipeline import Detokenizer, restored
from deepnmt.text.record import SELECTED_ON, write_record
from deepnmt.text.settings import TextSettings

RECORD = "generate.json"
# With the source's language, the sources' subwords with inline targets, where there was a glossary.
INLINE = "inline"


def lines_of(path: Path) -> list[str]:
    """Return the lines of a text without their line feeds."""
    return [line.rstrip("\n") for line in read_lines(path)]


def write_text(path: Path, lines: Sequence[str]) -> None:
    """Write one line for each sentence."""
    path.write_bytes("".join(line + "\n" for line in lines).encode("utf-8"))


def data_settings(data: Path, reverse: bool) -> TextSettings:
    """Return the settings of a data folder; with `reverse`, for the other direction."""
    settings = TextSettings.read(data)
    return settings.reversed() if reverse else settings


def check_direction(data: Path, reverse: bool) -> None:
    """Raise `UserError` if a data folder cannot be translated in the other direction.

    A text that was prepared as a target has tags for those units alone that its source has too.
    """
    if reverse and (kinds := TextSettings.read(data).placeholders):
        raise UserError(
            f"{data}: --reverse cannot be combined with --placeholders {kinds}: the tags of the target depend on the "
            "source. Prepare data with the languages exchanged"
        )


def text_of(data: Path, subset: str, language: str) -> Path:
    """Return the text of a side of a subset, raw if the data folder has that."""
    raw = data / "text" / f"{subset}.raw.{language}"
    return raw if raw.exists() else data / "text" / f"{subset}.tok.{language}"


def write_translations(
    folder: Path,
    tokenised: Sequence[str],
    data: Path,
    subset: str,
    untranslated: int,
    reverse: bool = False,
    selected_on: Sequence[object] = (),
) -> None:
    """Write translations, tokenised and not, beside their references and sources, and the record of them.

    There is one for each sentence of the subset, without BPE; `untranslated` is the number of sentences left out.
    `selected_on` has the texts that training pairs were chosen to be like.
    """
    settings = data_settings(data, reverse)
    source, target = settings.languages
    detokenize = Detokenizer.of(settings)
    sources = lines_of(data / "text" / f"{subset}.tok.{source}")
    tokenised = [restored(text, settings, tokens) for text, tokens in zip(tokenised, sources)]
    write_text(folder / f"hyp.tok.{target}", tokenised)
    write_text(folder / f"hyp.{target}", [detokenize(text) for text in tokenised])
    write_text(folder / f"ref.tok.{target}", lines_of(data / "text" / f"{subset}.tok.{target}"))
    raw = data / "text" / f"{subset}.raw.{target}"
    if raw.exists():
        shutil.copyfile(raw, folder / f"ref.{target}")
    shutil.copyfile(text_of(data, subset, source), folder / f"src.{source}")
    record: dict[str, Any] = {
        "target_lang": target,
        "subset": subset,
        "lowercase": settings.lowercase,
        "untranslated": untranslated,
    }
    if settings.lowercase and settings.language_case:
        record["language_case"] = True
    if reverse:
        record["reverse"] = True
    if selected_on:
        record[SELECTED_ON] = list(selected_on)
    write_record(folder / RECORD, record)


def check_data(data: Path, subset: str) -> int:
    """Return the number of pairs of a subset. Raises `UserError` if the data folder or the subset is faulty."""
    # fairseq would take it for two folders.
    if os.pathsep in str(data):
        raise UserError(f"DATA must not have a colon in its name, but is '{data}'")
    settings = TextSettings.read(data)
    dictionaries = check_dictionaries(data, settings.languages)
    check_record(data, dictionaries)
    pairs = check_subset(data, subset, settings.languages, dictionaries)
    if pairs is None:
        pairs = count_lines(data / "text" / f"{subset}.tok.{settings.source_lang}")
    raw = [f"raw.{x}" for x in settings.languages if (data / "text" / f"{subset}.raw.{x}").exists()]
    check_texts(data, subset, [*(f"tok.{language}" for language in settings.languages), *raw], pairs)
    return pairs
