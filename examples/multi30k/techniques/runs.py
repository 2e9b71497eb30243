"""Run what has not been run yet: searches, reranking, recombination. Each leaves a folder of translations."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from deepnmt.errors import UserError
from deepnmt.text.lines import whole_text
from techniques.commands import ROOT, run
from techniques.plan import Models, Search, Technique, lists, model_options, samples

T = TypeVar("T")
PROGRAMS = ("combine", "rerank")
SECONDS = re.compile(r"Translated [\d,]+ sentences .* in ([\d.]+)s")
VALID, TEST = "valid", "test"


@dataclass
class Row:
    """A technique's result.

    Attributes:
        name: of the technique
        setting: that was chosen
        folders: of the setting's translations, by subset
        seconds: that each took
        tried: folders of all settings' translations of the validation set
    """

    name: str
    setting: str
    folders: dict[str, Path]
    seconds: dict[str, float]
    tried: dict[str, Path] = field(default_factory=dict)


@dataclass(frozen=True)
class Choice:
    """A choice from n-best lists.

    Attributes:
        name: of its folder
        program: of `PROGRAMS`
        sources: searches that make the lists
        options: of the program, by subset
    """

    name: str
    program: str
    sources: tuple[Search, ...]
    options: Mapping[str, Sequence[str]]


@dataclass
class Runs:
    """Commands whose results are kept in a folder.

    Args:
        data: the data folder
        out: the folder
        models: checkpoints
    """

    data: Path
    out: Path
    models: Models
    _scores: dict[Path, dict[str, float]] = field(default_factory=dict)
    _sources: dict[Path, list[Path]] = field(default_factory=dict)

    def search(self, search: Search, subset: str) -> Path:
        """Return the folder of a search's translations."""
        folder = self.out / "searches" / search.name / subset
        if not (folder / "scores.json").exists():
            listed = ["--nbest", search.listed] if subset == VALID and search.listed else []
            script = ROOT / "scripts" / "generate.sh"
            run(script, search.path, self.data, folder, "--subset", subset, *search.options, *listed)
            run(ROOT / "scripts" / "score.sh", folder)
        return folder

    def technique(self, technique: Technique) -> Row:
        """Return the row of a technique that is a search."""
        return self.best_row(technique.name, {search.name: search for search in technique.searches}, self.search)

    def best_row(self, name: str, settings: Mapping[str, T], result: Callable[[T, str], Path]) -> Row:
        """Return the row of the best of some settings: validation alone is asked, and the test set sees the best alone.

        Args:
            name: of the row
            settings: by what they are called
            result: makes the scored folder of a setting and a subset, unless it is there
        """
        found = {setting: result(each, VALID) for setting, each in settings.items()}
        # max takes the first of equal ones.
        best = max(found, key=lambda setting: self.scores(found[setting])["BLEU"])
        folders = {VALID: found[best], TEST: result(settings[best], TEST)}
        return Row(name, best, folders, {subset: self.seconds(path) for subset, path in folders.items()}, found)

    def made(self, choice: Choice, subset: str) -> Path:
        """Return the folder of a choice from n-best lists."""
        folder = self.out / choice.name.replace(" ", "-") / subset
        sources = [self.search(search, subset) for search in choice.sources]
        self._sources[folder] = sources
        if not (folder / "scores.json").exists():
            if not (folder / f"{choice.program}.json").exists():
                # The work of a command that was killed would not be in the seconds.
                shutil.rmtree(folder, ignore_errors=True)
                # A program of this package's that need not be installed.
                command = [sys.executable, "-m", "deepnmt", choice.program, "--nbest", *sources]
                run(*command, "--data", self.data, *choice.options[subset], folder)
            run(ROOT / "scripts" / "score.sh", folder)
        return folder

    def seconds(self, folder: Path) -> float:
        """Return the seconds that a result took, without loading, with those of the searches that it chose from."""
        if folder not in self._sources:
            return seconds(folder)
        record = next(folder / f"{program}.json" for program in PROGRAMS if (folder / f"{program}.json").exists())
        own = float(json.loads(whole_text(record))["seconds"])
        return own + sum(map(seconds, self._sources[folder]))

    def rerank(self, name: str, sources: Sequence[Search], options: Sequence[str] = ()) -> Row:
        """Return the row of a reranking, tuned on validation, where the best possible choice is reported, too."""
        weights = self.out / name.replace(" ", "-") / VALID / "weights.json"
        how = {VALID: ["--tune", "--oracle", *options], TEST: ["--weights", str(weights), *options]}
        return self.best_row(name, {"tuned weights": Choice(name, "rerank", tuple(sources), how)}, self.made)

    def consensus(self, name: str, sources: Sequence[Search], *options: str) -> Row:
        """Return the row of the consensus by the similarity that is better on validation."""
        choices = {}
        for metric in ("chrf", "bleu"):
            words = ["--consensus", metric, *options]
            choices[metric] = Choice(f"{name} {metric}", "rerank", tuple(sources), {VALID: words, TEST: words})
        return self.best_row(name, choices, self.made)

    def combine(self, name: str, sources: Sequence[Search]) -> Row:
        """Return the row of a recombination, with equal or tuned weights."""
        models = ["--models", self.models.ensemble()]
        paths, tuned = self.out / "combine-paths" / VALID, self.out / "combine-weights" / VALID
        made = [self.search(search, VALID) for search in sources]
        if not (paths / "combine.json").exists():
            command = [sys.executable, "-m", "deepnmt", "combine", "--nbest", *made, "--data", self.data]
            run(*command, *models, "--paths", "10", paths)
        if not (tuned / "rerank.json").exists():
            command = [sys.executable, "-m", "deepnmt", "rerank", "--nbest", paths, "--data", self.data]
            run(*command, "--tune", tuned)
        # Weights that are tuned on a list may lead a search astray: validation chooses once more.
        choices = {}
        for setting, weights in (("equal weights", []), ("tuned weights", ["--weights", str(tuned / "weights.json")])):
            words = [*models, *weights]
            options = {VALID: words, TEST: words}
            choices[setting] = Choice(f"{name} {setting}", "combine", tuple(sources), options)
        return self.best_row(name, choices, self.made)

    def choices(self) -> list[Row]:
        """Return the rows of choices among translations."""
        own, every = lists(self.models)[:1], lists(self.models)
        rows = [self.rerank("rerank own list", own), self.consensus("consensus", own)]
        rows.append(self.rerank("rerank by all", every, model_options(self.models)))
        if len(every) > 1:
            rows.append(self.consensus("consensus of all", every))
        sampled = [samples(self.models)]
        rows.append(self.consensus("consensus of samples", sampled, "--posterior", "share"))
        rows.append(self.combine("combine", every))
        return rows

    def scores(self, folder: Path) -> dict[str, float]:
        """Return BLEU and chrF of a folder that has been scored."""
        if folder not in self._scores:
            found: dict[str, Any] = json.loads(whole_text(folder / "scores.json"))
            self._scores[folder] = {name: float(found[name]["score"]) for name in ("BLEU", "chrF") if name in found}
        if not self._scores[folder]:
            raise UserError(f"{folder}: must have detokenised scores, for which the data needs raw references")
        return self._scores[folder]


def seconds(folder: Path) -> float:
    """Return the seconds that fairseq-generate took for its sentences, without loading."""
    found = SECONDS.findall(whole_text(folder / "generate.log", errors="replace"))
    if not found:
        raise UserError(f"{folder / 'generate.log'}: must say how long the search took, but does not")
    return float(found[-1])
