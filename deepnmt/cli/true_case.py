"""`deepnmt truecase`: give the first words of sentences their usual case elsewhere, or undo this."""

from collections.abc import Sequence

from deepnmt.console import Parser, add_workers, place, program
from deepnmt.text.in_order import cores

DESCRIPTION = "Give sentences' first words their usual case elsewhere, or undo this. preprocess --truecase does it all."
EPILOG = """TEXT is tokenised, a sentence per line. OUT appears only when everything is done, and may be TEXT.

example:

    deepnmt truecase learn text/train.tok.en truecase.en --lang en
    deepnmt truecase apply truecase.en text/news.tok.en text/news.true.en --lang en"""
# Arguments and summary of each command.
COMMANDS = {
    "learn": (("text", "model"), "count the forms of each word that is not the first of a sentence; MODEL is a file "
        "in Moses' format"),
    "apply": (("model", "text", "output"), "give the first word of each sentence its commonest form; other words are "
        "unchanged"),
    "undo": (("text", "output"), "begin each sentence with a capital"),
}  # fmt: skip


def main(words: Sequence[str] | None = None) -> None:
    """Learn, apply or undo true case, as a command line says."""
    given = parser().parse_args(words)
    from deepnmt.preparation.rewriting import apply_case, learn_case, undo_case

    if given.command == "learn":
        learn_case(given.text, given.model, given.lang)
    elif given.command == "apply":
        apply_case(given.model, given.text, given.output, given.lang, given.workers or cores())
    else:
        undo_case(given.text, given.output, given.lang, given.workers or cores())


def parser() -> Parser:
    """Return the parser of the command line."""
    parser = Parser(program("truecase"), DESCRIPTION, EPILOG)
    commands = parser.add_subparsers(dest="command", required=True, metavar="|".join(COMMANDS))
    for name, (places, summary) in COMMANDS.items():
        command = commands.add_parser(name, help=summary, description=summary)
        for argument in places:
            command.add_argument(argument, type=place, metavar="OUT" if argument == "output" else argument.upper())
        lang = "language whose rules apply, such as tr for ı and İ (default: no language)"
        command.add_argument("--lang", default="", metavar="LANG", help=lang)
        if name != "learn":
            add_workers(command)
    return parser
