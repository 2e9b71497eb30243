"""Check checkpoints against a data folder, and translate with them: what scripts/generate.sh runs.

fairseq-generate is called in this process, so that torch, which takes longest at the start, is imported once.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

import deepnmt
from deepnmt.checkpoints.data_fit import check_checkpoint, check_inline_targets
from deepnmt.checkpoints.state import CheckpointState
from deepnmt.console import Parser, run
from deepnmt.text.record import DATASTORE, read_record, selection_texts

PROGRAM = "generate.sh"


def main() -> None:
    """Check what the command line names, and leave fairseq-generate's own command line in `sys.argv`."""
    parser = Parser(PROGRAM, "Translate a subset of a data folder.", "Other options are fairseq-generate's.")
    parser.add_argument("data", type=Path)
    parser.add_argument("--path", required=True, help="checkpoints, with a colon between two")
    parser.add_argument("--reverse", action="store_true", help="translate from the data's target to its source")
    parser.add_argument("--inline-targets", action="store_true", help="the sources have the translations of terms")
    parser.add_argument("--selected-on", type=Path, required=True, help="file for what training pairs were chosen by")
    parser.add_argument("--datastore", help="the search's own: folders, with a colon between two")
    known, extra = parser.parse_known_args()
    stores = known.datastore.split(os.pathsep) if known.datastore else []
    extra += ["--datastore", known.datastore] if stores else []
    selected = check_checkpoints(known.path, known.data, known.reverse, stores)
    if known.inline_targets:
        for path in map(Path, known.path.split(os.pathsep)):
            check_inline_targets(path)
    if selected:
        known.selected_on.write_text(json.dumps(selected), encoding="utf-8")

    device = "--fp16" if torch.cuda.is_available() else "--cpu"
    # What is given wins, as it comes last.
    sys.argv = ["fairseq-generate", str(known.data), "--path", known.path, device, *extra]
    print("+", shlex.join(sys.argv), flush=True)


def check_checkpoints(paths: str, data: Path, reverse: bool, datastores: Sequence[str] = ()) -> list[object]:
    """Check that all checkpoints fit a data folder.

    Args:
        paths: of the checkpoints, with a colon between two
        data: the data folder
        reverse: the checkpoints translate in the other direction
        datastores: folders of neighbours; whether they fit is the search's to say

    Returns:
        the texts that the pairs of models and datastores were chosen to be like, as their data folders record them

    Raises:
        UserError: a checkpoint cannot be read, or was not trained on data like this
    """
    states: list[Mapping[str, Any]] = []
    for path in map(Path, paths.split(os.pathsep)):
        check_checkpoint(path, data, reverse)
        states.append(CheckpointState.of(path, numbers=False).task_state())
    records = (Path(store, DATASTORE) for store in datastores)
    return selection_texts([*states, *(read_record(record) for record in records if record.is_file())])


if __name__ == "__main__":
    run(main, PROGRAM)
    # From here on it is fairseq-generate, which SIGTERM ends at once.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    # Only now, since it takes as long as all checks.
    from fairseq_cli.generate import cli_main

    deepnmt.register()
    cli_main()
