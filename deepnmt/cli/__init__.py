"""`deepnmt SUBCOMMAND`: one program, a module for each subcommand.

A module has `main(words)`, which takes the words after the subcommand's name; without `words`, it reads the command
line. It raises `UserError` for a fault that a user can correct. Before it has read its options, it imports little:
`--help` and faulty options must not wait for torch or fairseq.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import NamedTuple, Optional

from deepnmt.console import program, run

PROGRAM = "deepnmt"


class Subcommand(NamedTuple):
    """A row of `deepnmt --help`: the module whose `main` runs the subcommand, and a summary in one line."""

    module: str
    summary: str


# In the order of the flow.
SUBCOMMANDS = {
    "clean": Subcommand("deepnmt.cli.clean", "keep the pairs of a corpus that are worth training on"),
    "select": Subcommand("deepnmt.cli.select", "choose the training pairs that are most like a text"),
    "preprocess": Subcommand("deepnmt.cli.preprocess", "turn raw parallel text into binarised data"),
    "binarise": Subcommand("deepnmt.cli.binarise", "prepare more text for an existing data folder"),
    "mix": Subcommand("deepnmt.cli.mix", "join real and synthetic pairs in one data folder"),
    "synthesise": Subcommand("deepnmt.cli.synthesise", "make synthetic pairs with models"),
    "iterate": Subcommand("deepnmt.cli.iterate", "back-translate or distil in rounds"),
    "align": Subcommand("deepnmt.cli.align", "align the words of pairs, and score each pair"),
    "ngram": Subcommand("deepnmt.cli.ngram", "estimate an n-gram language model, or score a text with one"),
    "marginals": Subcommand("deepnmt.cli.marginals", "score both sides of training pairs by language models"),
    "truecase": Subcommand("deepnmt.cli.true_case", "learn, apply or undo true case"),
    "embeddings": Subcommand("deepnmt.cli.embeddings", "learn vectors of types from text"),
    "recipe": Subcommand("deepnmt.cli.recipe", "list the installed recipes, or print one"),
    "plan": Subcommand("deepnmt.cli.plan", "tell the memory and the hours of a training at several depths"),
    "train": Subcommand("deepnmt.cli.train", "train the model of a recipe"),
    "train-lm": Subcommand("deepnmt.cli.train_lm", "train a language model on one side of a data folder"),
    "train-progressive": Subcommand("deepnmt.cli.train_progressive", "train, grow and train a model, stage by stage"),
    "finetune": Subcommand("deepnmt.cli.finetune", "train a model further on other data"),
    "grow": Subcommand("deepnmt.cli.grow", "make a deeper checkpoint from a shallower one"),
    "shrink": Subcommand("deepnmt.cli.shrink", "make a shallower checkpoint from a deeper one"),
    "split": Subcommand("deepnmt.cli.split", "write both models of a checkpoint of both directions"),
    "join": Subcommand("deepnmt.cli.join", "make a checkpoint of both directions from one of each"),
    "graft": Subcommand("deepnmt.cli.graft", "start a training from parts of a pre-trained checkpoint"),
    "import": Subcommand("deepnmt.cli.import_checkpoint", "convert a checkpoint of the published DLCL or SDT code"),
    "inspect": Subcommand("deepnmt.cli.inspect", "measure gradients, variances and weights of each sublayer"),
    "average": Subcommand("deepnmt.cli.average", "average checkpoints of a training"),
    "generate": Subcommand("deepnmt.cli.generate", "translate a subset of a data folder"),
    "score": Subcommand("deepnmt.cli.score", "score translations"),
    "seeds": Subcommand("deepnmt.cli.seeds", "train recipes with several seeds, and compare them in one table"),
    "sweep": Subcommand("deepnmt.cli.sweep", "find the best average, beam and length penalty on validation"),
    "search-errors": Subcommand("deepnmt.cli.search_errors", "count the sentences whose best string a search misses"),
    "bleu-per-depth": Subcommand("deepnmt.cli.bleu_per_depth", "score a model with fewer and fewer of its layers"),
    "rerank": Subcommand("deepnmt.cli.rerank", "choose from n-best lists by tuned features"),
    "combine": Subcommand("deepnmt.cli.combine", "combine n-best lists into new translations"),
    "datastore": Subcommand("deepnmt.cli.datastore", "store decoder states for nearest-neighbour search"),
    "export": Subcommand("deepnmt.cli.export", "write a model folder that translates by itself"),
    "translate": Subcommand("deepnmt.cli.translate", "translate raw text"),
    "serve": Subcommand("deepnmt.cli.serve", "translate over HTTP, with a page at /"),
}


def usage() -> str:
    """Return the text of `deepnmt --help`."""
    width = max(map(len, SUBCOMMANDS))
    rows = "\n".join(f"  {name:<{width}}  {each.summary}" for name, each in SUBCOMMANDS.items())
    return f"""usage: {PROGRAM} SUBCOMMAND ...
       {PROGRAM} SUBCOMMAND --help
       {PROGRAM} --version

Deep Transformers for machine translation.

subcommands:
{rows}
"""


def main(words: Optional[Sequence[str]] = None) -> None:
    """Run the program; a user's fault ends it with one line and status 2."""
    given = sys.argv[1:] if words is None else list(words)
    name = given[0] if given else "--help"
    if name in ("-h", "--help"):
        print(usage(), end="")
    elif name == "--version":
        from deepnmt.cli.version import version

        print(version())
    elif name not in SUBCOMMANDS:
        print(f"{PROGRAM}: error: unknown subcommand '{name}' (see {PROGRAM} --help)", file=sys.stderr)
        sys.exit(2)
    else:
        run(lambda: call(name, given[1:]), program(name))


def call(name: str, words: Sequence[str]) -> None:
    """Run a subcommand in this process. Raises `UserError` for a fault that a user can correct."""
    import_module(SUBCOMMANDS[name].module).main(list(words))


def renamed() -> None:
    """Run a subcommand by its name before version 0.2, such as `deepnmt-export`, with a warning."""
    old = Path(sys.argv[0]).name
    name = old.removeprefix(f"{PROGRAM}-")
    print(f"{old}: warning: is now '{PROGRAM} {name}'; the old name goes with version 1.0", file=sys.stderr)
    main([name, *sys.argv[1:]])
