"""The steps of generate.sh around fairseq-generate.

commands:
  translations.py check CHECKPOINT[:...] DATA SUBSET       refuse what does not fit; print languages and device
  translations.py watch LOG TOTAL COMMAND...               run a command into LOG, and show its progress
  translations.py extract LOG DATA SUBSET OUT_DIR          from fairseq's log to texts in the order of the corpus
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import manifest

from deepnmt import console
from deepnmt.errors import UserError

HYPOTHESIS = "H-"


def source_and_target(data: Path) -> tuple[str, str]:
    """The languages of a data folder."""
    record = manifest.read(data / "preprocess.json")
    return record["source_lang"], record["target_lang"]


def check_subset(data: Path, subset: str) -> None:
    """Raise `UserError` if the data folder has no such subset."""
    subsets = sorted(path.name[: -len(".idx")].split(".")[0] for path in data.glob("*.idx"))
    if subset not in subsets:
        raise UserError(f"the subset must be one of {', '.join(dict.fromkeys(subsets))} ({data}), but is {subset}")


def check_checkpoint(path: str, data: Path) -> None:
    """Raise `UserError` if a checkpoint cannot be read, or was not trained on data like this."""
    from safe_load import load_checkpoint

    state = load_checkpoint(path)
    languages = source_and_target(data)
    trained = trained_languages(state)
    if all(trained) and trained != languages:
        raise UserError(
            f"checkpoint {path} translates {trained[0]} to {trained[1]}, but {data} is {languages[0]} to {languages[1]}"
        )
    for side, language in zip(("encoder", "decoder"), languages):
        embedding = state["model"].get(f"{side}.embed_tokens.weight")
        dictionary = data / f"dict.{language}.txt"
        types = manifest.types(dictionary)
        if embedding is not None and embedding.shape[0] != types:
            raise UserError(
                f"dictionary {dictionary} has {types} types, but the {side} of checkpoint {path} has "
                f"{embedding.shape[0]}: it was trained on other data"
            )


def trained_languages(state: dict[str, Any]) -> tuple[str | None, str | None]:
    """The languages that a checkpoint names, if it does."""
    options = (state.get("cfg") or {}).get("task") or state.get("args") or {}
    if isinstance(options, argparse.Namespace):
        options = vars(options)
    return options.get("source_lang"), options.get("target_lang")


def check(checkpoints: str, data: Path, subset: str) -> None:
    """Check that all fits, then print the two languages, the number of sentences, and the options for the device."""
    source, target = source_and_target(data)
    check_subset(data, subset)
    for checkpoint in checkpoints.split(os.pathsep):
        check_checkpoint(checkpoint, data)
    import torch

    device = "--fp16" if torch.cuda.is_available() else "--cpu"
    print(source, target, len(read_text(data, subset, "tok", source)), device)


def watch(log: Path, total: int, command: list[str]) -> int:
    """Run fairseq-generate with its output in `log`, and a bar of the sentences done; returns its exit status."""
    # Otherwise Python keeps back some kilobytes of what it prints, and the bar with it.
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment)
    done = set()
    with process, log.open("wb") as file, console.progress(total, "translating", " sentences") as bar:
        assert process.stdout is not None
        for line in process.stdout:
            file.write(line)
            if line.startswith(HYPOTHESIS.encode()):
                done.add(line.split(b"\t", 1)[0])
                bar.update(len(done) - bar.n)
    return process.returncode


def read_text(data: Path, subset: str, kind: str, language: str) -> list[str]:
    """The lines of one of the texts that preprocess.sh keeps."""
    return (data / "text" / f"{subset}.{kind}.{language}").read_bytes().decode("utf-8").split("\n")[:-1]


def write_text(path: Path, lines: list[str]) -> None:
    """Write one line for each sentence."""
    path.write_bytes("".join(line + "\n" for line in lines).encode("utf-8"))


def hypotheses(log: Path, sentences: int) -> list[str | None]:
    """The best hypothesis of each sentence in the order of the corpus, or None where fairseq left one out."""
    best: list[str | None] = [None] * sentences
    for line in log.read_bytes().decode("utf-8").split("\n"):
        if line.startswith(HYPOTHESIS):
            name, _, text = line.split("\t", 2)
            number = int(name[len(HYPOTHESIS) :])
            # With --nbest, the best comes first.
            if best[number] is None:
                best[number] = text
    return best


def extract(log: Path, data: Path, subset: str, output: Path) -> None:
    """Write the hypotheses, tokenised and not, beside their references and sources."""
    from sacremoses import MosesDetokenizer

    source, target = source_and_target(data)
    reference = read_text(data, subset, "tok", target)
    found = hypotheses(log, len(reference))
    if left_out := found.count(None):
        print(
            f"warning: {left_out} of {len(found)} sentences were not translated, for they are longer than the model's "
            "positions; their translations are left empty",
            file=sys.stderr,
        )
    tokenised = [text or "" for text in found]
    detokenise = MosesDetokenizer(lang=target).detokenize
    write_text(output / f"hyp.tok.{target}", tokenised)
    write_text(output / f"hyp.{target}", [detokenise(text.split()) for text in tokenised])
    write_text(output / f"ref.tok.{target}", reference)
    texts = data / "text"
    if (texts / f"{subset}.raw.{target}").exists():
        shutil.copyfile(texts / f"{subset}.raw.{target}", output / f"ref.{target}")
    kind = "raw" if (texts / f"{subset}.raw.{source}").exists() else "tok"
    shutil.copyfile(texts / f"{subset}.{kind}.{source}", output / f"src.{source}")
    record = manifest.read(data / "preprocess.json")
    manifest.write(
        output / "generate.json",
        {"target_lang": target, "subset": subset, "lowercase": record["lowercase"], "untranslated": left_out},
    )


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("check")
    command.add_argument("checkpoints")
    command.add_argument("data", type=Path)
    command.add_argument("subset")
    command = commands.add_parser("watch")
    command.add_argument("log", type=Path)
    command.add_argument("total", type=int)
    command.add_argument("watched", nargs=argparse.REMAINDER, metavar="COMMAND")
    command = commands.add_parser("extract")
    command.add_argument("log", type=Path)
    command.add_argument("data", type=Path)
    command.add_argument("subset")
    command.add_argument("output", type=Path)
    arguments = parser.parse_args()
    if arguments.command == "check":
        check(arguments.checkpoints, arguments.data, arguments.subset)
    elif arguments.command == "watch":
        sys.exit(watch(arguments.log, arguments.total, arguments.watched))
    else:
        extract(arguments.log, arguments.data, arguments.subset, arguments.output)


if __name__ == "__main__":
    console.run(main)
