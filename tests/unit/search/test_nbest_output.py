"""What a search says of its translations reaches the n-best list."""

from __future__ import annotations

import math
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq.tasks.translation import TranslationTask
from support.data_folders import data_folder
from support.models import batch, build, dictionary

from deepnmt.errors import UserError
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


def test_references_have_the_attention_of_their_own_words() -> None:
    words = dictionary()
    sample = {"id": torch.tensor([0]), "net_input": {"src_tokens": torch.tensor([[7, 8, EOS]])}}
    # A row for each target position of the batch, the last of which is padding here.
    attention = [[0.5, 0.2, 0.3], [0.1, 0.1, 0.8], [0.9, 0.1, 0.0]]
    (line,) = translations(sample, [[hypothesis([4], [-1.0, -2.0], attention)]], words, 1, target_axis=0)
    assert line.features["coverage"] == pytest.approx(math.log(0.6) + math.log(0.3), rel=1e-6)


def test_references_that_are_scored_are_listed(tmp_path: Path) -> None:
    model, words = build().float(), dictionary()
    task = DeepTranslationTask(DeepTranslationConfig(nbest_file=str(tmp_path / "out.tsv")), words, words)
    inputs = batch([[5, 6, 7], [8]], [[4], [4, 5, 6, 7, 8]])
    target = torch.tensor([[4, EOS, PAD, PAD, PAD, PAD], [4, 5, 6, 7, 8, EOS]])
    sample = {"id": torch.tensor([0, 1]), "net_input": inputs, "target": target}
    generator = task.build_generator([model], Namespace(score_reference=True))
    task.inference_step(generator, [model], sample)
    attention = model.eval()(**inputs)[1]["attn"][0]  # B x T x S
    for number, (line, length) in enumerate(zip(read_nbest(tmp_path / "out.tsv", in_order=False), (2, 6))):
        covered = attention[number, :length].sum(0)
        real = inputs["src_tokens"][number].ne(PAD) & inputs["src_tokens"][number].ne(EOS)
        expected = covered[real].clamp(1e-6, 1.0).log().sum()
        assert line.features["coverage"] == pytest.approx(float(expected), rel=1e-4)


def test_lines_of_a_terminal_have_no_list(tmp_path: Path) -> None:
    words = dictionary()
    task = DeepTranslationTask(DeepTranslationConfig(nbest_file=str(tmp_path / "out.tsv")), words, words)
    with pytest.raises(UserError, match=r"^--nbest-file: must be given to fairseq-generate alone$"):
        task.build_dataset_for_inference([], [])


def test_a_training_searches_with_the_options(tmp_path: Path) -> None:
    words = dictionary()
    task = DeepTranslationTask(DeepTranslationConfig(length_penalty="gnmt"), words, words)
    # fairseq builds the generator of a validation as soon as there is a model.
    assert isinstance(task.build_generator([build().float().train()], Namespace(beam=2)), BeamGenerator)


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
