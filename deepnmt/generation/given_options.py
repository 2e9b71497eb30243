"""Options of fairseq-generate that a translation of a subset sets itself, or that need the package's task."""

from collections.abc import Sequence

from deepnmt.errors import UserError
from deepnmt.options.option_table import SEARCHES, dashed

# Options that fairseq's own tasks do not know.
OF_THE_TASK = (
    "nbest", "nbest-file", "right-to-left", "validate-average", "float32-matmul-precision", "bpe-dropout",
    "bpe-dropout-side", "unigram-sampling", "pair-weights", "set-weights", "competence", "competence-updates",
    "competence-start", "competence-every", "difficulty", "sample-share", "sample-warmup", "batch-order", "l1", "l2",
    "mono", "constraint-file", *map(dashed, SEARCHES),
)  # fmt: skip
# Options that are set already or cannot be used, and why.
GIVEN = {
    "--user-dir": "it is the plug-in",
    "--path": "it is CHECKPOINT",
    "--gen-subset": "use --subset",
    "--source-lang": "it is DATA's, or with --reverse its target",
    "-s": "it is DATA's source language, or with --reverse its target",
    "--target-lang": "it is DATA's, or with --reverse its source",
    "-t": "it is DATA's target language, or with --reverse its source",
    "--results-path": "it is OUT_DIR",
    "--quiet": "OUT_DIR is made from the output that it suppresses",
    "--nbest-file": "--nbest makes it",
    "--constraint-file": "--terms makes it",
    "--selected-on": "generate.json has it",
}
TASK = "deep_translation"


def check_options(options: Sequence[str]) -> None:
    """Raise `UserError`, a line for each, for options that are set already, or need the package's task."""
    # fairseq takes -sen for -s en as well.
    names = [word.split("=")[0] if word.startswith("--") else word[:2] for word in options]
    if refused := [name for name in GIVEN if name in names]:
        raise UserError(*(f"{name} must not be given: {GIVEN[name]}" for name in refused))
    pairs = zip(options, [*options[1:], ""])
    tasks = [after if word == "--task" else word[7:] for word, after in pairs if word.split("=")[0] == "--task"]
    if tasks and tasks[-1] != TASK:
        given = [name for name in OF_THE_TASK if f"--{name}" in names]
        if given:
            raise UserError(
                *(f"--{name}: must be given with --task {TASK} alone, but is with {tasks[-1]}" for name in given)
            )


def value_of(options: Sequence[str], name: str) -> str:
    """Return the value of an option, the last of several; empty where it is not given."""
    found = ""
    for word, after in zip(options, [*options[1:], ""]):
        option, equals, value = word.partition("=")
        if option == name:
            found = value if equals else after
    return found
