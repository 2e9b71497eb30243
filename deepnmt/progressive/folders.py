"""Where a stage keeps what it makes, and the recipe that it is made from."""

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from deepnmt.console import whole_file
from deepnmt.errors import UserError
from deepnmt.jobs.in_place import InPlace
from deepnmt.progressive.stages import Stage
from deepnmt.text.data_identity import identity_of_data
from deepnmt.text.lines import whole_text
from deepnmt.text.record import CONTENTS, difference

RECIPE, LAST, DONE = "recipe.yaml", "checkpoint_last.pt", "stage.json"


def prepare(stages: Sequence[Stage], save: Path, extra: Sequence[str], data: str) -> None:
    """Make the folder of each stage, with its recipe for train.sh.

    Args:
        stages: of the recipe
        save: the folder of all stages
        extra: arguments of fairseq-train
        data: DATA, or DATA0:DATA1:..., which are trained on in turn

    Raises:
        UserError: the folder holds stages of another recipe or other data, which are not to be mixed with these
    """
    identity = ":".join(identity_of_data(Path(folder)) for folder in data.split(os.pathsep))
    texts = {stage.name: recipe_text(stage, len(stages), extra, identity) for stage in stages}
    jobs = [job_of(save / name, text) for name, text in texts.items()]
    faults = []
    for folder in sorted({path.parent for path in save.glob(f"stage-*/{RECIPE}")} - {job.out for job in jobs}):
        if job_of(folder).has_worth():
            faults.append(f"{folder} exists, and is no stage of this recipe; remove it or choose another SAVE")
    for job in jobs:
        try:
            job.check()
        except UserError as error:
            faults.append(str(error))
    if faults:
        raise UserError(*faults)
    for job in jobs:
        job.out.mkdir(parents=True, exist_ok=True)
        job.write()


@dataclass(frozen=True)
class StageJob(InPlace):
    """The job of a stage, whose record is its recipe."""

    text: str = ""

    def write(self) -> None:
        """Write the recipe."""
        with whole_file(self.record) as temporary:
            temporary.write_text(self.text, encoding="utf-8")

    def _difference(self, path: Path) -> str:
        return difference(_settings(whole_text(path)), _settings(self.text))


def job_of(folder: Path, text: str = "") -> StageJob:
    """Return the job of a stage's folder, and of its recipe."""
    return StageJob("deepnmt train-progressive", folder, RECIPE, option="SAVE", worth=(LAST, DONE), text=text)


def recipe_text(stage: Stage, stages: int, extra: Sequence[str], data: str) -> str:
    """Return the recipe of one stage: options of fairseq-train; data, how it grows and is scored stand in comments.

    Args:
        stage: the stage
        stages: their number
        extra: arguments of fairseq-train
        data: what identifies it
    """
    lines = [f"# Stage {stage.number} of {stages}; made by train_progressive.sh, which runs it"]
    growth = stage.growth
    if growth is not None:
        lines.append(f"# strategy: {growth.strategy}")
    own = {key: value for key, value in stage.own.items() if key != "strategy"}
    lines += [f"# {key}: {value}" for key, value in sorted(own.items())]
    lines += [f"# options: {shlex.join(extra)}"] if extra else []
    lines.append(f"# data: {data}")
    options = {key: option.value for key, option in stage.options.items()}
    return "\n".join(lines) + "\n" + yaml.safe_dump(options, sort_keys=False, allow_unicode=True, width=1000)


def _settings(text: str) -> dict[str, str]:
    """Return the values of a recipe, and of its comments, by their keys."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        key, colon, value = line.removeprefix("# ").partition(": ")
        found |= {key: value} if colon else {"heading": line}
    return {f"{CONTENTS}s of data" if key == "data" else key: value for key, value in found.items()}
