"""Run what has not been run yet: searches, reranking, recombination. Each leaves a folder of translations."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deepnmt.errors import UserError
from techniques.plan import Models, Search, Technique, lists, model_options, samples

ROOT = Path(__file__).resolve().parents[3]
SECONDS = re.compile(r"Translated [\d,]+ sentences .* in ([\d.]+)s")
VALID, TEST = "valid", "test"


@dataclass
class Row:
    """A technique's result: what was chosen, and its folders by subset, with the seconds that each took."""

    name: str
    setting: str
    folders: dict[str, Path]
    seconds: dict[str, float]


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

    def search(self, search: Search, subset: str) -> Path:
        """Return the folder of a search's translations."""
        folder = self.out / "searches" / search.name / subset
        if not (folder / "scores.json").exists():
            script = ROOT / "scripts" / "generate.sh"
            run(script, search.path, self.data, folder, "--subset", subset, *search.options)
            run(ROOT / "scripts" / "score.sh", folder)
        return folder

    def technique(self, technique: Technique) -> Row:
        """Return the row of a technique that is a search."""
        found = {search: self.search(search, VALID) for search in technique.searches}
        # max takes the first of equal ones, and validation alone is asked.
        best = max(found, key=lambda search: self.scores(found[search])["BLEU"])
        folders = {VALID: found[best], TEST: self.search(best, TEST)}
        return Row(technique.name, best.name, folders, {subset: seconds(path) for subset, path in folders.items()})

    def chosen(self, name: str, program: str, sources: Sequence[Search], options: dict[str, Sequence[str]]) -> Row:
        """Return the row of a choice from n-best lists.

        Args:
            name: of the row
            program: rerank or combine
            sources: searches that make the lists
            options: of the program, by subset
        """
        row = Row(name, " ".join(options[TEST][:2]), {}, {})
        for subset in (VALID, TEST):
            made = [self.search(search, subset) for search in sources]
            folder = self.out / name.replace(" ", "-") / subset
            if not (folder / "scores.json").exists():
                # A program of this package's that need not be installed.
                command = [sys.executable, "-m", f"deepnmt.commands.{program}", "--nbest", *made, "--data", self.data]
                run(*command, *options[subset], folder)
                run(ROOT / "scripts" / "score.sh", folder)
            row.folders[subset] = folder
            own = float(json.loads((folder / f"{program}.json").read_text("utf-8"))["seconds"])
            row.seconds[subset] = own + sum(map(seconds, made))
        return row

    def rerank(self, name: str, sources: Sequence[Search], options: Sequence[str] = ()) -> Row:
        """Return the row of a reranking, tuned on validation."""
        weights = self.out / name.replace(" ", "-") / VALID / "weights.json"
        how = {VALID: ["--tune", "--oracle"], TEST: ["--weights", str(weights), "--oracle"]}
        row = self.chosen(name, "rerank", sources, {subset: [*words, *options] for subset, words in how.items()})
        row.setting = "tuned weights"
        return row

    def consensus(self, name: str, sources: Sequence[Search], *options: str) -> Row:
        """Return the row of the consensus by the similarity that is better on validation."""
        rows = []
        for metric in ("chrf", "bleu"):
            words = ["--consensus", metric, *options]
            rows.append(self.chosen(f"{name} {metric}", "rerank", sources, {VALID: words, TEST: words}))
        row = max(rows, key=lambda each: self.scores(each.folders[VALID])["BLEU"])
        return Row(name, row.setting, row.folders, row.seconds)

    def combine(self, name: str, sources: Sequence[Search]) -> Row:
        """Return the row of a recombination, with equal or tuned weights."""
        models = ["--models", self.models.ensemble()]
        paths, tuned = self.out / "combine-paths" / VALID, self.out / "combine-weights" / VALID
        made = [self.search(search, VALID) for search in sources]
        if not (paths / "combine.json").exists():
            command = [sys.executable, "-m", "deepnmt.commands.combine", "--nbest", *made, "--data", self.data]
            run(*command, *models, "--paths", "10", paths)
        if not (tuned / "rerank.json").exists():
            command = [sys.executable, "-m", "deepnmt.commands.rerank", "--nbest", paths, "--data", self.data]
            run(*command, "--tune", tuned)
        # Weights that are tuned on a list may lead a search astray: validation chooses once more.
        found = []
        for setting, weights in (("equal weights", []), ("tuned weights", ["--weights", str(tuned / "weights.json")])):
            words = [*models, *weights]
            row = self.chosen(f"{name} {setting}", "combine", sources, {VALID: words, TEST: words})
            found.append(Row(name, setting, row.folders, row.seconds))
        return max(found, key=lambda each: self.scores(each.folders[VALID])["BLEU"])

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
            found: dict[str, Any] = json.loads((folder / "scores.json").read_text("utf-8"))
            self._scores[folder] = {name: float(found[name]["score"]) for name in ("BLEU", "chrF") if name in found}
        if not self._scores[folder]:
            raise UserError(f"{folder}: must have detokenised scores, for which the data needs raw references")
        return self._scores[folder]


def seconds(folder: Path) -> float:
    """Return the seconds that fairseq-generate took for its sentences, without loading."""
    found = SECONDS.findall((folder / "generate.log").read_text("utf-8", errors="replace"))
    if not found:
        raise UserError(f"{folder / 'generate.log'}: must say how long the search took, but does not")
    return float(found[-1])


def run(*words: object) -> None:
    """Run a command, which is printed. Raises `UserError` if it fails."""
    command = [str(word) for word in words]
    print("+", shlex.join(command), file=sys.stderr, flush=True)
    done = subprocess.run(command, check=False, stdout=sys.stderr)
    if done.returncode:
        raise UserError(f"{Path(command[0]).name} failed, with the error above; run the same command again to resume")
