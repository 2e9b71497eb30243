"""The units of preprocess.sh: tags in the place of numbers and addresses.

command:
  tag_units.py tag FOLDER SPLIT OUT [--train]    write OUT.LANG, text/SPLIT.tok.LANG of FOLDER with tags
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from deepnmt import console
from deepnmt.errors import UserError
from deepnmt.text.lines import read_lines
from deepnmt.text.placeholders import TAGS, Placeholders, first_tag, parse_kinds
from deepnmt.text.settings import TextSettings


def tag(folder: Path, split: str, output: Path, training: bool) -> None:
    """Write both sides of a split with tags.

    Args:
        folder: of the data, with its record
        split: its name
        output: prefix of the files to write
        training: tag the source as its target, and not all its units, as when translating

    Raises:
        UserError: a tag occurs in the text
    """
    settings = TextSettings.read(folder)
    kinds = parse_kinds(settings.placeholders)
    placeholders, tags = Placeholders(kinds), [TAGS[kind] for kind in kinds]
    texts = [folder / "text" / f"{split}.tok.{language}" for language in settings.languages]
    lowers = [settings.lower(each) for each in settings.languages]
    with ExitStack() as stack:
        paths = [stack.enter_context(console.whole_file(Path(f"{output}.{each}"))) for each in settings.languages]
        files = [stack.enter_context(path.open("w", encoding="utf-8", newline="\n")) for path in paths]
        for number, lines in enumerate(zip(*map(read_lines, texts)), start=1):
            for text, line in zip(texts, lines):
                if found := first_tag(line, tags):
                    raise UserError(
                        f"{text.name}:{number}: must not have the tag {found}, which --placeholders uses, but does"
                    )
            source, target = lines
            tagged = placeholders.tagged_pair(source, target)
            both = tagged if training else (placeholders.tagged(source), tagged[1])
            for file, side, lower in zip(files, both, lowers):
                # Addresses without a tag, which keep their case until now, are words like others.
                file.write((lower(side) if settings.lowercase else side) + "\n")


def main() -> None:
    """Do what the command line says."""
    parser = console.Parser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("tag")
    command.add_argument("folder", type=Path)
    command.add_argument("split")
    command.add_argument("output", type=Path, metavar="OUT")
    command.add_argument("--train", action="store_true")
    arguments = parser.parse_args()
    tag(arguments.folder, arguments.split, arguments.output, arguments.train)


if __name__ == "__main__":
    console.run(main)
