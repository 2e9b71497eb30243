"""`deepnmt synthesise`: make synthetic pairs by back- or forward-translation, by copying, or with a teacher."""

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

from deepnmt.console import Parser, listable, program, whole
from deepnmt.errors import UserError
from deepnmt.limits import DEFAULT_BATCH_SIZE, DEFAULT_BEAM

if TYPE_CHECKING:
    from deepnmt.synthetic.synthesis import Synthesis

NAME = "synthesise"
USAGE = """%(prog)s back REVERSE.pt[:REVERSE2.pt...] DATA MONO OUT [OPTION]...
       %(prog)s forward MODEL.pt[:MODEL2.pt...] DATA MONO OUT [OPTION]...
       %(prog)s copy DATA MONO OUT [OPTION]...
       %(prog)s distil TEACHER.pt[:TEACHER2.pt...] DATA OUT [OPTION]..."""
DESCRIPTION = """Make pairs for a model that translates from DATA's source language to its target language. They become
the training text of a data folder OUT that is otherwise like DATA. deepnmt mix joins it with real pairs.

    back        text of the target in MONO, and its translations by a model of the other direction as the source
    forward     text of the source in MONO, and its translations as the target
    copy        text of the target in MONO on both sides; needs one dictionary for both languages
    distil      the source of DATA's training text, and a teacher's translations as the target

    DATA        folder made by deepnmt preprocess or deepnmt binarise
    MONO        folder made by deepnmt binarise --like DATA --mono
    Colons between checkpoints make an ensemble."""
EPILOG = """Unfinished work is kept in OUT.parts. The command can be stopped at any moment; run it again to resume. The
same files result after any number of starts and from any number of shards. OUT appears only when everything is done.

example:
  deepnmt synthesise back checkpoints/en-de/average.pt data/de-en data/news data/news-back --method sampling"""
# Places between KIND and OUT.
PLACES = {
    "back": ("MODEL", "DATA", "MONO"),
    "forward": ("MODEL", "DATA", "MONO"),
    "copy": ("DATA", "MONO"),
    "distil": ("TEACHER", "DATA"),
}


def parser() -> Parser:
    """Return the parser of the command line, in which --method and its value come last."""
    parser = Parser(program(NAME), DESCRIPTION, EPILOG, usage=USAGE)
    add = parser.add_argument
    add("kind", choices=PLACES, metavar="back|forward|copy|distil", help="kind of pairs: see above")
    add("places", nargs="*", metavar="MODEL DATA MONO OUT", help="places: see above")
    add("--method", nargs="+", default=["beam"], metavar="beam|greedy|sampling|top-k K", help="search for "
        "translations: the best, or samples from the model's distribution, either all of it or the K most probable "
        "subwords (default: beam)")  # fmt: skip
    add("--beam", type=int, metavar="N", help=f"number of beam-search hypotheses (default: {DEFAULT_BEAM})")
    add("--max-ratio", type=float, metavar="R", help="highest length ratio of a pair, in tokens; 0: no limit "
        "(default: 0)")  # fmt: skip
    add("--noise", metavar="delete=P,blank=P,shuffle=K", help="noise on the words of a synthetic source: leave out, "
        "blank, move up to K places. blank needs the symbol <BLANK> in MONO's dictionaries (deepnmt binarise "
        "--symbols).")  # fmt: skip
    add("--tag", metavar="SYMBOL", help="symbol such as '<BT>' before each synthetic source; MONO's dictionaries must "
        "have it")  # fmt: skip
    add("--nbest", type=int, metavar="N", help="number of the teacher's translations for --closest (distil)")
    flag: dict[str, Any] = {"action": "store_true", "default": None}
    add("--closest", help="distil: take the translation that is closest to the reference (sentence BLEU)", **flag)
    add("--keep-real", help="distil: append the real pairs of DATA", **flag)
    add("--reverse", help="make pairs for the model that translates DATA's target to its source", **flag)
    add("--allow-overlap", help="also take lines that DATA validates or tests on", **flag)
    add("--seed", type=int, metavar="S", help="seed of sampling and noise (default: 1)")
    add("--batch-size", type=int, metavar="N", help=f"lines to translate at a time (default: {DEFAULT_BATCH_SIZE})")
    add("--shards", type=whole("--shards", 1, 10**6), metavar="N", help="number of parts; --shard K translates one, "
        "for instance on N machines with a shared disk; the last to finish makes OUT")  # fmt: skip
    add("--shard", type=whole("--shard", 0, 10**6), metavar="K", help="part to translate, from 0 to N - 1")
    return parser


def main(words: Optional[Sequence[str]] = None) -> None:
    """Make the pairs that a command line describes."""
    given = parse(words)
    if (given.shards is None) != (given.shard is None):
        raise UserError("--shards and --shard must be given together")
    if given.shards and given.shard >= given.shards:
        raise UserError(f"--shard must be at most {given.shards - 1}, but is {given.shard}")
    out = listable("OUT")(given.places[-1])
    # It imports numpy.
    from deepnmt.synthetic.pair_making import make

    make(synthesis_of(given), program(NAME), out, given.shards or 1, given.shard or 0)


def parse(words: Optional[Sequence[str]]) -> Namespace:
    """Return the parsed command line. Raises `UserError` if places are missing or too many."""
    given = parser().parse_args(None if words is None else _method_last(words))
    names = (*PLACES[given.kind], "OUT")
    if len(given.places) != len(names):
        raise UserError(f"{given.kind} must be followed by {', '.join(names[:-1])} and OUT (see --help)")
    return given


def synthesis_of(given: Namespace) -> "Synthesis":
    """Return the synthesis that a command line describes. Raises `UserError` for a bad --method or model."""
    from dataclasses import fields

    from deepnmt.synthetic.synthesis import Options, Synthesis

    places = dict(zip(PLACES[given.kind], given.places))
    values = {item.name: getattr(given, item.name, None) for item in fields(Options)}
    values.update(method=given.method[0], top=_top(given.method))
    name = next(iter(places))
    models = [] if name == "DATA" else places[name].split(":")
    if not all(models):
        raise UserError(f"{name} must be a checkpoint, or several with colons between them, but is '{places[name]}'")
    return Synthesis(
        Options(**{name: value for name, value in values.items() if value is not None}),
        tuple(map(Path, models)),
        Path(places["DATA"]),
        Path(places["MONO"]) if "MONO" in places else None,
    )


def _method_last(words: Sequence[str]) -> list[str]:
    """Return a command line that ends with --method and its value of one or two words."""
    result, method = list(words), []
    if "--method" in result:
        start = result.index("--method")
        size = 3 if result[start + 1 : start + 2] == ["top-k"] else 2
        method = result[start : start + size]
        del result[start : start + size]
    return [*result, *method]


def _top(method: Sequence[str]) -> int:
    from deepnmt.synthetic.synthesis import METHODS

    if method[0] not in METHODS or len(method) != 1 + (method[0] == "top-k"):
        raise UserError(f"--method must be beam, greedy, sampling or top-k K, but is '{' '.join(method)}'")
    if method[0] != "top-k":
        return 0
    if not (method[1].isascii() and method[1].isdecimal()):
        raise UserError(f"--method top-k must be a whole number of at least 1, but is {method[1]}")
    return int(method[1])
