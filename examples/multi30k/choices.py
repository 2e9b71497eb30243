"""What best.sh notes of its results, chooses by validation, and compares.

A result is a folder with chosen.json: models, data, beam and length penalty, and BLEU on validation.

commands:
  choices.py swept FOLDER DATA                                  the best setting of sweep.sh is a result
  choices.py note FOLDER MODELS DATA BEAM LENPEN TRANSLATIONS   a search of the validation set is a result
  choices.py choose FOLDER                                      the best of the results in FOLDER is FOLDER's
  choices.py best WHAT FOLDER...                                print a field of the best of these
  choices.py systems FOLDER                                     print the results in FOLDER, the control first
  choices.py settings FOLDER                                    print the fields of a result, a line each
  choices.py table FOLDER OUT.tsv                               compare the test scores of FOLDER's results
  choices.py digest RECIPE                                      print what differs when the recipe says something else
  choices.py turn CHECKPOINT LANG OUT.pt                        take a model of both directions for one from LANG
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from deepnmt import console
from deepnmt.errors import UserError
from deepnmt.recipe import checksum, read_recipe
from deepnmt.text.record import read_record, write_record
from deepnmt.text.translated_folder import lines_of

CHOSEN, CONTROL = "chosen.json", "control-1"
TOKENISED = "tokenised BLEU"
SAMPLES = 1000
HEADER = ["system", "beam", "lenpen", "validation", TOKENISED, "+-", "difference", "p"]
HEADER += ["BLEU", "difference", "p", "chrF", "difference", "p"]


class Choice(NamedTuple):
    """A result: what translates, how, and how well on validation."""

    checkpoint: str
    data: str
    beam: int
    lenpen: float
    valid: float

    @classmethod
    def read(cls, folder: Path) -> Choice:
        """Return the result of a folder. Raises `UserError` if there is none."""
        path = folder / CHOSEN
        if not path.is_file():
            raise UserError(f"{folder}: must have a {CHOSEN}, but has none; run the stage before this one")
        found = read_record(path, checkpoint=str, data=str, beam=int)
        return cls(**{name: found[name] for name in cls._fields})

    def write(self, folder: Path) -> None:
        """Make this the result of a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        with console.whole_file(folder / CHOSEN) as temporary:
            write_record(temporary, self._asdict())


def best(folders: Sequence[Path]) -> Choice:
    """Return the best result by validation, the first of equal ones. Raises `UserError` if there is none."""
    if not folders:
        raise UserError("there must be results to choose from, but there are none; run the stage before this one")
    # max takes the first of equal ones.
    return max(map(Choice.read, folders), key=lambda choice: choice.valid)


def results(folder: Path) -> list[Path]:
    """Return the results in a folder by name, the control first."""
    found = sorted(path.parent for path in folder.glob(f"*/{CHOSEN}"))
    return sorted(found, key=lambda path: path.name != CONTROL)


def swept(folder: Path, data: Path) -> None:
    """Note the best setting of sweep.sh in a folder as its result."""
    record = read_record(folder / "best.json", checkpoint=str)
    checkpoint = str((folder / record["checkpoint"]).resolve())
    Choice(checkpoint, str(data), record["beam"], record["lenpen"], record[TOKENISED]).write(folder)


def score_of(folder: Path, name: str = TOKENISED) -> float:
    """Return a score of a folder of translations."""
    return float(read_record(folder / "scores.json")[name]["score"])


def texts(folder: Path, kind: str) -> list[str]:
    """Return the lines of a folder's translations or references: kind is hyp, ref, hyp.tok or ref.tok."""
    language = read_record(folder / "generate.json", target_lang=str)["target_lang"]
    return lines_of(folder / f"{kind}.{language}")


def compared(folders: Sequence[Path]) -> list[list[str]]:
    """Return the scores of test folders, with differences from the first's and their p values (paired bootstrap)."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.significance import PairedTest

    from deepnmt.text.languages import bleu_tokenizer
    from deepnmt.text.token_bleu import TokenBleu

    record = read_record(folders[0] / "generate.json", lowercase=bool, target_lang=str)
    language, lowercase = record["target_lang"], record["lowercase"]
    tokenised = {"BLEU": TokenBleu(language, smooth_method="none")}
    bleu = BLEU(lowercase=lowercase, tokenize=bleu_tokenizer(language))
    detokenised = {"BLEU": bleu, "chrF2": CHRF(lowercase=lowercase)}
    fields: list[list[str]] = [[] for _ in folders]
    for end, metrics in ((".tok", tokenised), ("", detokenised)):
        references = [texts(folder, f"ref{end}") for folder in folders]
        if any(each != references[0] for each in references):
            raise UserError("the systems must have translated the same test set, but have not")
        systems: list[tuple[str, Sequence[str]]] = [
            (str(number), texts(folder, f"hyp{end}")) for number, folder in enumerate(folders)
        ]
        if len(systems) == 1:
            # sacrebleu compares two at least.
            systems.append(("again", systems[0][1]))
        found: Any = PairedTest(systems, metrics, [references[0]], test_type="bs", n_samples=SAMPLES)()[1]
        for name in metrics:
            for number, row in enumerate(fields):
                result, first = found[name][number], found[name][0]
                row.append(f"{result.score:.2f}")
                if end:
                    row.append(f"{result.ci:.2f}")
                same = systems[number][1] == systems[0][1]
                p = "" if number == 0 else "1.000" if same else f"{result.p_value:.3f}"
                row += ["" if number == 0 else f"{result.score - first.score:+.2f}", p]
    return fields


def table(folder: Path, output: Path) -> None:
    """Write and print the table of a folder's results; members that differ by their seeds alone have a mean, too."""
    found = [path for path in results(folder) if (path / "test" / "scores.json").is_file()]
    if not found:
        raise UserError(f"{folder}: must have scores of the test set, but has none")
    lines, scores = [HEADER], compared([path / "test" for path in found])
    members: dict[str, list[list[float]]] = {}
    for path, row in zip(found, scores):
        choice = Choice.read(path)
        lines.append([path.name, str(choice.beam), f"{choice.lenpen:g}", f"{choice.valid:.2f}", *row])
        recipe, _, seed = path.name.rpartition("-")
        # The number of an ensemble is that of its generation.
        if seed.isdecimal() and not recipe.endswith("ensemble"):
            members.setdefault(recipe, []).append([choice.valid, *(float(row[column]) for column in (0, 4, 7))])
    for recipe, values in members.items():
        if len(values) > 1:
            valid, tokenised, bleu, chrf = (f"{statistics.mean(column):.2f}" for column in zip(*values))
            spread = f"{statistics.stdev(value[1] for value in values):.2f}"
            name = f"{recipe}, mean of {len(values)} (+-: of seeds)"
            lines.append([name, "", "", valid, tokenised, spread, "", "", bleu, "", "", chrf, "", ""])
    text = "".join("\t".join(line) + "\n" for line in lines)
    with console.whole_file(output) as temporary:
        temporary.write_text(text, encoding="utf-8")
    widths = [max(map(len, column)) for column in zip(*lines)]
    for line in lines:
        print("  ".join(value.ljust(width) for value, width in zip(line, widths)).rstrip())


def turn(checkpoint: Path, source: str, output: Path) -> None:
    """Write a checkpoint that translates both ways as one that translates from a language."""
    # torch takes a second to import, which the other commands need not wait for.
    from deepnmt.checkpoints.file import read, write

    contents = read(checkpoint)
    task = contents["cfg"]["task"]
    if task["source_lang"] != source:
        task["source_lang"], task["target_lang"] = source, task["source_lang"]
    write(contents, output)


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    places: dict[str, tuple[str, ...]] = {
        "swept": ("folder", "data"),
        "note": ("folder", "models", "data", "beam", "lenpen", "translations"),
        "choose": ("folder",),
        "systems": ("folder",),
        "settings": ("folder",),
        "table": ("folder", "output"),
        "digest": ("recipe",),
        "turn": ("checkpoint", "source", "output"),
    }
    kinds: dict[str, Any] = {"models": str, "source": str, "beam": int, "lenpen": float}
    for name, arguments in places.items():
        command = commands.add_parser(name)
        for argument in arguments:
            command.add_argument(argument, type=kinds.get(argument, Path))
    command = commands.add_parser("best")
    command.add_argument("what", choices=[name for name in Choice._fields if name != "data"])
    command.add_argument("folders", type=Path, nargs="+")
    given = parser.parse_args()
    if given.command == "swept":
        swept(given.folder, given.data)
    elif given.command == "note":
        valid = score_of(given.translations)
        Choice(given.models, str(given.data), given.beam, given.lenpen, valid).write(given.folder)
    elif given.command == "choose":
        choice = best([path for path in results(given.folder) if path.name != "test"])
        choice.write(given.folder)
        print(f"{given.folder}: {choice.checkpoint}, beam {choice.beam}, lenpen {choice.lenpen:g}, {choice.valid:.2f}")
    elif given.command == "best":
        value = getattr(best(given.folders), given.what)
        print(f"{value:g}" if isinstance(value, float) and math.isfinite(value) else value)
    elif given.command == "systems":
        print(*results(given.folder), sep="\n")
    elif given.command == "settings":
        choice = Choice.read(given.folder)
        print(choice.checkpoint, choice.data, choice.beam, f"{choice.lenpen:g}", sep="\n")
    elif given.command == "digest":
        print(checksum(read_recipe(given.recipe))[:16])
    elif given.command == "turn":
        turn(given.checkpoint, given.source, given.output)
    else:
        table(given.folder, given.output)


if __name__ == "__main__":
    console.run(main)
