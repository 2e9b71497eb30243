"""`deepnmt import`: make a checkpoint from the parameters of the published DLCL and SDT code, or of transformers."""

import argparse
import logging
from collections.abc import Sequence
from pathlib import Path

import deepnmt
from deepnmt.cli.rewriting import by_stack, show
from deepnmt.console import Parser, program
from deepnmt.model.stack import STACKS

EPILOG = """STATE_DICT is a file of torch.save with the tensors by name. It is read with weights only: no code in it can
run. docs/importing.md has the names. The tensors give depths, widths, groups, relative positions and shared embeddings.
All other facts must be given; an error names the missing options. A folder of transformers with an FSMT or M2M100 model
needs no such options.

example: deepnmt import dlcl.pt checkpoint.pt --data data/de-en --encoder-norm post --decoder-norm post"""


def main(words: Sequence[str] | None = None) -> None:
    """Import the parameters that the command line names, and print a summary."""
    arguments = parse(words)
    deepnmt.register()
    from deepnmt.checkpoints.importing.importer import import_checkpoint
    from deepnmt.checkpoints.importing.inference import Given

    # fairseq reports every step.
    logging.getLogger().setLevel(logging.WARNING)

    given = Given(
        heads={stack: int(heads) for stack, heads in by_stack(arguments, "attention_heads").items()},
        norm=by_stack(arguments, "norm"),
        groups=by_stack(arguments, "groups"),
        positions=arguments.positions,
        window=arguments.dlcl_window,
        softmax=arguments.dlcl_softmax,
    )
    languages = arguments.source_lang, arguments.target_lang
    lines = import_checkpoint(arguments.state_dict, arguments.out, arguments.data, given, languages)
    show(lines, arguments.out)


def parse(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the command line."""
    about = "Write a checkpoint made from the parameters of the published DLCL or SDT code, or of transformers."
    parser = Parser(program("import"), about, EPILOG)
    parser.add_argument("state_dict", type=Path, metavar="STATE_DICT", help="parameters, as torch.save writes them, "
        "or folder of transformers")  # fmt: skip
    parser.add_argument("out", type=Path, metavar="OUT", help="checkpoint, which must not exist")
    parser.add_argument("--data", type=Path, required=True, help="folder made by fairseq-preprocess, with the model's "
        "dictionaries")  # fmt: skip
    for side in ("source", "target"):
        parser.add_argument(f"--{side}-lang", metavar="LANG", help=f"{side} language, unless DATA names it")
    for stack in STACKS:
        parser.add_argument(f"--{stack}-attention-heads", type=int, metavar="N", help=f"heads of the {stack}")
        parser.add_argument(f"--{stack}-norm", choices=("post", "pre"), help=f"layer norms of the {stack}")
        parser.add_argument(f"--{stack}-groups", metavar="GROUPS", help="groups, as in training (default: as many as "
            "the parameters have, of equal size)")  # fmt: skip
    parser.add_argument("--positions", choices=("sinusoidal", "none"), help="absolute positions")
    parser.add_argument("--dlcl-window", type=int, default=0, metavar="N",
        help="window, as in training, with softmax (default: 0, all)")  # fmt: skip
    parser.add_argument("--dlcl-softmax", action="store_true", help="use the softmax, as in training")
    return parser.parse_args(words)
