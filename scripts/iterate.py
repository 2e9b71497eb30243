"""The steps of iterate.sh.

commands:
  iterate.py check RECIPE [--KEY VALUE...]   check recipe and folders; begin the folder of the rounds; print its name
  iterate.py next RECIPE [--KEY VALUE...]    print the next command, its words between NULs; nothing when all is done
  iterate.py table RECIPE [--KEY VALUE...]   write and print the table of the rounds
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import synthesise

from deepnmt import console
from deepnmt.errors import UserError
from deepnmt.recipe import checksum as recipe_checksum
from deepnmt.recipe import read_recipe
from deepnmt.synthetic.round_recipe import BACK, DISTIL, KEYS
from deepnmt.synthetic.rounds import Rounds
from deepnmt.text.dictionary import read_types
from deepnmt.text.like_folder import check_like, check_same_subwords
from deepnmt.text.record import read_record, sha256
from deepnmt.text.settings import RECORD, TextSettings

BEGUN = "rounds.json"
CONTENT = "content of "


def read_rounds(words: Sequence[str]) -> Rounds:
    """Return the rounds of a recipe and of the command line's keys, which win."""
    parser = console.Parser("iterate.sh", "", "")
    parser.add_argument("recipe", type=Path)
    for key in KEYS:
        if key != "kind":
            parser.add_argument(f"--{key}", dest=key)
    given = vars(parser.parse_args(joined(words)))
    path = given.pop("recipe")
    return Rounds.read(path, read_recipe(path), {key: value for key, value in given.items() if value is not None})


def joined(words: Sequence[str]) -> list[str]:
    """Return a command line with keys and values that are options in one word, as argparse wants a lone option."""
    result: list[str] = []
    for word in words:
        if result and result[-1] in ("--options", "--translate", "--synthesis"):
            result[-1] += f"={word}"
        else:
            result.append(word)
    return result


def check(rounds: Rounds) -> None:
    """Check the folders before anything is trained, and see that those of the rounds are of the same recipe.

    Raises:
        UserError: with what is wrong
    """
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
    check_synthesis(rounds)
    begun = rounds.save / BEGUN
    now = rounds.identity() | contents(rounds)
    if begun.exists():
        before = read_record(begun)
        for key in sorted(before.keys() | now.keys()):
            if key.startswith(CONTENT):
                # Earlier versions have not noted it.
                if before.get(key, now[key]) != now[key]:
                    name = key[len(CONTENT) :]
                    raise UserError(
                        f"{rounds.save} was begun with another {name} than {getattr(rounds, name.replace('-', '_'))} "
                        "is now; choose another --save"
                    )
            elif before.get(key) != now.get(key):
                name = key.replace("_", "-")
                raise UserError(
                    f"{rounds.save} was begun with {name} {before.get(key)}, not {now.get(key)}; choose another --save"
                )
    rounds.save.mkdir(parents=True, exist_ok=True)
    with console.whole_file(begun) as temporary:
        temporary.write_text(json.dumps(now, indent=2) + "\n", encoding="utf-8")


def contents(rounds: Rounds) -> dict[str, str]:
    """Return checksums of what the recipe names: it may be made anew under the same name."""
    found = {"train": recipe_checksum(read_recipe(rounds.train))}
    folders = {"data": rounds.data, "mono-source": rounds.mono_source, "mono-target": rounds.mono_target}
    found |= {name: sha256(folder / RECORD) for name, folder in folders.items() if folder is not None}
    if rounds.teacher:
        found["teacher"] = ":".join(sha256(Path(path)) for path in rounds.teacher.split(":") if path)
    return {f"{CONTENT}{name}": checksum for name, checksum in found.items()}


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


def check_synthesis(rounds: Rounds) -> None:
    """Raise `UserError` for what synthesise.sh would refuse, which need not wait until there are models."""
    models, data = "models", str(rounds.data)
    commands = [[DISTIL, models, data]]
    if rounds.kind == BACK:
        commands = [[BACK, models, data, str(rounds.mono_target)]]
        commands.append([BACK, models, data, str(rounds.mono_source), "--reverse"])
    for command in commands:
        try:
            job = synthesise.parse_job([*command, *rounds.synthesis])
            replace(job, checkpoints=()).check()
        except UserError as error:
            raise UserError(*(f"synthesis: {fault}" for fault in str(error).splitlines())) from None


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


def main() -> None:
    """Do what the command line says."""
    command, *words = sys.argv[1:] or ["--help"]
    if command not in ("check", "next", "table"):
        print(__doc__)
        return
    rounds = read_rounds(words)
    if command == "check":
        check(rounds)
        print(rounds.save)
    elif command == "next":
        step = rounds.next_step()
        if step is not None:
            print(f"round {step.round} of {rounds.rounds} at most", file=sys.stderr)
            sys.stdout.write("\0".join([str(step.result) if step.mark else "", *step.command, ""]))
    else:
        text = table(rounds)
        with console.whole_file(rounds.save / "rounds.tsv") as temporary:
            temporary.write_text(text, encoding="utf-8")
        print(text, end="")


if __name__ == "__main__":
    console.run(main)
