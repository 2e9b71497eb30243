"""A model folder: everything needed to translate, verified and relocatable.

- model.json: the contents of the folder and their origin
- codes: merge operations of the BPE
- truecase.LANG: forms of words, with true case alone
- dict.LANG.txt: dictionaries, as fairseq names them
- shortlist.npz: the types that translations may have, in a model with shortlists (`search/shortlist.py`)
- ...: the engine's own files
- model.safetensors: the torch engine's weights, in the folders of other engines too (`fallback.py`); earlier versions
  wrote model.pt

model.json = {"format": 1 to 4, "source_lang": ..., "target_lang": ..., "lowercase": ..., "pretokenized": ...,
              "keep_punctuation": ..., "normalise": ..., "truecase": ..., "engine": "torch",
              "weights": "float32", "longest": 1023,
              "search": {"beam": 5, ...}, "check": {...}, "architecture": {...}, "files": {"codes": "SHA-256", ...},
              "version": "0.2.0"}
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deepnmt
from deepnmt.engines.engine import KINDS, WEIGHTS, SearchSettings, kind_fault
from deepnmt.engines.registry import ENGINES
from deepnmt.errors import UserError
from deepnmt.text.dictionary import check_dictionary
from deepnmt.text.pipeline import TextPipeline
from deepnmt.text.record import MODEL_FOLDER, SHORTLIST, check_kinds, read_record, sha256, write_record
from deepnmt.text.settings import TextSettings
from deepnmt.text.subwords import CODES

if TYPE_CHECKING:
    from deepnmt.search.shortlist import Shortlist

RECORD = MODEL_FOLDER
# The torch engine's files, of which other engines' folders have the first.
ALSO_TORCH = ("torch", "transformers")  # whose own files they are
# Which a user may edit.
CARD = "README.md"
TORCH_FILES = ("model.safetensors", "model.pt")
TORCH = re.compile(r"model\d*\.(safetensors|pt)")
# Folders with text steps that the first format lacked say so, for versions that would omit the steps. So do those with
# shortlists, and the torch engine's, for versions that would look for model.pt.
FORMATS = (1, 2, 3, 4)
FIRST_STEPS = ("source_lang", "target_lang", "lowercase", "pretokenized", "keep_punctuation")


@dataclass(frozen=True)
class ModelFolder:
    """A model folder's description of itself.

    Attributes:
        path: of the folder
        text: languages and text steps
        engine: its name
        weights: type of their numbers
        longest: greatest number of subwords in a source
        search: defaults of the search
        check: result of the check during export; empty without a check
        architecture: of the models, if torch computes them without fairseq (`torch/options.py`); otherwise empty
    """

    path: Path
    text: TextSettings
    engine: str
    weights: str
    longest: int = 1
    search: SearchSettings = field(default_factory=SearchSettings)
    check: Mapping[str, Any] = field(default_factory=dict)
    architecture: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def open(cls, path: str | Path) -> ModelFolder:
        """Return a model folder, after checking that its engine's files are present and unaltered since its export.

        Raises:
            UserError: it is missing or of a later version, or a file is missing or altered
        """
        folder, record = cls.read(Path(path))
        other = folder.engine not in ALSO_TORCH
        files = {name: known for name, known in record["files"].items() if not (other and TORCH.fullmatch(name))}
        _check_files(folder.path, files)
        return folder

    def check_torch_weights(self) -> None:
        """Raise `UserError` if the torch weights beside another engine's files are missing or altered."""
        files = self.read(self.path)[1]["files"]
        _check_files(self.path, {name: known for name, known in files.items() if TORCH.fullmatch(name)})

    def has_torch_weights(self) -> bool:
        """Return whether the folder has the torch engine's files; folders of earlier versions may lack them."""
        return any((self.path / name).is_file() for name in TORCH_FILES)

    @classmethod
    def read(cls, path: Path) -> tuple[ModelFolder, dict[str, Any]]:
        """Return a model folder with a valid model.json, and its contents, without looking at other files.

        Raises:
            UserError: it is missing or of a later version
        """
        if not path.is_dir():
            raise UserError(f"{path}: no folder made by deepnmt export was found")
        file = path / RECORD
        version = read_record(file, format=int)["format"]
        if version not in FORMATS:
            raise UserError(
                f"{file}: 'format' must be from 1 to {FORMATS[-1]}, but is {version}"
                + ("; it needs a later version of deepnmt" if version > FORMATS[-1] else "")
            )
        record = read_record(
            file,
            source_lang=str,
            target_lang=str,
            lowercase=bool,
            pretokenized=bool,
            keep_punctuation=bool,
            engine=str,
            weights=str,
            longest=int,
            search=dict,
            check=dict,
            files=dict,
            version=str,
        )
        for key, choices in (("engine", tuple(ENGINES)), ("weights", WEIGHTS)):
            if record[key] not in choices:
                raise UserError(f"{file}: '{key}' must be one of {', '.join(choices)}, but is '{record[key]}'")
        if record["longest"] < 1:
            raise UserError(f"{file}: 'longest' must be at least 1, but is {record['longest']}")
        text = TextSettings.from_record(record, file)
        search = _search_settings(file, record["search"])
        architecture = _architecture(file, record)
        folder = cls(
            path, text, record["engine"], record["weights"], record["longest"], search, record["check"], architecture
        )
        return folder, record

    @property
    def source_lang(self) -> str:
        """Language of the source."""
        return self.text.source_lang

    @property
    def target_lang(self) -> str:
        """Language of the target."""
        return self.text.target_lang

    @property
    def codes(self) -> Path:
        """Merge operations of the BPE."""
        return self.path / CODES

    def dictionary(self, language: str) -> Path:
        """Return the path of a language's dictionary."""
        return self.path / f"dict.{language}.txt"

    def shortlist(self) -> Shortlist | None:
        """Return the shortlists, or None for a model without any. Raises `UserError` if their file is faulty."""
        from deepnmt.search.shortlist import Shortlist  # here, since --help need not wait for numpy

        if not (self.path / SHORTLIST).exists():
            return None
        sizes = (check_dictionary(self.dictionary(language)) for language in self.text.languages)
        return Shortlist.read(self.path / SHORTLIST, *sizes)

    def pipeline(self) -> TextPipeline:
        """Return the text steps. Raises `UserError` if the codes are faulty."""
        return TextPipeline.of(self.text, self.codes)

    def write(self) -> None:
        """Write model.json, with the checksums of all files that are in the folder."""
        settings = dataclasses.asdict(self.text)
        later = 2 if self.text.has_marks else int(any(settings[name] for name in settings.keys() - set(FIRST_STEPS)))
        later = 3 if self.engine in ALSO_TORCH or (self.path / SHORTLIST).exists() else later
        record = {
            "format": FORMATS[later],
            **settings,
            "engine": self.engine,
            "weights": self.weights,
            "longest": self.longest,
            "search": self.search.as_record(),
            "check": dict(self.check),
            **({"architecture": dict(self.architecture)} if self.architecture else {}),
            "files": {name: sha256(self.path / name) for name in sorted(_files(self.path))},
            "version": deepnmt.__version__,
        }
        write_record(self.path / RECORD, record)


def is_model_folder(path: Path) -> bool:
    """Return whether a folder has a model.json of this package, of any version."""
    try:
        return "format" in read_record(path / RECORD, files=dict)
    except (UserError, OSError):
        return False


def _search_settings(file: Path, record: dict[str, Any]) -> SearchSettings:
    for name, value in record.items():
        if must := kind_fault(name, value):
            raise UserError(f"{file}: 'search.{name}' must be {must}, but is {json.dumps(value)[:60]}")
    own = {name: value for name, value in record.items() if name in KINDS}
    try:
        return SearchSettings(**own, more={name: value for name, value in record.items() if name not in KINDS})
    except UserError as error:
        raise UserError(*(f"{file}: 'search': {line}" for line in str(error).splitlines())) from None


def _architecture(file: Path, record: dict[str, Any]) -> dict[str, Any]:
    """Return the description of the models, whose own options are checked where they are built."""
    # Earlier versions did not write it.
    found: Any = record.get("architecture", {})
    if found != {}:
        check_kinds(file, record, {"architecture": dict})
        check_kinds(file, found, {"left_pad_source": bool, "models": list}, "architecture.")
        models = {str(number): each for number, each in enumerate(found["models"])}
        check_kinds(file, models, dict.fromkeys(models, dict), "architecture.models.")
    return dict(found)


def _files(folder: Path) -> Iterator[str]:
    for path in folder.rglob("*"):
        if path.is_file() and path.name not in (RECORD, CARD):
            yield path.relative_to(folder).as_posix()


def _check_files(folder: Path, checksums: Mapping[str, Any]) -> None:
    for name, expected in checksums.items():
        path = folder / name
        if not path.is_file():
            raise UserError(f"{path}: not found, although {folder / RECORD} lists it")
        if sha256(path) != expected:
            raise UserError(f"{path}: was altered since the export; export the model again")
