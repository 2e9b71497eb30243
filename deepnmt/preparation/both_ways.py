"""A data folder of both directions: each training pair, and each training pair with its sides exchanged.

One dictionary numbers the types of both languages, so that binarised sides are joined as they are. Validation and test
sets are copied, and keep their one direction.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deepnmt.errors import UserError
from deepnmt.text.data_folder import check_dictionaries, check_subset, parts_of, subset_prefix
from deepnmt.text.dictionary import check_dictionary, read_types
from deepnmt.text.index_file import join
from deepnmt.text.inline_targets import TRAINING
from deepnmt.text.like_folder import TRAIN, check_like, copy_frame, frame_record, settings_record, side_name
from deepnmt.text.record import read_record, selected_on, sha256
from deepnmt.text.settings import RECORD

BOTH_WAYS = "both_directions"


@dataclass(frozen=True)
class BothWays:
    """The data folder `data`, whose training pairs are joined with themselves, exchanged."""

    data: Path

    def record(self) -> dict[str, Any]:
        """Return the first entries of the new folder's record.

        Raises:
            UserError: the folder is faulty, or its languages have different dictionaries or inline targets
        """
        languages = check_like(self.data).languages
        dictionaries = check_dictionaries(self.data, languages)
        first, second = (read_types(self.data / f"dict.{name}.txt") for name in languages)
        if first != second:
            raise UserError(
                f"{self.data}: both directions need one dictionary (preprocess without --separate-dictionaries)"
            )
        record = read_record(self.data / RECORD)
        if TRAINING in record:
            raise UserError(
                f"{self.data}: both directions cannot be combined with inline targets (--glossary-training)"
            )
        inputs: dict[str, str] = {}
        for part in self._parts():
            check_subset(self.data, part, languages, dictionaries)
            prefix = subset_prefix(self.data, part, languages)
            inputs |= {f"{part}.{name}": sha256(Path(f"{prefix}.{name}.bin")) for name in languages}
        own: dict[str, Any] = {**settings_record(self.data), **frame_record(self.data), BOTH_WAYS: True}
        return {**own, "inputs": inputs, **selected_on([record])}

    def make(self, folder: Path) -> dict[str, dict[str, int]]:
        """Write the pairs to a folder that has its record, copy the rest, and return the counts."""
        languages = check_like(self.data).languages
        copy_frame(self.data, folder)
        prefixes = [subset_prefix(self.data, part, languages) for part in self._parts()]
        number = 0
        for own, other in (languages, languages[::-1]):
            sides = [f"{prefix}.{name}" for name in (own, other) for prefix in prefixes]
            types = check_dictionary(folder / f"dict.{own}.txt")
            number = join(sides, str(folder / side_name(TRAIN, languages, own)), types)
        return {TRAIN: {"kept": number}}

    def _parts(self) -> list[str]:
        """Return the names of the training sets, which fairseq joins."""
        return list(parts_of(self.data, TRAIN, check_like(self.data).languages))
