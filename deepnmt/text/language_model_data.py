"""The data folder of a language model: links to one side of a data folder of translations, as fairseq names them."""

import shutil
from pathlib import Path

from deepnmt.errors import UserError
from deepnmt.text.data_folder import SUBSET_FILE
from deepnmt.text.dictionary import LM_DICTIONARY, check_dictionary
from deepnmt.text.index_file import Dictionary, check_side
from deepnmt.text.record import write_record
from deepnmt.text.subword_identity import ORIGIN, SubwordIdentity


def side(folder: Path, subset: str, language: str) -> Path:
    """Return the path, without its ending, of a subset's side. Raises `UserError` if there is not exactly one."""
    if not folder.is_dir():
        raise UserError(f"{folder}: data folder not found")
    matches = ((path, SUBSET_FILE.fullmatch(path.name)) for path in sorted(folder.glob(f"{subset}.*.{language}.idx")))
    found = [path.with_suffix("") for path, match in matches if match and match["language"] == language]
    if len(found) != 1:
        names = ", ".join(path.name for path in found) or "none"
        raise UserError(f"{folder}: must have one file such as {subset}.{language}-xx.{language}.idx, but has {names}")
    return found[0]


def link(source: Path, target: Path) -> None:
    """Let `target` be a link to `source`, whatever was there."""
    target.unlink(missing_ok=True)
    target.symlink_to(source.resolve())


def make(data: Path, save: Path, language: str, train: str, valid: str, text: Path) -> None:
    """Make SAVE/data and SAVE/dict.txt.

    `data` has the dictionary and the validation text, the folder `text` the training text. Raises `UserError` if
    something is missing or faulty, or SAVE has a model of other subwords; nothing is made then.
    """
    path = data / f"dict.{language}.txt"
    dictionary = Dictionary(path, check_dictionary(path))
    if (text / path.name).exists() and (text / path.name).read_bytes() != path.read_bytes():
        raise UserError(f"{text / path.name}: must be the same as {path}, but is not")
    sides = {"train": side(text, train, language), "valid": side(data, valid, language)}
    for each in sides.values():
        check_side(str(each), dictionary)
    kept = save / LM_DICTIONARY
    if kept.exists() and kept.read_bytes() != path.read_bytes():
        raise UserError(f"{kept}: must be the same as {path}, but is not: {save} has a model of another dictionary")
    folder = save / "data"
    identity = SubwordIdentity.of_language(data, language)
    record = identity.record()
    if SubwordIdentity.of({}, text, language).difference(record):
        raise UserError(f"{text}: must have the codes and text settings of {data}, but has others")
    if SubwordIdentity.of({}, folder).difference(record):
        raise UserError(f"{save}: has a model of other codes or text settings than {data}")
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, kept)
    link(kept, folder / LM_DICTIONARY)
    for name, each in sides.items():
        for ending in ("idx", "bin"):
            link(Path(f"{each}.{ending}"), folder / f"{name}.{ending}")
    if identity.settings is not None:
        write_record(folder / ORIGIN, record)
