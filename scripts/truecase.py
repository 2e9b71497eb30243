"""True case for tokenised text.

commands:
  truecase.py learn TEXT MODEL                 count the forms of words
  truecase.py apply MODEL TEXT OUT             give the first words of sentences their commonest form
  truecase.py undo TEXT OUT                    begin sentences with a capital

OUT may be TEXT. With --lang, all follow the rules of a language.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import workers

from deepnmt import console
from deepnmt.errors import UserError
from deepnmt.text.in_order import cores
from deepnmt.text.lines import count_lines, read_lines
from deepnmt.text.pipeline import whole_units
from deepnmt.text.settings import TextSettings
from deepnmt.text.truecase import Truecaser, learn, sentence_case


def rewrite(make: Callable[[], Callable[[str], str]], text: Path, output: Path, processes: int) -> None:
    """Write what a function makes of each line of a text. Raises `UserError` if a line is not UTF-8."""
    total = count_lines(text)
    with (
        console.whole_file(output) as temporary,
        temporary.open("w", encoding="utf-8", newline="\n") as file,
        console.progress(total, f"casing {text.name}", " lines") as bar,
    ):
        lines = (line.removesuffix("\n") for line in read_lines(text))
        for line in workers.map_in_order(make, lines, min(processes, 1 + total // workers.BATCH)):
            file.write(line + "\n")
            bar.update()


def undo(language: str) -> Callable[[str], str]:
    """Return the way back."""
    return partial(sentence_case, language=language)


def main() -> None:
    """Do what the command line says."""
    parser = console.Parser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    places = {"learn": ("text", "model"), "apply": ("model", "text", "output"), "undo": ("text", "output")}
    for name in places:
        command = commands.add_parser(name)
        for place in places[name]:
            command.add_argument(place, type=Path)
        if name == "apply":
            command.add_argument("--like", type=Path, metavar="DATA", help="leave the units of this data folder")
        command.add_argument("--lang", default="", metavar="LANG", help="language by whose rules (default: no one's)")
        command.add_argument("--workers", type=int, default=cores(), metavar="N", help="processes")
    given = parser.parse_args()
    if given.command == "learn":
        if os.path.realpath(given.model) == os.path.realpath(given.text):
            raise UserError(f"MODEL must be another file than TEXT, but is {given.model}")
        print(f"{learn(given.text, given.model, given.lang)} words in {given.model}", file=sys.stderr)
    elif given.command == "apply":
        settings = TextSettings.read(given.like) if given.like else None
        units = whole_units(settings) if settings else ()
        language = settings.case_language(given.lang) if settings else given.lang
        rewrite(partial(Truecaser, given.model, units, language), given.text, given.output, given.workers)
    else:
        rewrite(partial(undo, given.lang), given.text, given.output, given.workers)


if __name__ == "__main__":
    console.run(main)
