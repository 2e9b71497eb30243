"""The identity of the files that searches read, which may be made anew under the same names."""

import os
from collections.abc import Sequence
from pathlib import Path

from deepnmt.text.data_record import identity_of_data
from deepnmt.text.record import DATASTORE, size_and_time


def contents(data: Path, options: Sequence[str]) -> dict[str, str]:
    """Return the identity of the contents of a data folder, and of files and datastores that options name."""
    found = {"DATA": identity_of_data(data)}
    # Both `--terms FILE` and `--terms=FILE`.
    values = [word.partition("=")[2] if word.startswith("--") else word for word in options]
    # An ensemble has a language model or a datastore for each of its models.
    values = [part for value in values for part in value.split(":") if part]
    found |= {value: size_and_time(Path(value)) for value in values if os.path.isfile(value)}
    found |= {value: size_and_time(record) for value in values if (record := Path(value, DATASTORE)).is_file()}
    return {f"contents of {name}": identity for name, identity in found.items()}
