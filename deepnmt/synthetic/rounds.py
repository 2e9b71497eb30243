"""Iterative back-translation and distillation: the next command, and the contents of the folders before it.

    back    (Hoang 2018, W18-2703) each direction's model translates the monolingual text that the other one is trained
            on next, in turn; round 0 has the real pairs alone
    distil  an ensemble of students is the teacher of the next round's students

A round whose gain on validation is below the limit is the last. The folders alone show the finished steps: the next
command is the first whose result is missing.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Optional

from deepnmt import console
from deepnmt.errors import UserError
from deepnmt.jobs.in_place import InPlace
from deepnmt.recipe import checksum as recipe_checksum
from deepnmt.recipe import read_recipe
from deepnmt.synthetic.round_recipe import BACK, DISTIL, RoundRecipe
from deepnmt.text.dictionary import read_types
from deepnmt.text.like_folder import check_like, check_same_subwords
from deepnmt.text.lines import whole_text
from deepnmt.text.record import read_record, sha256
from deepnmt.text.settings import RECORD, TextSettings

FORWARD, REVERSE = DIRECTIONS = ("forward", "reverse")
MODEL, PAIRS, MIXED, VALID = "model.pt", "pairs", "data", "valid"


class Step(NamedTuple):
    """One command.

    Attributes:
        round: its round, from 0
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
    """A recipe, and the finished steps in its folder."""

    def _numbers(self) -> Iterator[int]:
        """Yield the rounds up to the first that gains too little; the next one is asked for when a round is done."""
        for number in range(self.rounds + 1):
            yield number
            gain = self.gain(number)
            if gain is not None and gain < self.min_gain:
                return

    def next_step(self) -> Optional[Step]:
        """Return the first command whose result is missing; None where all is done."""
        steps = (step for number in self._numbers() for step in self.steps(number))
        return next((step for step in steps if not step.result.exists()), None)

    def finished(self) -> list[int]:
        """Return the rounds that are done, up to the last one."""
        step = self.next_step()
        return list(self._numbers() if step is None else range(step.round))

    def scores(self, number: int) -> dict[str, float]:
        """Return the BLEU on validation of a round that is done, by direction, or of the ensemble."""
        folders = {direction: self.folder(number) / direction for direction in DIRECTIONS}
        if self.kind == DISTIL:
            folders = {"ensemble": self.folder(number)}
        return {name: _bleu(folder / VALID / "scores.json") for name, folder in folders.items()}

    def gain(self, number: int) -> Optional[float]:
        """Return the greatest gain among a round's scores over the round before; None for the first."""
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
                # In turn: the reverse model of the same round benefits from the forward model's gain.
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


BEGUN = "rounds.json"


def check_places(rounds: Rounds) -> None:
    """Raise `UserError` for a folder or file of the recipe that is missing, or of another kind."""
    settings = check_like(rounds.data)
    if any(sign in str(rounds.save) for sign in ":,"):
        raise UserError(f"save must be without a colon or a comma, which stand between models, but is {rounds.save}")
    if not rounds.train.is_file():
        raise UserError(f"train must be a recipe, but there is no {rounds.train}")
    for teacher in filter(None, rounds.teacher.split(":")):
        if not Path(teacher).is_file():
            raise UserError(f"teacher must be checkpoints with colons between them, but there is no {teacher}")
    monos = {settings.source_lang: rounds.mono_source, settings.target_lang: rounds.mono_target}
    for language, mono in monos.items():
        if mono is not None:
            check_mono(mono, language, rounds.data)


def job_of(rounds: Rounds) -> InPlace:
    """Return the job of the rounds."""
    made_with = rounds.identity() | contents(rounds)
    return InPlace(console.program("iterate"), rounds.save, BEGUN, made_with, "--save")


def contents(rounds: Rounds) -> dict[str, str]:
    """Return checksums of the files that the recipe names: they may be made anew under the same names."""
    found = {"train": recipe_checksum(read_recipe(rounds.train))}
    folders = {"data": rounds.data, "mono-source": rounds.mono_source, "mono-target": rounds.mono_target}
    found |= {name: sha256(folder / RECORD) for name, folder in folders.items() if folder is not None}
    if rounds.teacher:
        found["teacher"] = ":".join(sha256(Path(path)) for path in rounds.teacher.split(":") if path)
    return {f"content of {name}": checksum for name, checksum in found.items()}


def check_mono(mono: Path, language: str, data: Path) -> None:
    """Raise `UserError` if a folder is not text of a language with the models' dictionaries."""
    found = read_record(mono / "preprocess.json").get("mono")
    if found != language:
        must = f"text of {language} made by deepnmt binarise --mono"
        raise UserError(f"{mono}: must be {must}, but is {found or 'another'}")
    check_same_subwords(mono, data, f"deepnmt binarise --like {data}")
    for name in TextSettings.read(data).languages:
        own, types = (read_types(folder / f"dict.{name}.txt") for folder in (mono, data))
        if own != types:
            raise UserError(
                f"{mono / f'dict.{name}.txt'}: must have the types of {data} and no more, but has {own[len(types)]}; "
                f"make {data} with the same --symbols"
            )


def table(rounds: Rounds) -> str:
    """Return a line for each round that is done, with tabs: its scores and its gain."""
    lines: list[str] = []
    for number in rounds.finished():
        scores, gain = rounds.scores(number), rounds.gain(number)
        if not lines:
            lines.append("\t".join(["round", *scores, "gain"]))
        columns = [str(number), *(f"{score:.2f}" for score in scores.values()), "" if gain is None else f"{gain:.2f}"]
        lines.append("\t".join(columns))
    return "".join(line + "\n" for line in lines)
