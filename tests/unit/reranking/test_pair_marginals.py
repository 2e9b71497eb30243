"""`deepnmt marginals`: log P of both sides of training pairs, by an ARPA file and by a network."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq.data import Dictionary
from support.flow import errors, in_process
from support.language_models import language_model, save_language_model
from support.substitution import LANGUAGES, SIZES, SOURCE, TARGET, substitution_data

EOS = 2


def log_p_of(network: Any, dictionary: Dictionary, line: str) -> float:
    """log P of a line by a language model, which reads it after eos."""
    tokens = [*map(dictionary.index, line.split()), EOS]
    with torch.no_grad():
        logits = network(torch.tensor([[EOS, *tokens[:-1]]]))[0][0]
    return float(logits.log_softmax(-1)[range(len(tokens)), tokens].sum())


@pytest.mark.parametrize("counted", LANGUAGES)
def test_each_side_by_its_model(counted: str, tmp_path: Path) -> None:
    """One language by an ARPA file, and the other by a network."""
    data, out = substitution_data(tmp_path / "data"), tmp_path / "marginals.tsv"
    # A dictionary for each language: the other one's types in another order.
    types_of = data / f"dict.{SOURCE}.txt"
    types_of.write_text("".join(reversed(types_of.read_text("utf-8").splitlines(keepends=True))), encoding="utf-8")
    lines = {name: (data / "text" / f"train.bpe.{name}").read_text("utf-8").splitlines() for name in LANGUAGES}
    types = sorted({word for line in lines[counted] for word in line.split()})
    # A model of single subwords; the last one is unknown to it.
    log_p = {word: -1 - number / 7 for number, word in enumerate(types[:-1])} | {"</s>": -0.5, "<unk>": -3.0}
    rows = "".join(f"{value}\t{word}\n" for word, value in {**log_p, "<s>": -99}.items())
    text = f"\\data\\\nngram 1={len(log_p) + 1}\n\n\\1-grams:\n{rows}\n\\end\\\n"
    (tmp_path / "counted.arpa").write_text(text, encoding="utf-8")
    learned = SOURCE if counted == TARGET else TARGET
    dictionary = Dictionary.load(str(data / f"dict.{learned}.txt"))
    paths = {counted: tmp_path / "counted.arpa", learned: save_language_model(tmp_path, dictionary)}
    command = [data, out, "--source-lm", paths[SOURCE], "--target-lm", paths[TARGET], "--max-tokens", "60"]
    done = in_process("marginals", *command)
    assert (done.returncode, done.stdout) == (0, f"{out} is ready\n"), done.stderr
    heading, *found = (line.split("\t") for line in out.read_text("utf-8").splitlines())
    assert heading == [SOURCE, TARGET]
    assert len(found) == SIZES["train"]
    model = language_model(dictionary).double()
    for row, *pair in zip(found, lines[SOURCE], lines[TARGET]):
        sums, sides = dict(zip(LANGUAGES, map(float, row))), dict(zip(LANGUAGES, pair))
        words = [*sides[counted].split(), "</s>"]
        expected = math.log(10) * sum(log_p.get(word, log_p["<unk>"]) for word in words)
        assert sums[counted] == pytest.approx(expected, rel=1e-5)
        assert sums[learned] == pytest.approx(log_p_of(model, dictionary, sides[learned]), rel=1e-4)
    (line,) = errors(in_process("marginals", *command))
    assert line.endswith("marginals.tsv exists; remove it or choose another OUT")


def test_missing_models_and_other_text_are_refused(tmp_path: Path) -> None:
    data = substitution_data(tmp_path / "data")
    (tmp_path / "lm.arpa").touch()
    command = [data, tmp_path / "out.tsv", "--source-lm", tmp_path / "lm.arpa", "--target-lm", tmp_path / "none.pt"]
    (line,) = errors(in_process("marginals", *command))
    assert line.endswith(f"--target-lm: no such file '{tmp_path / 'none.pt'}'")
    (line,) = errors(in_process("marginals", *command[:-1], tmp_path / "lm.arpa", "--max-tokens", "9"))
    assert line.endswith("--max-tokens needs a checkpoint as --source-lm or --target-lm")
    text = data / "text" / f"train.bpe.{TARGET}"
    text.write_text(text.read_text("utf-8") + "one more\n", encoding="utf-8")
    (line,) = errors(in_process("marginals", *command))
    assert line.endswith("must have a line for each of the 40 sentences, but has 41")
    assert not (tmp_path / "out.tsv").exists()
