"""The folders of a recipe of rounds: what they must have before anything is trained, and what their result is."""

from pathlib import Path

from deepnmt import console
from deepnmt.errors import UserError
from deepnmt.jobs.in_place import InPlace
from deepnmt.recipe import checksum as recipe_checksum
from deepnmt.recipe import read_recipe
from deepnmt.synthetic.rounds import Rounds
from deepnmt.text.dictionary import read_types
from deepnmt.text.like_folder import check_like, check_same_subwords
from deepnmt.text.record import read_record, sha256
from deepnmt.text.settings import RECORD, TextSettings

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
    """Return checksums of what the recipe names: it may be made anew under the same name."""
    found = {"train": recipe_checksum(read_recipe(rounds.train))}
    folders = {"data": rounds.data, "mono-source": rounds.mono_source, "mono-target": rounds.mono_target}
    found |= {name: sha256(folder / RECORD) for name, folder in folders.items() if folder is not None}
    if rounds.teacher:
        found["teacher"] = ":".join(sha256(Path(path)) for path in rounds.teacher.split(":") if path)
    return {f"content of {name}": checksum for name, checksum in found.items()}


def check_mono(mono: Path, language: str, data: Path) -> None:
    """Raise `UserError` if a folder is not text of a language whose dictionaries are those that the models have."""
    found = read_record(mono / "preprocess.json").get("mono")
    if found != language:
        raise UserError(f"{mono}: must be text of {language} made by binarise.sh --mono, but is {found or 'another'}")
    check_same_subwords(mono, data, f"binarise.sh --like {data}")
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
