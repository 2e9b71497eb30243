"""What a search says of its translations reaches the n-best list."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq.tasks.translation import TranslationTask
from support.data_folders import data_folder
from support.models import batch, build, dictionary

from deepnmt.search.generator import BeamGenerator
from deepnmt.search.nbest_output import translations
from deepnmt.text.nbest import read_nbest
from deepnmt.translation_task import DeepTranslationConfig, DeepTranslationTask

PAD, EOS, UNK = 1, 2, 3


def hypothesis(tokens: list[int], scores: list[float], attention: list[list[float]] | None) -> dict[str, Any]:
    return {
        "tokens": torch.tensor([*tokens, EOS]),
        "score": torch.tensor(sum(scores) / len(scores)),
        "positional_scores": torch.tensor(scores),
        "attention": torch.empty(0) if attention is None else torch.tensor(attention),
    }


def test_features_by_hand() -> None:
    words = dictionary()
    sample = {"id": torch.tensor([5]), "net_input": {"src_tokens": torch.tensor([[PAD, 7, 8, EOS]])}}
    # A row for each source position: padding, two words of which one is covered more than once, the end symbol.
    attention = [[0.1, 0.1, 0.1], [0.5, 0.6, 0.7], [0.1, 0.2, 0.1], [0.3, 0.1, 0.1]]
    found = [hypothesis([4, UNK], [-0.5, -1.0, -0.25], attention), hypothesis([], [-math.inf], [[0.2]] * 4)]
    (line,) = translations(sample, [found], words, 2)
    assert (line.sentence, line.rank, line.subwords) == (5, 1, "w0 <unk>")
    assert line.features == pytest.approx(
        {"model": -1.75, "length": 3, "coverage": math.log(1) + math.log(0.4), "unk": 1}, rel=1e-6
    )
    (bare,) = translations(sample, [[hypothesis([4], [-1.0, -2.0], None)]], words, 1)
    assert bare.features == {"model": -3.0, "length": 2.0, "unk": 0.0}


def test_a_task_writes_what_its_search_finds(tmp_path: Path) -> None:
    model, words = build().float(), dictionary()
    task = DeepTranslationTask(DeepTranslationConfig(nbest_file=str(tmp_path / "out.tsv")), words, words)
    sample = {"id": torch.tensor([1, 0]), "net_input": batch([[5, 6, 7], [8]], [[4], [4]])}
    generator = BeamGenerator([model], words, beam_size=3, max_len_b=5)
    task.nbest = 2
    found = task.inference_step(generator, [model], sample)
    lines = read_nbest(tmp_path / "out.tsv", in_order=False)
    assert [(line.sentence, line.rank) for line in lines] == [(1, 1), (1, 2), (0, 1), (0, 2)]
    for line, expected in zip(lines, [*found[0][:2], *found[1][:2]]):
        assert line.subwords == words.string(expected["tokens"])
        assert line.features["model"] == pytest.approx(float(expected["score"]) * line.features["length"], rel=1e-4)
        assert list(line.features) == ["model", "length", "coverage", "unk"]


def test_the_other_direction_of_a_folder(tmp_path: Path) -> None:
    data = data_folder(tmp_path / "data")
    (data / "dict.de.txt").write_text("".join(f"v{number} 1\n" for number in range(8)))
    config = DeepTranslationConfig(data=str(data), source_lang="en", target_lang="de", dataset_impl="mmap")
    task = DeepTranslationTask.setup_task(config)
    task.load_dataset("test")
    assert isinstance(task, TranslationTask)
    assert task.source_dictionary.string(task.dataset("test")[0]["source"]).startswith("w0 w1")
    assert task.target_dictionary.string(task.dataset("test")[0]["target"]).startswith("v0 v1")
