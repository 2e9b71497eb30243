"""What identifies a data folder, which may be made anew under its name, or stand elsewhere as it was."""

import hashlib
import json
from pathlib import Path

from deepnmt.text.record import read_record
from deepnmt.text.settings import RECORD


def identity_of_data(folder: Path) -> str:
    """Return what differs between data folders with other text or subwords; a copy of BPE-dropout has but its name."""
    if not (folder / RECORD).is_file():
        return folder.name
    # The size of a log says nothing of the text.
    record = {key: value for key, value in read_record(folder / RECORD).items() if key != "files"}
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()
