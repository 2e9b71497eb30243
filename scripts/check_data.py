"""Check the data of a training: check_data.py DATA[:DATA1...] [fairseq-train options]"""

from __future__ import annotations

import sys

from deepnmt import console
from deepnmt.text.training_data import check_named_data


def main() -> None:
    """Check the folders and subsets that the command line names."""
    check_named_data(sys.argv[1], sys.argv[2:])


if __name__ == "__main__":
    console.run(main)
