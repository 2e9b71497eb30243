"""Where a stage keeps what it makes, and the recipe that it is made from."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

import yaml

from deepnmt.console import whole_file
from deepnmt.errors import UserError
from deepnmt.progressive.stages import Stage

RECIPE, LAST, DONE = "recipe.yaml", "checkpoint_last.pt", "stage.json"


def prepare(stages: Sequence[Stage], save: Path, extra: Sequence[str]) -> None:
    """Make the folder of each stage, with its recipe for train.sh.

    Raises:
        UserError: the folder holds stages of another recipe, which are not to be mixed with this one
    """
    texts = {stage.name: recipe_text(stage, len(stages), extra) for stage in stages}
    faults = []
    for folder in sorted(path.parent for path in save.glob(f"stage-*/{RECIPE}")):
        begun = (folder / LAST).exists() or (folder / DONE).exists()
        if begun and folder.name not in texts:
            faults.append(f"{folder}: must be a stage of this recipe, but is not; choose another SAVE")
        elif begun and (folder / RECIPE).read_text(encoding="utf-8") != texts[folder.name]:
            faults.append(_difference(folder / RECIPE, texts[folder.name]))
    if faults:
        raise UserError(*faults)
    for name, text in texts.items():
        (save / name).mkdir(parents=True, exist_ok=True)
        with whole_file(save / name / RECIPE) as temporary:
            temporary.write_text(text, encoding="utf-8")


def recipe_text(stage: Stage, stages: int, extra: Sequence[str]) -> str:
    """Return the recipe of one stage: options of fairseq-train; how it grows and is scored stands in comments."""
    lines = [f"# Stage {stage.number} of {stages}; made by train_progressive.sh, which runs it"]
    growth = stage.growth
    if growth is not None:
        lines.append(f"# strategy: {growth.strategy}")
    own = {key: value for key, value in stage.own.items() if key != "strategy"}
    lines += [f"# {key}: {value}" for key, value in sorted(own.items())]
    lines += [f"# options: {shlex.join(extra)}"] if extra else []
    options = {key: option.value for key, option in stage.options.items()}
    return "\n".join(lines) + "\n" + yaml.safe_dump(options, sort_keys=False, allow_unicode=True, width=1000)


def _difference(path: Path, text: str) -> str:
    old, new = set(path.read_text(encoding="utf-8").splitlines()), set(text.splitlines())
    was, now = (", ".join(sorted(lines)) or "nothing" for lines in (old - new, new - old))
    return f"{path}: must have what the stage was begun with ({was}), but now has {now}; choose another SAVE"
