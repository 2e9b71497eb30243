"""`--reference-kernels` for all of fairseq's commands that take `--user-dir deepnmt`."""

import argparse
from typing import Any

from fairseq import options

from deepnmt.fairseq_patches.patch import replaces
from deepnmt.reference import OPTION, add_reference_option


@replaces(options, "parse_args_and_arch", order=30, why="--reference-kernels turns all fast paths off")
def parse_with_reference_option(stock: Any, parser: argparse.ArgumentParser, *args: Any, **kwargs: Any) -> Any:
    """Parse a command line that may have the option."""
    if OPTION not in parser._option_string_actions:
        add_reference_option(parser.add_argument_group("deepnmt"))
    return stock(parser, *args, **kwargs)
