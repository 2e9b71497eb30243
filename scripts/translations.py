"""The steps of generate.sh around fairseq-generate.

commands:
  translations.py check DATA SUBSET OPTION...              refuse what does not fit, options of fairseq-generate among
                                                           it; print languages and the number of sentences
  translations.py watch LOG TOTAL COMMAND...               run a command into LOG, and show its progress
  translations.py terms FILE DATA SUBSET CONSTRAINTS       find terms in the sources; write what translations must have
  translations.py extract LOG DATA SUBSET OUT_DIR          from fairseq's log to texts in the order of the corpus

With --reverse, which comes first, check and extract are of the other direction: from DATA's target language to its
source language.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

from deepnmt import console
from deepnmt.errors import UserError
from deepnmt.options.table import SEARCHES, dashed
from deepnmt.text.data_folder import check_dictionaries, check_record, check_subset, check_texts
from deepnmt.text.dictionary import read_types
from deepnmt.text.found_terms import note_terms
from deepnmt.text.lines import count_lines, whole_text
from deepnmt.text.nbest import FILE as NBEST
from deepnmt.text.nbest import read_nbest, write_nbest
from deepnmt.text.pipeline import Tokenizer, placeholders_of, whole_units
from deepnmt.text.settings import TextSettings
from deepnmt.text.subwords import Subwords
from deepnmt.text.terms import places_of, read_terms, terms_of, with_first_words
from deepnmt.text.translated_folder import check_direction, data_settings, lines_of, write_translations
from deepnmt.text.truecase import Truecaser, model_name

# Options of generate.sh that fairseq's own tasks do not know.
OF_THE_TASK = (
    "nbest", "nbest-file", "right-to-left", "validate-average", "float32-matmul-precision", "bpe-dropout",
    "bpe-dropout-side", "pair-weights", "constraint-file", *map(dashed, SEARCHES),
)  # fmt: skip
# Options of fairseq-generate that generate.sh gives it or cannot use, and why.
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
HYPOTHESIS = re.compile(r"H-(\d+)\t[^\t]*\t(.*)", re.DOTALL)


def check_data(data: Path, subset: str) -> int:
    """Return the number of pairs of a subset. Raises `UserError` if the data folder or the subset is faulty."""
    # fairseq would take it for two folders.
    if os.pathsep in str(data):
        raise UserError(f"DATA must not have a colon in its name, but is '{data}'")
    settings = TextSettings.read(data)
    dictionaries = check_dictionaries(data, settings.languages)
    check_record(data, dictionaries)
    pairs = check_subset(data, subset, settings.languages, dictionaries)
    if pairs is None:
        pairs = count_lines(data / "text" / f"{subset}.tok.{settings.source_lang}")
    raw = [f"raw.{x}" for x in settings.languages if (data / "text" / f"{subset}.raw.{x}").exists()]
    check_texts(data, subset, [*(f"tok.{language}" for language in settings.languages), *raw], pairs)
    return pairs


def check_options(options: list[str]) -> None:
    """Refuse options that generate.sh gives itself, and those that need the package's task beside another one.

    Args:
        options: of fairseq-generate

    Raises:
        UserError: with a line for each
    """
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


def watch(log: Path, total: int, command: list[str]) -> int:
    """Run a command with its output in `log` and a bar of the sentences done, and return its exit status.

    There is no bar before the first sentence, since what is refused shall end in a line alone.
    """
    # Otherwise Python keeps back some kilobytes of what it prints, and the bar with it.
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment)
    done = set()
    bar = None
    with process, log.open("wb") as file, ExitStack() as closing:
        assert process.stdout is not None
        for line in process.stdout:
            file.write(line)
            if line.startswith(b"H-"):
                done.add(line.split(b"\t", 1)[0])
                bar = bar or closing.enter_context(console.progress(total, "translating", " sentences"))
                bar.update(len(done) - bar.n)
    return process.returncode


def hypotheses(log: Path, sentences: int) -> list[str | None]:
    """Return the best hypothesis of each sentence in the order of the corpus; None where fairseq left one out.

    Raises:
        UserError: the log has a sentence that the subset does not
    """
    best: list[str | None] = [None] * sentences
    for line in lines_of(log):
        if found := HYPOTHESIS.fullmatch(line):
            number = int(found[1])
            if number >= sentences:
                raise UserError(f"{log}: must be of the {sentences} sentences of the subset, but has number {number}")
            # With --nbest, the best comes first.
            if best[number] is None:
                best[number] = found[2]
    return best


def extract(
    log: Path, data: Path, subset: str, output: Path, reverse: bool = False, selected_on: Path | None = None
) -> None:
    """Write the hypotheses, tokenised and not, beside their references and sources, and the n-best lists in order.

    Args:
        log: of fairseq-generate
        data: the data folder
        subset: of it
        output: folder to write to
        reverse: the translations are of the other direction
        selected_on: file with a JSON list of what the training pairs were chosen by; absent if they were not
    """
    target = data_settings(data, reverse).target_lang
    found = hypotheses(log, len(lines_of(data / "text" / f"{subset}.tok.{target}")))
    if left_out := found.count(None):
        print(
            f"warning: {left_out} of {len(found)} sentences were not translated, for they are longer than the model's "
            "positions; their translations are left empty",
            file=sys.stderr,
        )
    texts = json.loads(whole_text(selected_on)) if selected_on and selected_on.exists() else []
    write_translations(output, [text or "" for text in found], data, subset, left_out, reverse, texts)
    if (output / NBEST).exists():
        write_nbest(output / NBEST, read_nbest(output / NBEST, in_order=False))


def write_constraints(terms: Path, data: Path, subset: str, output: Path, reverse: bool = False) -> None:
    """Write the subwords that each translation must have, tell how many, and warn of terms that no source has.

    Raises:
        UserError: a line of the file is faulty, or has what the model does not write
    """
    settings = data_settings(data, reverse)
    source, target = settings.languages
    known = read_terms(terms, Tokenizer(settings, source), Tokenizer(settings, target))
    if settings.truecase:
        truecaser = Truecaser(data / model_name(source), whole_units(settings), settings.case_language(source))
        known = with_first_words(known, truecaser)
    if settings.placeholders:
        units = placeholders_of(settings)
        translations = (each.translation for each in known.values())
        if kept := next((each for each in translations if units.tagged(each) != each), None):
            raise UserError(
                f"{terms}: '{kept}' must have none of the {settings.placeholders} of --placeholders, but has: "
                "translations take these from the source"
            )
    cut, types = Subwords(data, settings, target), frozenset(read_types(data / f"dict.{target}.txt"))
    for translation in (each.translation for each in known.values()):
        if unknown := next((piece for piece in cut(translation).split() if piece not in types), None):
            raise UserError(f"{terms}: '{translation}' must be of types of the dictionary alone, but has '{unknown}'")
    lines = lines_of(data / "text" / f"{subset}.tok.{source}")
    found = [terms_of(line, known) for line in lines]
    # Two terms may have one translation.
    wanted = [list(dict.fromkeys(term.translation for term in each)) for each in found]
    with output.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines("\t".join(map(cut, each)) + "\n" for each in wanted)
    number = sum(map(len, wanted))
    print(f"{number} terms in {sum(map(bool, wanted))} of {len(wanted)} sentences", file=sys.stderr)
    # Also those inside longer terms, whose translations the longer ones' take the place of.
    seen = {term.text for line in lines for _, _, term in places_of(line, known)}
    if absent := [text for text in dict.fromkeys(term.text for term in known.values()) if text not in seen]:
        named = ", ".join(f"'{text}'" for text in absent[:3]) + (", ..." if len(absent) > 3 else "")
        print(f"warning: {terms}: no source has {len(absent)} of the terms: {named}", file=sys.stderr)


def main() -> None:
    """Do what the command line says."""
    parser = console.Parser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("check")
    command.add_argument("data", type=Path)
    command.add_argument("subset")
    command.add_argument("--reverse", action="store_true")
    command.add_argument("options", nargs=argparse.REMAINDER, metavar="OPTION")
    command = commands.add_parser("watch")
    command.add_argument("log", type=Path)
    command.add_argument("total", type=int)
    command.add_argument("watched", nargs=argparse.REMAINDER, metavar="COMMAND")
    command = commands.add_parser("terms")
    command.add_argument("terms", type=Path, metavar="FILE")
    command.add_argument("data", type=Path)
    command.add_argument("subset")
    command.add_argument("output", type=Path, metavar="CONSTRAINTS")
    command.add_argument("--reverse", action="store_true")
    command = commands.add_parser("extract")
    command.add_argument("log", type=Path)
    command.add_argument("data", type=Path)
    command.add_argument("subset")
    command.add_argument("output", type=Path)
    command.add_argument("--reverse", action="store_true")
    command.add_argument("--selected-on", type=Path, metavar="FILE")
    command.add_argument("--constraints", type=Path, metavar="FILE", help="of the terms, to count those that are found")
    arguments = parser.parse_args()
    if arguments.command == "check":
        check_options(arguments.options)
        check_direction(arguments.data, arguments.reverse)
        pairs = check_data(arguments.data, arguments.subset)
        print(*data_settings(arguments.data, arguments.reverse).languages, pairs)
    elif arguments.command == "watch":
        sys.exit(watch(arguments.log, arguments.total, arguments.watched))
    elif arguments.command == "terms":
        write_constraints(arguments.terms, arguments.data, arguments.subset, arguments.output, arguments.reverse)
    else:
        extract(
            arguments.log, arguments.data, arguments.subset, arguments.output, arguments.reverse, arguments.selected_on
        )
        if arguments.constraints:
            note_terms(arguments.constraints, arguments.output, data_settings(arguments.data, arguments.reverse))


if __name__ == "__main__":
    console.run(main)
