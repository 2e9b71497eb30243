"""The record of a data folder, for scripts: see deepnmt/text/data_record.py.

command:
  manifest.py compare OLD NEW [OPTION]    succeed if OLD is whole, and of the same data as NEW; OPTION names OLD's
                                          folder (default: --dest)
"""

from __future__ import annotations

from pathlib import Path

from deepnmt import console
from deepnmt.text.data_record import check_same, complete, difference, flat
from deepnmt.text.record import read_record

__all__ = ["check_same", "difference", "finish", "flat"]


def finish(path: Path, data: Path, counts: list[Path]) -> None:
    """Complete the record of DATA, `path`; files of counts go."""
    numbers = {file.stem: read_record(file) for file in counts}
    for file in counts:
        file.unlink()
    complete(data, numbers)


def main() -> None:
    """Do what the command line says."""
    parser = console.Parser(description=__doc__)
    parser.add_argument("command", choices=["compare"])
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("option", nargs="?", default="--dest")
    given = parser.parse_args()
    check_same(given.old, read_record(given.new, inputs=dict), given.option)


if __name__ == "__main__":
    console.run(main)
