"""A folder of results that appears when it is complete; files for resuming stay in it."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deepnmt.beside import whole_folder
from deepnmt.console import write_whole
from deepnmt.jobs.job import Job
from deepnmt.reranking.merged_lists import MergedLists
from deepnmt.text.lines import open_file, whole_text
from deepnmt.text.nbest import FILE, Translation, write_nbest
from deepnmt.text.record import selection_texts, write_record
from deepnmt.text.subwords import join_bpe
from deepnmt.text.translated_folder import write_translations

FOLDER = "scores"
LATER = {"combined": "combined translations", "chosen": "chosen translations", "oracle": "best choice possible"}


@dataclass(frozen=True)
class ResultFolder(Job):
    """See `Job`; each start of the command makes the result anew. Raises `UserError` if `out` is no such result."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_replaceable(lambda folder: self.record.exists(), kept=FOLDER)

    def building(self) -> AbstractContextManager[Path]:
        """Give a folder to write to, whose files replace all earlier ones if nothing went wrong."""
        return whole_folder(self.out, kept=FOLDER)

    def write(
        self,
        folder: Path,
        data: Path,
        lists: MergedLists,
        lines: Sequence[Translation],
        records: Sequence[Mapping[str, Any]],
        report: Mapping[str, Any],
    ) -> None:
        """Write the translations of rank 1 as deepnmt generate does, all of them as a list, and the report.

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
        write_record(folder / self.name, dict(report))


def bleu_lines(report: Mapping[str, Any]) -> str:
    """Return the BLEU scores of a report as lines."""
    bleu = report["bleu"]
    found = {f"first translations of {path}": score for path, score in zip(report["lists"], bleu["first"])}
    for key, name in LATER.items():
        found |= {name: bleu[key]} if key in bleu else {}
    return "\n".join(f"BLEU of the {name}: {score}" for name, score in found.items())


def digest(checkpoints: Sequence[Path], facts: object) -> str:
    """Return the identity of a result: the checkpoints' contents, and everything else on which it depends."""
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
    write_whole(path, json.dumps({"key": key, "result": result}))
