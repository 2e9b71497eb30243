"""A folder of results that appears when it is complete; files for resuming stay in it."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deepnmt.beside import whole_folder
from deepnmt.console import whole_file
from deepnmt.errors import UserError
from deepnmt.reranking.merged_lists import MergedLists
from deepnmt.text.lines import open_file, whole_text
from deepnmt.text.nbest import FILE, Translation, write_nbest
from deepnmt.text.record import selection_texts, write_record
from deepnmt.text.subwords import join_bpe
from deepnmt.text.translated_folder import write_translations

FOLDER = "scores"
LATER = {"combined": "combined translations", "chosen": "chosen translations", "oracle": "best choice possible"}


@dataclass(frozen=True)
class ResultFolder:
    """OUT of a command.

    Args:
        path: of the folder
        record: the file by which a folder of the command is known

    Raises:
        UserError: there is something else at the path
    """

    path: Path
    record: str

    def __post_init__(self) -> None:
        if self.path.exists() and not self.path.is_dir():
            raise UserError(f"{self.path}: OUT must be a folder, but is a file")
        names = {path.name for path in self.path.iterdir()} if self.path.is_dir() else set()
        if names - {FOLDER} and self.record not in names:
            raise UserError(f"{self.path}: OUT must be new or have {self.record}, but is a folder of something else")

    @contextmanager
    def building(self) -> Iterator[Path]:
        """Give a folder to write to, whose files take the place of all earlier ones if nothing went wrong."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with whole_folder(self.path, kept=FOLDER) as folder:
            yield folder

    def write(
        self,
        folder: Path,
        data: Path,
        lists: MergedLists,
        lines: Sequence[Translation],
        records: Sequence[Mapping[str, Any]],
        report: Mapping[str, Any],
    ) -> None:
        """Write the translations of rank 1 as generate.sh does, all of them as a list, and the report.

        Args:
            folder: to write to, see `building`
            data: the data folder
            lists: the origin of the translations
            lines: translations, by sentence and rank
            records: facts on the training pairs of the models that were used
            report: on the choice
        """
        best = {line.sentence: join_bpe(line.subwords) for line in lines if line.rank == 1}
        texts = [best.get(number, "") for number in range(len(lists.candidates))]
        selected_on = selection_texts([*lists.records, *records])
        write_translations(folder, texts, data, lists.subset, len(texts) - len(best), lists.reverse, selected_on)
        write_nbest(folder / FILE, lines)
        write_record(folder / self.record, dict(report))


def bleu_lines(report: Mapping[str, Any]) -> str:
    """Return the BLEU scores of a report as lines."""
    bleu = report["bleu"]
    found = {f"first translations of {path}": score for path, score in zip(report["lists"], bleu["first"])}
    for key, name in LATER.items():
        found |= {name: bleu[key]} if key in bleu else {}
    return "\n".join(f"BLEU of the {name}: {score}" for name, score in found.items())


def digest(checkpoints: Sequence[Path], facts: object) -> str:
    """Return what identifies a result: the contents of the checkpoints, and everything else that they depend on."""
    result = hashlib.sha256(json.dumps(facts).encode())
    for path in checkpoints:
        with open_file(path) as file:
            while chunk := file.read(1 << 20):
                result.update(chunk)
    return result.hexdigest()


def kept(path: Path, key: str) -> Any:
    """Return the result in a file, or None if the file has no result for this key."""
    try:
        record = json.loads(whole_text(path))
        return record["result"] if record["key"] == key else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def keep(path: Path, key: str, result: object) -> None:
    """Write a result to a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as temporary:
        temporary.write_text(json.dumps({"key": key, "result": result}), encoding="utf-8")
