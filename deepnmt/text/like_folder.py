"""Data folders that are like another one: its text settings, its codes and its dictionaries, nothing learnt anew.

Lines that it validates or tests on must not be among text that is to be trained on.
"""

import json
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from deepnmt.errors import UserError
from deepnmt.text.data_folder import check_dictionaries, check_record, check_subset, subset_prefix, subsets_of
from deepnmt.text.dictionary import SPECIAL_SYMBOLS, append_types, read_types
from deepnmt.text.index_file import Binarised, binarise
from deepnmt.text.lines import read_lines
from deepnmt.text.pipeline import text_files
from deepnmt.text.record import read_record, sha256
from deepnmt.text.settings import RECORD, TextSettings
from deepnmt.text.subwords import SEPARATOR, Subwords, subword_files

# Keys of a folder's record about its text and its subwords, beside its inputs.
SETTINGS = (
    "source_lang", "target_lang", "lowercase", "pretokenized", "keep_punctuation", "normalise", "truecase",
    "subwords", "vocabulary", "min_pair_count", "separate", "vocabulary_threshold", "spell_unknown", "byte_fallback",
    "protect", "placeholders", "segment", "units_first", "all_numbers", "language_case", "reversible", "bpe_merges",
    "joined_dictionary", "max_len", "max_ratio", "glossary",
)  # fmt: skip
TRAIN = "train"


def check_like(data: Path) -> TextSettings:
    """Return the settings of a folder that another can be made like.

    Raises `UserError` if it is no whole folder of deepnmt preprocess, or fairseq would take its name for several.
    """
    if any(sign in str(data) for sign in ":,"):
        raise UserError(f"DATA must not have a colon or a comma in its name, but is '{data}'")
    settings = TextSettings.read(data)
    dictionaries = check_dictionaries(data, settings.languages)
    check_record(data, dictionaries)
    for name in ("max_len", "max_ratio"):
        limit = read_record(data / RECORD).get(name, 0)
        kinds = (int,) if name == "max_len" else (int, float)
        if not isinstance(limit, kinds) or isinstance(limit, bool) or not 0 <= limit < float("inf"):
            must = "a whole number" if name == "max_len" else "a number"
            raise UserError(f"{data / RECORD}: '{name}' must be {must} of at least 0, but is {json.dumps(limit)[:60]}")
    if settings.placeholders:
        raise UserError(f"{data}: must be made without --placeholders, but has {settings.placeholders}")
    for language in settings.languages:
        Subwords(data, settings, language)
    # Copied at the end.
    others = held_out(data)
    for subset in others:
        check_subset(data, subset, settings.languages, dictionaries)
    for path in texts_of(data, others):
        if not path.is_file():
            raise UserError(f"{path}: must be a text, but is something else")
    return settings


def held_out(data: Path) -> list[str]:
    """Return the subsets of a folder that are not for training."""
    return [subset for subset in subsets_of(data) if not is_training(subset)]


def texts_of(data: Path, subsets: Sequence[str]) -> list[Path]:
    """Return the files of the text of some subsets."""
    return [path for path in sorted((data / "text").glob("*")) if path.name.split(".")[0] in subsets]


def settings_record(data: Path) -> dict[str, Any]:
    """Return the first entries of the record of a folder like `data`."""
    record = read_record(data / RECORD)
    return {key: record[key] for key in SETTINGS if key in record}


def like_record(data: Path) -> dict[str, str]:
    """Return the checksums by which two folders are told to have the same subwords: codes and dictionaries."""
    settings = TextSettings.read(data)
    dictionaries = [f"dict.{language}.txt" for language in settings.languages]
    return {name: sha256(data / name) for name in (*subword_files(settings), *dictionaries)}


def frame_record(data: Path) -> dict[str, Any]:
    """Return the checksums of the files that a folder like `data` takes from it: `like_record`, and held-out sets.

    Raises `UserError` if a file of a subset is missing.
    """
    languages = TextSettings.read(data).languages
    files = {path.name: path for path in texts_of(data, held_out(data))}
    for subset in held_out(data):
        prefix = subset_prefix(data, subset, languages)
        files |= {f"{side_name(subset, languages, name)}.bin": Path(f"{prefix}.{name}.bin") for name in languages}
    return {"like": like_record(data), "held_out": {name: sha256(path) for name, path in sorted(files.items())}}


def check_symbols(symbols: Sequence[str]) -> None:
    """Raise `UserError` if a symbol cannot be a type of its own."""
    for symbol in symbols:
        if not symbol or symbol.split() != [symbol] or symbol.endswith(SEPARATOR) or symbol in SPECIAL_SYMBOLS:
            raise UserError(
                f"--symbols must be a word without white space such as <BT>, and none of fairseq's, but is '{symbol}'"
            )


def check_absent(symbols: Iterable[str], texts: Iterable[Path]) -> None:
    """Raise `UserError` naming the first line of the texts that has one of the symbols."""
    wanted = set(symbols)
    for text in texts if wanted else ():
        for number, line in enumerate(read_lines(text), start=1):
            if found := wanted.intersection(line.split()):
                raise UserError(f"{text}:{number}: must not have the symbol {min(found)}, but does")


def copy_frame(data: Path, folder: Path, symbols: Sequence[str] = (), subsets: bool = True) -> None:
    """Copy all that a data folder has beside its training text.

    Args:
        symbols: types to append to the dictionaries, where these do not have them
        subsets: copy the other subsets (validation and test) too, with their text
    """
    settings = TextSettings.read(data)
    languages = settings.languages
    for name in text_files(settings):
        shutil.copyfile(data / name, folder / name)
    for language in languages:
        shutil.copyfile(data / f"dict.{language}.txt", folder / f"dict.{language}.txt")
        append_types(folder / f"dict.{language}.txt", symbols)
    if not subsets:
        return
    others = held_out(data)
    for subset in others:
        prefix = subset_prefix(data, subset, languages)
        for language in languages:
            for ending in ("bin", "idx"):
                # In the order of the folder that is being made, whatever the file's order.
                name = f"{side_name(subset, languages, language)}.{ending}"
                shutil.copyfile(f"{prefix}.{language}.{ending}", folder / name)
    (folder / "text").mkdir(exist_ok=True)
    for path in texts_of(data, others):
        shutil.copyfile(path, folder / "text" / path.name)


def is_training(subset: str) -> bool:
    """Return whether a subset is `train`, `train1`, ..., which fairseq joins."""
    return subset.removeprefix(TRAIN).isdecimal() or subset == TRAIN


def side_name(subset: str, languages: tuple[str, str], language: str) -> str:
    """Return the name of one side of a subset, without .bin and .idx."""
    return f"{subset}.{'-'.join(languages)}.{language}"


def binarise_text(folder: Path, subset: str, only: Iterable[str] = ()) -> dict[str, Binarised]:
    """Binarise text/SUBSET.bpe.LANG of a folder, and return the counts by language; by default of both languages.

    The folder is being made, with the dictionaries, and the settings in its record.
    """
    languages = TextSettings.read(folder).languages
    return {
        language: binarise(
            folder / "text" / f"{subset}.bpe.{language}",
            str(folder / side_name(subset, languages, language)),
            read_types(folder / f"dict.{language}.txt"),
        )
        for language in (tuple(only) or languages)
    }


def check_same_subwords(folder: Path, data: Path, made_by: str) -> None:
    """Check that a folder has the codes and dictionaries of `data`, perhaps with appended symbols.

    `made_by` is the command that makes such a folder. Raises `UserError` with the name of the file that differs.
    """
    for fault in _differences(folder, data):
        raise UserError(f"{fault}; make {folder} with {made_by}")


def _differences(folder: Path, data: Path) -> Iterator[str]:
    languages, others = TextSettings.read(data).languages, TextSettings.read(folder).languages
    if sorted(languages) != sorted(others):
        yield f"{folder}: must have the languages {' and '.join(languages)} of {data}, but has {' and '.join(others)}"
    for name in subword_files(TextSettings.read(data)):
        if not (folder / name).is_file() or sha256(folder / name) != sha256(data / name):
            yield f"{folder / name}: must be the codes of {data}, but are others"
    for language in languages:
        name = f"dict.{language}.txt"
        types = read_types(data / name)
        if read_types(folder / name)[: len(types)] != types:
            yield f"{folder / name}: must be the dictionary of {data}, perhaps with more types, but is another"


class Held(NamedTuple):
    """Where a held-out line stands."""

    subset: str
    line: int


def held_out_lines(data: Path, language: str) -> dict[str, Held]:
    """Return the tokenised lines of one language that a data folder validates or tests on.

    Raises `UserError` if the folder lacks the text of such a subset.
    """
    lines: dict[str, Held] = {}
    for subset in held_out(data):
        path = data / "text" / f"{subset}.tok.{language}"
        if not path.is_file():
            raise UserError(f"{path}: no such file; {data} must be a whole folder made by deepnmt preprocess")
        for number, line in enumerate(read_lines(path), start=1):
            lines.setdefault(line.strip(), Held(subset, number))
    return lines


def leaks(lines: Iterable[str], held: dict[str, Held]) -> Iterator[tuple[int, Held]]:
    """Yield the numbers, from 1, of the lines that are held out, and where they stand there."""
    for number, line in enumerate(lines, start=1):
        if (found := held.get(line.strip())) is not None:
            yield number, found


def check_leaks(text: Path, held: dict[str, Held], data: Path) -> None:
    """Refuse tokenised text that has lines which are held out in `data`.

    Raises `UserError` with their number and the first of them.
    """
    found = list(leaks(read_lines(text), held))
    if found:
        number, where = found[0]
        raise UserError(
            f"{text}:{number}: must not be a line that {data} validates or tests on, but is line {where.line} of "
            f"{where.subset}, and so are {len(found) - 1} more. Leave them out (deepnmt binarise --drop-overlap) or "
            "give --allow-overlap"
        )
