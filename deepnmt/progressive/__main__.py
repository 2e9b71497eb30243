"""Plan the stages of a recipe, or grow from one to the next, for `scripts/train_progressive.sh`."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path

from deepnmt.console import run
from deepnmt.progressive.folders import prepare
from deepnmt.progressive.plan import plan_stages
from deepnmt.progressive.stages import ENDS, Stage
from deepnmt.progressive.steps import grow_stage
from deepnmt.recipe import to_arguments
from deepnmt.text.data_folder import check_dictionaries, check_subset, check_texts
from deepnmt.text.settings import TextSettings
from deepnmt.text.training_data import check_named_data


def main() -> None:
    """Do one step of progressive training."""
    parser = argparse.ArgumentParser(prog="deepnmt.progressive", description=__doc__, allow_abbrev=False)
    parser.add_argument("recipe", type=Path)
    parser.add_argument("save", type=Path)
    step = parser.add_mutually_exclusive_group(required=True)
    step.add_argument("--grow-to", type=int, metavar="N", help="make the checkpoint that stage N starts from")
    step.add_argument("--data", metavar="DATA[:DATA1...]", help="check it, and make the folders of all stages")
    known, extra = parser.parse_known_args()
    with contextlib.redirect_stdout(sys.stderr):
        stages = plan_stages(known.recipe, extra)
    if known.grow_to is not None:
        print("\n".join(grow_stage(stages[known.grow_to - 2], stages[known.grow_to - 1], known.save)))
    else:
        check_data(known.data, [*to_arguments(stages[0].options), *extra])
        prepare(stages, known.save, extra, known.data)
        for stage in stages:
            print(_description(stage), file=sys.stderr)
            # For a shell: folder, number of checkpoints to average, options of the search.
            print(stage.name, stage.own.get("average", "0"), stage.own.get("translate", ""))


def check_data(data: str, arguments: Sequence[str]) -> None:
    """Raise `UserError` if the stages cannot be trained on some data, or their translations of it not be scored."""
    first = check_named_data(data, arguments)[0]
    languages = TextSettings.read(first).languages
    pairs = check_subset(first, "valid", languages, check_dictionaries(first, languages))
    if pairs is not None:
        check_texts(first, "valid", [f"tok.{language}" for language in languages], pairs)


def _description(stage: Stage) -> str:
    config, ends = stage.config, [f"{key} {stage.end(key)}" for key in ENDS if stage.end(key) > 0]
    grown = f" by {stage.growth.strategy}" if stage.growth else ""
    return (
        f"stage {stage.number}: {config.encoder_layers} encoder layers{grown}, groups {config.encoder_groups}, "
        f"{config.decoder_layers} decoder layers, groups {config.decoder_groups}, to {', '.join(ends)}"
    )


if __name__ == "__main__":
    run(main, "train_progressive.sh")
