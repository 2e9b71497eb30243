"""What a folder for transformers says of its model: the card, and the settings of generation."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import yaml
from support.checkpoints import load as load_file
from support.checkpoints import run_main

from deepnmt.cli import export as export_command
from deepnmt.engines.model_folder import ModelFolder

pytest.importorskip("transformers")
from deepnmt.engines.transformers.card import card


def test_the_card(dlcl: tuple[Path, Path]) -> None:
    record = ModelFolder.read(dlcl[1])[0]
    found = card(
        record, {"BLEU": {"score": 41.5, "signature": "nrefs:1|case:mixed"}, "chrF": {"score": 2, "signature": "x"}}
    )
    assert found.startswith('---\nlanguage:\n- "de"\n- "en"\nlibrary_name: transformers\npipeline_tag: translation\n')
    # Norwegian is no truth value.
    norwegian = dataclasses.replace(record, text=dataclasses.replace(record.text, target_lang="no"))
    assert yaml.safe_load(card(norwegian, {}).split("---\n")[1])["language"] == ["de", "no"]
    for line in (
        "| layers | 3 | 3 |", "| width | 16 | 16 |", "| layer norm | post | post |", "| groups (DLCL: 1) | 1 | 1 |",
        "| relative positions up to | 2 | 0 |", "| BLEU | 41.50 | `nrefs:1\\|case:mixed` |", "| chrF | 2.00 | `x` |",
    ):  # fmt: skip
        assert line in found.splitlines(), found
    assert f"On 4 validation pairs, BLEU is {record.check['bleu']:.2f}" in found
    unchecked = card(dataclasses.replace(record, check={"pairs": 0}), {})
    assert "was not compared with its checkpoint" in unchecked
    assert "| metric |" not in unchecked


def test_the_command_puts_scores_and_search_on_the_card(data: Path, dlcl: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "scores.json").write_text(json.dumps({"BLEU": {"score": 12, "signature": "s"}}))
    words = ("--engine", "transformers", "--check", 0, "--scores", tmp_path / "scores.json", "--beam", 2)
    run_main(export_command.main, "deepnmt export", dlcl[0], data, tmp_path / "model", *words, "--lenpen", 0.5)
    found = (tmp_path / "model" / "README.md").read_text("utf-8")
    assert "| BLEU | 12.00 | `s` |\n" in found
    assert "The search keeps 2 hypotheses, with the length penalty 0.5." in found


def test_generation_settings(dlcl: tuple[Path, Path]) -> None:
    found = json.loads((dlcl[1] / "generation_config.json").read_text())
    expected = {
        "num_beams": 3, "early_stopping": True, "length_penalty": 0.7, "min_new_tokens": 1, "suppress_tokens": [1],
        "max_new_tokens": 201, "bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2,
    }  # fmt: skip
    # The positions of the model are fewer than 200.
    positions = load_file(dlcl[0])["cfg"]["model"]["max_target_positions"]
    expected["max_new_tokens"] = min(12, positions - 1) + 1
    assert {name: found.get(name) for name in expected} == expected
