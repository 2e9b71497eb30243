"""What options of fairseq-eval-lm and fairseq-generate do that no other test names, against their help texts."""

from __future__ import annotations

import math
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq_cli import eval_lm, generate
from support.data_folders import write_side
from support.language_models import language_model, save_language_model
from support.models import dictionary
from support.translation_models import write_checkpoint, write_data

import deepnmt  # noqa: F401  registers the model
from deepnmt.errors import UserError

SENTENCES = ([4, 5, 6, 7, 8, 9, 2], [10, 11, 2], [12, 4, 13, 5, 2])


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A language model, its dictionary, and a text."""
    folder = tmp_path_factory.mktemp("words")
    save_language_model(folder, dictionary())
    write_side(folder / "valid", SENTENCES)
    return folder


@pytest.fixture(scope="module")
def translations(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_data(tmp_path_factory.mktemp("translations") / "data")
    for language in ("de", "en"):
        write_side(folder / f"test.de-en.{language}", SENTENCES)
    write_checkpoint(folder / "model.pt", folder)
    return folder


def parsed(parser: Any, given: list[str]) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["fairseq"])
        return convert_namespace_to_omegaconf(options.parse_args_and_arch(parser, ["--num-workers=0", *given]))


def loss(words: Path, *more: str) -> float:
    given = [str(words), f"--path={words / 'lm.pt'}", "--gen-subset=valid", "--cpu", "--sample-break-mode=eos"]
    given += ["--batch-size=8", "--tokens-per-sample=60", "--task=language_modeling", *more]
    return float(eval_lm.main(parsed(options.get_eval_lm_parser(), given))["loss"])


def right(*sentences: list[int]) -> float:
    """Bits for each token, sentence by sentence."""
    model, total = language_model(dictionary()), 0.0
    for sentence in sentences:
        logits, _ = model(torch.tensor([[2, *sentence[:-1]]]))
        chosen = torch.log_softmax(logits[0].double(), dim=-1)[range(len(sentence)), sentence]
        total -= float(chosen.sum())
    return total / sum(map(len, sentences)) / math.log(2)


def test_language_models(words: Path, caplog: pytest.LogCaptureFixture) -> None:
    whole = right(*SENTENCES)
    for more in (
        [], ["--pad-to-fixed-length"],
        ["--tokens-per-sample=4", "--shorten-method=truncate", "--shorten-data-split-list=train,test"],
    ):  # fmt: skip
        assert loss(words, *more) == pytest.approx(whole, rel=1e-5), more
    with pytest.raises(UserError, match=r"^--pad-to-fixed-bsz cannot be combined with fairseq-eval-lm, which "):
        loss(words, "--pad-to-fixed-bsz")
    cut = [sentence[:4] for sentence in SENTENCES]
    for more in ([], ["--shorten-data-split-list=valid"]):
        short = loss(words, "--tokens-per-sample=4", "--shorten-method=truncate", *more)
        assert short == pytest.approx(right(*cut), rel=1e-5)
    caplog.clear()
    assert loss(words, "--output-word-probs", "--output-word-stats") == pytest.approx(whole, rel=1e-5)
    said = [record.getMessage() for record in caplog.records]
    assert sum("[-" in line for line in said) >= len(SENTENCES)


def search(folder: Path, results: Path, *more: str) -> list[str]:
    given = [str(folder), "--task=deep_translation", "--cpu", "--beam=1", "--max-len-b=20", "--max-len-a=0"]
    given += [f"--path={folder / 'model.pt'}", f"--results-path={results}", *more]
    generate.main(parsed(options.get_generation_parser(), given))
    lines = (results / "generate-test.txt").read_text("utf-8").splitlines()
    return [line for line in lines if line.startswith("H-")]


@pytest.mark.slow
def test_a_seed_or_none(translations: Path, tmp_path: Path) -> None:
    def sampled(state: int, *more: str) -> list[str]:
        torch.manual_seed(state)
        return search(translations, tmp_path, "--sampling", "--temperature=2", *more)

    assert sampled(1) == sampled(2)
    assert sampled(1) != sampled(1, "--seed=5")
    free = sampled(1, "--no-seed-provided")
    assert free == sampled(1, "--no-seed-provided")
    assert free == sampled(1, "--no-seed-provided", "--seed=5")
    assert free != sampled(2, "--no-seed-provided")


def test_a_checkpoint_in_parts(translations: Path, tmp_path: Path) -> None:
    # Each part of a model that was not fully sharded is whole.
    for number in (0, 1):
        shutil.copy(translations / "model.pt", tmp_path / f"parts_part{number}.pt")
    whole = search(translations, tmp_path)
    sharded = [f"--path={tmp_path / 'parts.pt'}", "--checkpoint-shard-count=2"]
    assert search(translations, tmp_path, *sharded) == whole
    (tmp_path / "parts_part1.pt").unlink()
    with pytest.raises(UserError, match=r"parts_part1\.pt"):
        search(translations, tmp_path, *sharded)


@pytest.mark.parametrize("option", ["beam-mt", "max-len-a-mt", "max-len-b-mt", "lenpen-mt"])
def test_options_of_speech(option: str) -> None:
    with pytest.raises(UserError, match=rf"^--{option}: fairseq-generate ignores it and has no first-pass decoder$"):
        parsed(options.get_generation_parser(), ["data", "--path=a.pt", f"--{option}=3"])


@pytest.mark.parametrize("option", ["eos-penalty=1", "force-max-iter", "with-beam=2", "with-external-reranker"])
def test_options_of_iterative_decoders(translations: Path, option: str) -> None:
    name = f"--iter-decode-{option.partition('=')[0]}"
    with pytest.raises(UserError, match=f"^{name} must be given with an iterative decoder alone$"):
        generate.main(
            parsed(
                options.get_generation_parser(),
                [str(translations), f"--path={translations / 'model.pt'}", f"--iter-decode-{option}", "--cpu"],
            )
        )
