"""Where a stage keeps what it makes, and the recipe that it is made from."""

import os
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml

from deepnmt.console import whole_file
from deepnmt.errors import UserError
from deepnmt.progressive.stages import Stage
from deepnmt.text.data_identity import identity_of_data
from deepnmt.text.lines import whole_text

RECIPE, LAST, DONE = "recipe.yaml", "checkpoint_last.pt", "stage.json"
DATA = "# data: "


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
    faults = []
    for folder in sorted(path.parent for path in save.glob(f"stage-*/{RECIPE}")):
        begun = (folder / LAST).exists() or (folder / DONE).exists()
        if begun and folder.name not in texts:
            faults.append(f"{folder}: must be a stage of this recipe, but is not; choose another SAVE")
        elif begun:
            faults += _differences(folder / RECIPE, texts[folder.name], data)
    if faults:
        raise UserError(*faults)
    for name, text in texts.items():
        (save / name).mkdir(parents=True, exist_ok=True)
        with whole_file(save / name / RECIPE) as temporary:
            temporary.write_text(text, encoding="utf-8")


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
    lines.append(f"{DATA}{data}")
    options = {key: option.value for key, option in stage.options.items()}
    return "\n".join(lines) + "\n" + yaml.safe_dump(options, sort_keys=False, allow_unicode=True, width=1000)


def _differences(path: Path, text: str, data: str) -> Iterator[str]:
    old, new = whole_text(path).splitlines(), text.splitlines()
    (was_data, old), (is_data, new) = map(_parts, (old, new))
    # Earlier versions have not noted it.
    if was_data and was_data != is_data:
        yield f"{data}: must be the data that {path.parent} was begun with, but has changed since; choose another SAVE"
    if old != new:
        was, now = (", ".join(sorted({*one} - {*other})) or "nothing" for one, other in ((old, new), (new, old)))
        yield f"{path}: must have what the stage was begun with ({was}), but now has {now}; choose another SAVE"


def _parts(lines: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the line of the data, and all others."""
    data = [line for line in lines if line.startswith(DATA)]
    return data, [line for line in lines if line not in data]
