"""Iterative back-translation and distillation: which command comes next.

    back    (Hoang 2018, W18-2703) each direction's model translates the monolingual text that the other one is trained
            on next, in turn; round 0 has the real pairs alone
    distil  an ensemble of students is the teacher of the next round's students

A round whose gain on validation is below the limit is the last. What has been done shows in the folders alone: the next
command is the first whose result is missing.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Optional

from deepnmt.synthetic.round_recipe import BACK, DISTIL, RoundRecipe
from deepnmt.text.lines import whole_text

FORWARD, REVERSE = DIRECTIONS = ("forward", "reverse")
MODEL, PAIRS, MIXED, VALID = "model.pt", "pairs", "data", "valid"


class Step(NamedTuple):
    """One command.

    Attributes:
        round: that it belongs to, from 0
        result: file that is there when the command has been done
        command: a subcommand of deepnmt, and its arguments
        mark: whether the result has to be made when the command has ended well
    """

    round: int
    result: Path
    command: tuple[str, ...]
    mark: bool = False


@dataclass(frozen=True)
class Rounds(RoundRecipe):
    """A recipe, and what its folder says has been done."""

    def next_step(self) -> Optional[Step]:
        """Return the first command whose result is missing; None where all is done."""
        for number in range(self.rounds + 1):
            for step in self.steps(number):
                if not step.result.exists():
                    return step
            gain = self.gain(number)
            if gain is not None and gain < self.min_gain:
                return None
        return None

    def finished(self) -> list[int]:
        """Return the rounds that are done, up to the last one."""
        step = self.next_step()
        if step is not None:
            return list(range(step.round))
        done: list[int] = []
        for number in range(self.rounds + 1):
            done.append(number)
            gain = self.gain(number)
            if gain is not None and gain < self.min_gain:
                break
        return done

    def scores(self, number: int) -> dict[str, float]:
        """Return the BLEU on validation of a round that is done, by direction, or of the ensemble."""
        folders = {direction: self.folder(number) / direction for direction in DIRECTIONS}
        if self.kind == DISTIL:
            folders = {"ensemble": self.folder(number)}
        return {name: _bleu(folder / VALID / "scores.json") for name, folder in folders.items()}

    def gain(self, number: int) -> Optional[float]:
        """Return the greatest gain of a round over the one before, of those that it scores; None for the first."""
        if number == 0:
            return None
        before = self.scores(number - 1)
        return max(round(score - before[name], 2) for name, score in self.scores(number).items())

    def folder(self, number: int) -> Path:
        """Return the folder of a round."""
        return self.save / f"round-{number}"

    def steps(self, number: int) -> Iterator[Step]:
        """Yield the commands of a round in their order."""
        yield from self._back(number) if self.kind == BACK else self._distil(number)

    def _back(self, number: int) -> Iterator[Step]:
        for direction in DIRECTIONS:
            folder = self.folder(number) / direction
            reverse = ("--reverse",) if direction == REVERSE else ()
            data = self.data
            if number:
                # In turn: what the forward model has gained, the reverse model of the same round has the use of.
                other = self.folder(number - 1) / REVERSE if direction == FORWARD else self.folder(number) / FORWARD
                mono = self.mono_target if direction == FORWARD else self.mono_source
                pairs, data = folder / PAIRS, folder / MIXED
                command = ("synthesise", BACK, other / MODEL, self.data, mono, pairs, *self.synthesis, *reverse)
                yield self._made(number, pairs, *command)
                mix = ("mix", data, self.data, pairs, "--upsample", self.upsample)
                yield self._made(number, data, *mix)
            yield from self._model(number, folder, data, bool(reverse), self.options)
            yield from self._scored(number, folder, str(folder / MODEL), reverse)

    def _distil(self, number: int) -> Iterator[Step]:
        folder = self.folder(number)
        students = [folder / f"student-{student}" for student in range(1, self.students + 1)]
        if number == 0 and self.teacher:
            yield from self._scored(number, folder, self.teacher, ())
            return
        data = self.data
        if number:
            data = folder / PAIRS
            teacher = self._ensemble(number - 1)
            yield self._made(number, data, "synthesise", DISTIL, teacher, self.data, data, *self.synthesis)
        for seed, student in enumerate(students, start=1):
            yield from self._model(number, student, data, False, (*self.options, "--seed", str(seed)))
        yield from self._scored(number, folder, self._ensemble(number), ())

    def _ensemble(self, number: int) -> str:
        if number == 0 and self.teacher:
            return self.teacher
        folders = (self.folder(number) / f"student-{student}" for student in range(1, self.students + 1))
        return ":".join(str(folder / MODEL) for folder in folders)

    def _model(
        self, number: int, folder: Path, data: Path, reverse: bool, options: tuple[str, ...]
    ) -> Iterator[Step]:  # fmt: skip
        languages: tuple[str, ...] = ()
        if reverse:
            settings = json.loads(whole_text(self.data / "preprocess.json"))
            languages = ("--source-lang", settings["target_lang"], "--target-lang", settings["source_lang"])
        train = ("train", str(self.train), str(data), str(folder), *options, *languages)
        yield Step(number, folder / "trained", train, mark=True)
        # A short training may have fewer; at least the last one is there.
        found = [*folder.glob("checkpoint[0-9]*.pt"), *folder.glob("checkpoint_[0-9]*.pt")]
        last = max(1, min(len(found), self.average))
        average = ("average", str(folder), str(folder / MODEL), "--last", str(last))
        yield Step(number, folder / MODEL, average)

    def _scored(self, number: int, folder: Path, models: str, reverse: tuple[str, ...]) -> Iterator[Step]:
        valid = folder / VALID
        generate = ("generate", models, str(self.data), str(valid), "--subset", "valid", *reverse, *self.translate)
        yield Step(number, valid / "generate.json", generate)
        yield Step(number, valid / "scores.json", ("score", str(valid)))

    def _made(self, number: int, folder: Path, *command: object) -> Step:
        return Step(number, folder / "preprocess.json", tuple(map(str, command)))


def _bleu(path: Path) -> float:
    scores = json.loads(whole_text(path))
    return float(scores.get("BLEU", scores["tokenised BLEU"])["score"])
