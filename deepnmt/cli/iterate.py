"""`deepnmt iterate`: back-translation or distillation in rounds; each round's models make text for the next."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Optional

from deepnmt import cli
from deepnmt.cli import synthesise
from deepnmt.console import Parser, program, write_whole
from deepnmt.errors import UserError

if TYPE_CHECKING:
    from deepnmt.jobs.in_place import InPlace
    from deepnmt.synthetic.rounds import Rounds, Step

DESCRIPTION = """Run the rounds of a recipe, such as a recipe in configs/synthetic/. Stop after a round that gains less
than --min-gain on validation, or after N. The command can be stopped at any moment; run it again to resume.

  kind: back     Round 0 trains a model of each direction on DATA. In each further round, a model of the other direction
                 translates monolingual text of the target. A new model is then trained on DATA and these pairs.
  kind: distil   Round 0 trains several students on DATA, or takes a teacher. In each further round, their ensemble
                 translates DATA's source, and new students are trained on these translations."""
EPILOG = """The folder that `save` names gets round-N/ with checkpoints, synthetic pairs and translations of the
validation set, and rounds.tsv, a line per round.

example:
  deepnmt iterate configs/synthetic/iterative.yaml --data data/de-en --mono-source data/mono-de \\
      --mono-target data/mono-en --save checkpoints/iterative --rounds 2"""
USAGE = "%(prog)s RECIPE [--rounds N] [--min-gain G] [--KEY VALUE...]"
HELP = {
    "rounds": "maximum number of rounds after round 0 (default: the recipe's, or 3)",
    "min-gain": "least gain in BLEU for which another round follows (default: the recipe's, or 0.1)",
}
# Keys with a list of options as value, which begins with a dash.
OPTIONS = ("--options", "--translate", "--synthesis")
# Steps of this process; others keep to one thread, or are processes already.
HERE = ("synthesise", "average", "generate", "score")


def parser() -> Parser:
    """Return the parser of the command line."""
    from deepnmt.synthetic.round_recipe import KEYS

    parser = Parser(program("iterate"), DESCRIPTION, EPILOG, usage=USAGE)
    parser.add_argument("recipe", type=Path, metavar="RECIPE", help="recipe for the rounds, a YAML file")
    for key in KEYS:
        if key != "kind":
            text = HELP.get(key, "value that overrides this key of the recipe")
            parser.add_argument(f"--{key}", dest=key, metavar="VALUE", help=text)
    return parser


def main(words: Optional[Sequence[str]] = None) -> None:
    """Run the rounds that a command line names."""
    rounds = read_rounds(sys.argv[1:] if words is None else words)
    # They import numpy.
    from deepnmt.synthetic.rounds import table
    from deepnmt.text.columns import in_columns

    with check(rounds).begun():
        while (step := rounds.next_step()) is not None:
            print(f"round {step.round} of {rounds.rounds} at most", file=sys.stderr)
            run(step)
            if step.mark:
                step.result.touch()
        text = table(rounds)
        write_whole(rounds.save / "rounds.tsv", text)
    rows = [line.split("\t") for line in text.splitlines()]
    print("\n".join(line.rstrip() for line in in_columns(rows, left=len(rows[0]))))
    print(f"{rounds.save} is ready")


def read_rounds(words: Sequence[str]) -> "Rounds":
    """Return the rounds of a recipe; the command line's keys override it."""
    from deepnmt.recipe import read_recipe
    from deepnmt.synthetic.rounds import Rounds

    joined: list[str] = []
    for word in words:
        if joined and joined[-1] in OPTIONS:
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    given = vars(parser().parse_args(joined))
    path = given.pop("recipe")
    return Rounds.read(path, read_recipe(path), {key: value for key, value in given.items() if value is not None})


def check(rounds: "Rounds") -> "InPlace":
    """Check everything before anything is trained, and return the job.

    Raises:
        UserError: a file is missing or does not match, or the folder was begun with other settings
    """
    from deepnmt.synthetic.rounds import check_places, job_of

    check_places(rounds)
    check_synthesis(rounds)
    job = job_of(rounds)
    job.check()
    return job


def check_synthesis(rounds: "Rounds") -> None:
    """Raise `UserError` for options that synthesise would refuse, before any model is trained."""
    from deepnmt.synthetic.synthesis import BACK, DISTIL

    models, data, out = "models", str(rounds.data), "pairs"
    commands = [[DISTIL, models, data, out]]
    if rounds.kind == BACK:
        commands = [[BACK, models, data, str(rounds.mono_target), out]]
        commands.append([BACK, models, data, str(rounds.mono_source), out, "--reverse"])
    for command in commands:
        try:
            job = synthesise.synthesis_of(synthesise.parse([*command, *rounds.synthesis]))
            replace(job, checkpoints=()).check()
        except UserError as error:
            raise UserError(*(f"synthesis: {fault}" for fault in str(error).splitlines())) from None


def run(step: "Step") -> None:
    """Run the subcommand of a step."""
    name, *words = step.command
    if name not in HERE:
        from deepnmt.jobs.child_steps import run_step

        run_step(name, *words)
        return
    print("+", "deepnmt", *step.command, file=sys.stderr)
    cli.call(name, words)
