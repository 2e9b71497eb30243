"""`deepnmt seeds`: train recipes with several seeds, and compare them in one table."""

import argparse
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from deepnmt.cli.train import PLACES
from deepnmt.console import Parser, check_output, program, whole, wholes
from deepnmt.errors import UserError
from deepnmt.recipe import named_recipes

NAME = "seeds"
USAGE = "%(prog)s RECIPE[,RECIPE...] DATA OUT [options] [fairseq-train options]"
DESCRIPTION = """Train each recipe once for each seed, average its last checkpoints, translate a subset of DATA and
score it. The table has mean and standard deviation of BLEU over the seeds, and the core hours of the trainings. A
paired bootstrap over sentences compares each recipe with the first one. The command can be stopped at any moment; run
it again to resume. Runs with another subset, more seeds, more recipes or another --last reuse the trainings in OUT."""
EPILOG = f"""All other options go to fairseq-train and override the recipes', such as --max-update 1000. OUT gets a
folder RECIPE/seedN with the training in checkpoints/. Beside it, updateU.lastN/ has the average of the last N
checkpoints up to update U, and its translations in SUBSET/. OUT/SUBSET.json has the table.

Core hours are the processor time up to the last checkpoint, the start and validations included.

{PLACES}
example:
  deepnmt seeds tiny,my-deep.yaml data/de-en results/seeds --seeds 1,2,3"""
MOST = 10**6


def numbers(text: str) -> list[int]:
    """Return the seeds of a list. Raises `UserError` for anything else, or a seed that stands twice."""
    seeds = wholes("--seeds", 1, 2**31 - 1)(text)
    if len(set(seeds)) < len(seeds):
        raise UserError(f"--seeds must be different numbers, but is '{text}'")
    return seeds


def parse(words: Sequence[str] | None) -> tuple[argparse.Namespace, list[str]]:
    """Return the command line, with recipes by their names, and the options of fairseq-train."""
    parser = Parser(program(NAME), DESCRIPTION, EPILOG, usage=USAGE)
    add = parser.add_argument
    add("recipes", metavar="RECIPE", help="names that 'deepnmt recipe' lists, or YAML files, comma-separated")
    add("data", type=Path, metavar="DATA", help="folder made by preprocess")
    add("out", type=Path, metavar="OUT", help="folder for trainings, translations and the table")
    add("--seeds", type=numbers, default=[1, 2, 3], metavar="N,N,...", help="seeds (default: 1,2,3)")
    add("--last", type=whole("--last", 1, MOST), default=5, metavar="N", help="number of last checkpoints to "
        "average; if there are fewer, all of them (default: 5)")  # fmt: skip
    add("--subset", default="test", metavar="SUBSET", help="subset to translate: valid, test1, ... (default: test)")
    given, options = parser.parse_before_options(words, "fairseq-train")
    if any(option.partition("=")[0] == "--seed" for option in options):
        raise UserError("--seed cannot be used here: --seeds replaces it")
    paths = [named_recipes.find(name) for name in given.recipes.split(",")]
    for name, count in Counter(path.stem for path in paths).items():
        if count > 1:
            raise UserError(f"recipes must have different names, but '{name}' stands {count} times")
    given.recipes = {path.stem: path for path in paths}
    return given, options


def main(words: Sequence[str] | None = None) -> None:
    """Train, translate and compare as a command line says. Exits with the status of a step that fails."""
    given, options = parse(words)
    from deepnmt.runs import seeds  # takes longer than --help may
    from deepnmt.text.translated_folder import check_data

    runs = {
        name: [
            seeds.SeedRun(recipe, given.data, given.out / name / f"seed{seed}", seed, options) for seed in given.seeds
        ]
        for name, recipe in given.recipes.items()
    }
    # All faults that can be known before the first training, which takes hours.
    check_data(given.data, given.subset)
    for run in chain(*runs.values()):
        run.check_kept()
        run.job.check()
    for others in [*runs.values()][1:]:
        others[0].check_options()
    given.out.mkdir(parents=True, exist_ok=True)
    table_file = given.out / f"{given.subset}.json"
    check_output(table_file)
    table = seeds.rows({
        name: [run.translations(given.last, given.subset) for run in members] for name, members in runs.items()
    })  # fmt: skip
    seeds.write(table, table_file)
    print(seeds.shown(table))
