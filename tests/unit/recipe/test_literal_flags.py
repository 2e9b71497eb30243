"""`true` and `false` in a recipe mean what they say, whatever fairseq's flag of that name does."""

from __future__ import annotations

from pathlib import Path

import pytest

from deepnmt.errors import UserError
from deepnmt.recipe.arguments import training_arguments
from deepnmt.recipe.parser import inverted_flags, parse, training_parser

RECIPE = "optimizer: adam\nlr: 0.001\nmax-tokens: 800\nmax-epoch: 1\n"
MATT = "dlcl_transformer_ds_init_matt_iwslt_de_en"


def recipe(folder: Path, **options: str) -> Path:
    path = folder / "recipe.yaml"
    written = {"arch": "dlcl_transformer", "task": "deep_translation", **options}
    path.write_text(RECIPE + "".join(f"{name.replace('_', '-')}: {value}\n" for name, value in written.items()))
    return path


@pytest.mark.parametrize("task", ["translation", "deep_translation"])
@pytest.mark.parametrize("value", ["true", "false"])
def test_left_pad_source(tmp_path: Path, task: str, value: str) -> None:
    arguments = training_arguments(recipe(tmp_path, task=task, left_pad_source=value), [])
    assert parse(training_parser(), arguments).left_pad_source is (value == "true")


def test_left_pad_target_is_stored_as_it_is_named(tmp_path: Path) -> None:
    arguments = training_arguments(recipe(tmp_path, left_pad_target="true"), [])
    assert parse(training_parser(), arguments).left_pad_target is True


def test_beside_a_key_of_our_own(tmp_path: Path) -> None:
    arguments = training_arguments(recipe(tmp_path, left_pad_source="false", batches_per_update="4"), [], devices=2)
    assert parse(training_parser(), arguments).left_pad_source is False


def test_the_command_line_has_fairseqs_meaning(tmp_path: Path) -> None:
    arguments = training_arguments(recipe(tmp_path, left_pad_source="true"), ["--left-pad-source"])
    assert parse(training_parser(), arguments).left_pad_source is False


@pytest.mark.parametrize(
    ("parts", "right"),
    [
        (["--task=translation"], {"left-pad-source"}),
        (["--task=translation", "--criterion=model"], {"left-pad-source", "can-sum"}),
        (["--task=masked_lm"], {"include-index"}),
        (["--task=language_modeling"], set()),
    ],
)
def test_what_fairseq_stores_inverted(parts: list[str], right: set[str]) -> None:
    assert inverted_flags(parse(training_parser(), ["--arch=transformer", *parts])) == right


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"arch": MATT, "merged_attention": "false"},
            rf"merged-attention cannot be false with arch {MATT}, which makes",
        ),
        (
            {"arch": "transformer_wmt_en_de_big_t2t", "encoder_normalize_before": "false"},
            r"encoder-normalize-before cannot be false with arch transformer_wmt_en_de_big_t2t, which makes it true$",
        ),
        ({"arch": "lstm", "decoder_attention": "false"}, r"decoder-attention must be written False, but is false$"),
    ],
)
def test_what_cannot_be_said(tmp_path: Path, options: dict[str, str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        training_arguments(recipe(tmp_path, criterion="cross_entropy", **options), [])


def test_what_an_architecture_has_anyway_can_be_said(tmp_path: Path) -> None:
    for options in ({"arch": MATT, "merged_attention": "true"}, {"encoder_learned_pos": "false"}):
        training_arguments(recipe(tmp_path, **options), [])
    with pytest.raises(UserError, match=r"encoder-learned-pos must be true or false, but is 'yes'$"):
        training_arguments(recipe(tmp_path, encoder_learned_pos="yes"), [])
