"""`deepnmt marginals`: log P of both sides of training pairs, by an ARPA file and by a network."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from fairseq.data import Dictionary
from support.flow import errors, in_process
from support.language_models import language_model, save_language_model
from support.substitution import SIZES, SOURCE, TARGET, substitution_data

EOS = 2


def test_each_side_by_its_model(tmp_path: Path) -> None:
    data, out = substitution_data(tmp_path / "data"), tmp_path / "marginals.tsv"
    lines = {name: (data / "text" / f"train.bpe.{name}").read_text("utf-8").splitlines() for name in (SOURCE, TARGET)}
    types = sorted({word for line in lines[SOURCE] for word in line.split()})
    # A model of single subwords; the last one is unknown to it.
    log_p = {word: -1 - number / 7 for number, word in enumerate(types[:-1])} | {"</s>": -0.5, "<unk>": -3.0}
    rows = "".join(f"{value}\t{word}\n" for word, value in {**log_p, "<s>": -99}.items())
    text = f"\\data\\\nngram 1={len(log_p) + 1}\n\n\\1-grams:\n{rows}\n\\end\\\n"
    (tmp_path / "de.arpa").write_text(text, encoding="utf-8")
    dictionary = Dictionary.load(str(data / f"dict.{TARGET}.txt"))
    network = save_language_model(tmp_path, dictionary)
    command = [data, out, "--source-lm", tmp_path / "de.arpa", "--target-lm", network, "--max-tokens", "60"]
    done = in_process("marginals", *command)
    assert (done.returncode, done.stdout) == (0, f"{out} is ready\n"), done.stderr
    heading, *found = (line.split("\t") for line in out.read_text("utf-8").splitlines())
    assert heading == [SOURCE, TARGET]
    assert len(found) == SIZES["train"]
    model = language_model(dictionary).double()
    for (of_source, of_target), x, y in zip(found, lines[SOURCE], lines[TARGET]):
        words = [*x.split(), "</s>"]
        expected = math.log(10) * sum(log_p.get(word, log_p["<unk>"]) for word in words)
        assert float(of_source) == pytest.approx(expected, rel=1e-5)
        tokens = [*map(dictionary.index, y.split()), EOS]
        with torch.no_grad():
            logits = model(torch.tensor([[EOS, *tokens[:-1]]]))[0][0]
        expected = float(logits.log_softmax(-1)[range(len(tokens)), tokens].sum())
        assert float(of_target) == pytest.approx(expected, rel=1e-4)
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
