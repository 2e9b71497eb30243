"""What a training of a row came to.

commands:
  record.py best FOLDER...       of results on the validation set, the beam and the length penalty of the best
  record.py finish RUN ...       write RUN/run.json, the record of a finished training, for the report
  record.py failed RUN ...       the same for a training that broke down; an error if RUN's log does not say so
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

from deepnmt import console
from deepnmt.errors import UserError
from deepnmt.text.corpus_scores import COMPOUNDS, TOKENISED
from deepnmt.text.record import read_record

RECORD = "run.json"
SETTING = re.compile(r"\.beam(\d+)\.lenpen([\d.]+)$")
SCORES = {"bleu": TOKENISED, "compounds": COMPOUNDS, "sacrebleu": "BLEU"}
# What deepnmt says in place of fairseq's messages about a NaN, an Inf, or a loss scale that has become too small.
BROKE_DOWN = re.compile(r"error: (training stopped at update .*)")


def scores(folder: Path) -> dict[str, float]:
    """The scores of a folder by our names."""
    found = read_record(folder / "scores.json")
    return {name: float(found[theirs]["score"]) for name, theirs in SCORES.items()}


def best(folders: list[Path]) -> tuple[str, str]:
    """Beam and length penalty of the folder with the highest tokenised BLEU, of equal ones the first."""
    chosen = max(folders, key=lambda folder: scores(folder)["bleu"])
    return _setting(chosen)


def _setting(folder: Path) -> tuple[str, str]:
    match = SETTING.search(folder.name)
    if match is None:
        raise UserError(f"{folder} must be named ...beamN.lenpenX, but is not")
    return match[1], match[2]


def of_checkpoints(folder: Path) -> dict[str, Any]:
    """Epochs and hours of the training in a folder of checkpoints."""
    # Here, since torch takes a second.
    from deepnmt.checkpoints.state import CheckpointState

    first, last = (CheckpointState.of(folder / f"checkpoint_{name}.pt", numbers=False) for name in ("best", "last"))
    return {
        "best_epoch": first.epochs_begun(),
        "epochs": last.epochs_begun(),
        "hours": round(last.seconds() / 3600, 4),
    }


def versions() -> dict[str, str]:
    """What it was run with."""
    from importlib.metadata import PackageNotFoundError, version

    import torch

    device = "CPU"
    if torch.cuda.is_available():
        device = f"{torch.cuda.device_count()} x {torch.cuda.get_device_name(0)}"
    found = {"device": device}
    for name in ("torch", "ve-fairseq", "fairseq-fixed", "sacrebleu"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def failure(log: Path, after: int) -> str:
    """Why a training broke down, by what its log says after so many bytes; empty: it does not say so."""
    text = log.read_bytes()[after:].decode("utf-8", errors="replace") if log.is_file() else ""
    found = BROKE_DOWN.findall(text)
    return str(found[-1]) if found else ""


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("best")
    command.add_argument("folders", type=Path, nargs="+", metavar="FOLDER")
    for name in ("finish", "failed"):
        command = commands.add_parser(name)
        command.add_argument("run", type=Path, metavar="RUN", help="folder of the row and seed")
        command.add_argument("row", metavar="ROW")
        command.add_argument("seed", type=int, metavar="SEED")
        if name == "finish":
            command.add_argument("valid", type=Path, metavar="VALID", help="the best result on the validation set")
            command.add_argument(
                "best", type=Path, metavar="BEST", help="result of the best checkpoint on the test set"
            )
            command.add_argument("average", type=Path, metavar="AVERAGE", help="result of the average on the test set")
        else:
            command.add_argument("after", type=int, metavar="BYTES", help="length of the log before the training")
        command.add_argument("options", nargs="*", metavar="-- OPTION", help="what fairseq-train got beside the recipe")
    arguments = parser.parse_args()
    if arguments.command == "best":
        print(*best(arguments.folders))
        return
    run: Path = arguments.run
    record: dict[str, Any] = {"row": arguments.row, "seed": arguments.seed, "options": arguments.options}
    if arguments.command == "failed":
        record["failed"] = failure(run / "checkpoints" / "train.log", arguments.after)
        if not record["failed"]:
            raise UserError(f"the training ended with an error: see {run / 'checkpoints' / 'train.log'}")
    else:
        beam, penalty = _setting(arguments.valid)
        record |= {"beam": int(beam), "lenpen": float(penalty), **of_checkpoints(run / "checkpoints")}
        record["valid"] = scores(arguments.valid)
        for name in ("best", "average"):
            folder: Path = getattr(arguments, name)
            record[name] = {"folder": folder.name, **scores(folder)}
    record["versions"] = versions()
    with console.whole_file(run / RECORD) as temporary:
        temporary.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    console.run(main)
