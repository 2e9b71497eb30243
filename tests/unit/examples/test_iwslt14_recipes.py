"""The recipes of the IWSLT14 study: each is its row of the published tables, key by key, and builds its model."""

from __future__ import annotations

import csv
import re
import sys
from argparse import Namespace
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from fairseq import options
from fairseq.models import MODEL_DATACLASS_REGISTRY, build_model
from fairseq.registry import REGISTRIES
from study.rows import CONFIGS, TABLES, all_rows
from support.models import ROOT, dictionary, task

from deepnmt import recipe
from deepnmt.recipe.checking import check_recipe
from deepnmt.recipe.own_keys import share

FILES = sorted(CONFIGS.rglob("*.yaml"))
BASES = {"base", "dlcl", "t_fixup", "dlcl_t_fixup", "peers/fairseq", "peers/consistency"}
NAMES = [name for path in FILES if (name := path.relative_to(CONFIGS).with_suffix("").as_posix()) not in BASES]
# The published tables have so many rows.
PUBLISHED = {"3.1-dlcl": 10, "3.3-tfixup": 2, "3.5-dlcl-tfixup": 16, "3.7-depth": 12}
# Recipes without relative positions, which section 3.4.2 of the report lists for all its systems: each has a variant.
RELATIVE = {f"{name}_relative": name for name in ("3.3/1", "3.3/2", "peers/t_fixup")}
VOCABULARY = dictionary(10_000 - 4)
COMMON = {
    "optimizer": "adam",
    "adam_betas": "(0.9, 0.98)",
    "max_tokens": 4096,
    "update_freq": [1],
    "encoder_embed_dim": 512,
    "decoder_embed_dim": 512,
    "encoder_ffn_embed_dim": 1024,
    "decoder_ffn_embed_dim": 1024,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "clip_norm": 0.0,
    "seed": 1,
}
SMOOTHED = {"criterion": "label_smoothed_cross_entropy_fused", "label_smoothing": 0.1}
TO_EIGHT = {"encoder_max_relative_length": 8, "decoder_max_relative_length": 8}
# What a table says of all its rows, beside its columns.
DLCL = {"encoder_groups": "1", "decoder_groups": "1", "relative_positions": "keys-values"}
PLAIN = {"encoder_groups": "none", "decoder_groups": "none"}
T_FIXUP = {"initializer": "t-fixup", "lr_scheduler": "inverse_sqrt_no_warmup", "decay_period": 4000}
WARMUP = {"initializer": "default", "lr_scheduler": "inverse_sqrt"}
OF_TABLE: dict[str, dict[str, Any]] = {
    "3.1-dlcl": {**DLCL, **WARMUP},
    "3.3-tfixup": {**PLAIN, **T_FIXUP},
    "3.5-dlcl-tfixup": {**DLCL, **T_FIXUP},
}


@cache
def arguments(name: str) -> Namespace:
    """A recipe as fairseq's parser reads it; what it leaves to the defaults of a part is missing."""
    path = CONFIGS / f"{name}.yaml"
    argv, sys.argv = sys.argv, ["pytest"]
    try:
        read = share(recipe.read_recipe(path), 1)
        check_recipe(path, read, [])
        parser = options.get_training_parser()
        result: Namespace = options.parse_args_and_arch(parser, ["DATA", *recipe.to_arguments(read)])
    finally:
        sys.argv = argv
    return result


def model_options(name: str) -> dict[str, Any]:
    config = MODEL_DATACLASS_REGISTRY[arguments(name).arch].from_namespace(arguments(name))
    return {key: str(value) if isinstance(value, Enum) else value for key, value in vars(config).items()}


def parsed(name: str) -> dict[str, Any]:
    """All the options of a recipe."""
    args = arguments(name)
    result = {**vars(args), **model_options(name)}
    for part in ("criterion", "optimizer", "lr_scheduler"):
        options_of_part = REGISTRIES[part]["dataclass_registry"][getattr(args, part)].from_namespace(args)
        result.update(vars(options_of_part))
    return result


def table(name: str) -> dict[str, dict[str, str]]:
    with (TABLES / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return {entry["row"]: entry for entry in csv.DictReader(file)}


def of_columns(entry: dict[str, str]) -> dict[str, Any]:
    """The options that a row of a table with all columns asks for."""
    length, warmup = int(entry["max_relative_length"]), int(entry["warmup"])
    wanted: dict[str, Any] = {
        "encoder_norm": entry["norm"],
        "decoder_norm": entry["norm"],
        "encoder_layers": int(entry["encoder_layers"]),
        "decoder_layers": int(entry["decoder_layers"]),
        "dropout": float(entry["dropout"]),
        "attention_dropout": float(entry["attention_dropout"]),
        "activation_dropout": float(entry["relu_dropout"]),
        "encoder_max_relative_length": length,
        "decoder_max_relative_length": length,
        "lr": [float(entry["lr"])],
        "share_all_embeddings": entry["share_all"] == "1",
        "share_decoder_input_output_embed": entry["share_dec"] == "1",
    }
    # The schedule of the rows without warm-up has no such option.
    return {**wanted, "warmup_updates": warmup} if warmup else wanted


def differing(got: dict[str, Any], wanted: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    return {key: (got[key], value) for key, value in wanted.items() if got[key] != value}


def test_every_row_has_a_recipe_and_every_recipe_a_row() -> None:
    tables = [f"{name.split('-')[0]}/{row}" for name in PUBLISHED for row in table(name)]
    assert {name: len(table(name)) for name in PUBLISHED} == PUBLISHED
    assert [name for name in NAMES if name[0] == "3" and name not in RELATIVE] == sorted(tables)
    assert sorted(all_rows()) == sorted(NAMES)
    assert len(FILES) == len(NAMES) + len(BASES)


@pytest.mark.parametrize("name", OF_TABLE)
def test_recipes_are_their_rows(name: str) -> None:
    for row, entry in table(name).items():
        args = parsed(f"{name.split('-')[0]}/{row}")
        wanted = {**COMMON, **SMOOTHED, **OF_TABLE[name], **of_columns(entry)}
        assert not differing(args, wanted), row
        assert ("warmup_updates" in args) == (entry["warmup"] != "0"), row
        assert all_rows()[f"{name.split('-')[0]}/{row}"].bleu == entry["bleu"]


@pytest.mark.parametrize(("row", "entry"), table("3.7-depth").items(), ids=table("3.7-depth"))
def test_depth_recipes_are_the_best_rows_at_another_depth(row: str, entry: dict[str, str]) -> None:
    best = {"dlcl": "3.1/10", "dlcl+tfixup": "3.5/12"}[entry["model"]]
    depth = {"encoder_layers": int(entry["encoder_layers"]), "decoder_layers": int(entry["decoder_layers"])}
    assert parsed(f"3.7/{row}") == {**parsed(best), **depth}
    published = all_rows()[f"3.7/{row}"]
    assert (published.bleu, published.last5, published.epochs) == (
        entry["bleu"],
        entry["last5"],
        entry["epochs_to_best"],
    )


@pytest.mark.parametrize(("devices", "tokens"), [(1, "4096"), (2, "2048"), (8, "512")])
def test_an_update_has_the_same_tokens_on_several_devices(devices: int, tokens: str) -> None:
    for name in NAMES:
        shared = share(recipe.read_recipe(CONFIGS / f"{name}.yaml"), devices)
        assert (shared["max-tokens"].value, shared["update-freq"].value) == (tokens, "1")


def test_other_papers_recipes() -> None:
    post = {**PLAIN, "encoder_norm": "post", "decoder_norm": "post"}
    own = {**post, "lr": [0.0015], "lr_scheduler": "fixed", "warmup_updates": 0, "label_smoothing": 0.0}
    wanted: dict[str, dict[str, Any]] = {
        "own/post_no_warmup": own,
        "own/pre_no_warmup": {**own, "encoder_norm": "pre", "decoder_norm": "pre"},
        "peers/transformer": {
            **post,
            **SMOOTHED,
            "initializer": "default",
            "lr": [0.0005],
            "lr_scheduler": "inverse_sqrt",
            "warmup_updates": 4000,
            "dropout": 0.3,
            "weight_decay": 0.0001,
            "share_all_embeddings": True,
        },
        "peers/dlcl": {
            **DLCL,
            "encoder_norm": "pre",
            "decoder_norm": "pre",
            "initializer": "fairseq-2019",
            "attention_dropout": 0.1,
            "activation_dropout": 0.1,
            "warmup_updates": 4000,
        },
        "peers/ds_init_matt": {**post, "initializer": "ds-init", "merged_attention": True, "encoder_layers": 12},
        "peers/admin": {**post, "initializer": "admin-released", "residual_scale": "admin", "encoder_layers": 6},
        "peers/t_fixup": {**parsed("3.3/2"), "patience": -1, "weight_decay": 0.0001},
        "peers/t_fixup_paper": {**parsed("3.3/2"), "patience": -1},
        **{name: {**parsed(base), **TO_EIGHT} for name, base in RELATIVE.items()},
        "peers/r_drop": {**post, "criterion": "label_smoothed_cross_entropy_r_drop", "r_drop_alpha": 5.0},
        "peers/simcut": {
            **post,
            "criterion": "label_smoothed_cross_entropy_simcut",
            "simcut_alpha": 3.0,
            "simcut_rate": 0.05,
        },
        "bet/dlcl_simcut": {
            **DLCL,
            "criterion": "label_smoothed_cross_entropy_simcut",
            "encoder_layers": 20,
            **TO_EIGHT,
        },
    }
    assert {name: differing(parsed(name), {**COMMON, **of}) for name, of in wanted.items()} == {
        name: {} for name in wanted
    }
    assert set(wanted) == {name for name in NAMES if name[0] != "3"} | RELATIVE.keys()


def test_figures_that_the_report_gives_as_those_of_other_papers() -> None:
    figures = {"peers/transformer": "34.4", "peers/dlcl": "35.6", "peers/t_fixup_paper": "35.5"}
    assert {name: all_rows()[name].bleu for name in figures} == figures
    assert [all_rows()[name].bleu for name in RELATIVE] == [all_rows()[base].bleu for base in RELATIVE.values()]


def test_reports_own_batches_are_noted_and_kept() -> None:
    # 160,239 training pairs in the 3,205 steps of the report's log.
    assert -(-160_239 // 50) == 3205
    for name in ("own/post_no_warmup", "own/pre_no_warmup"):
        assert (parsed(name)["max_tokens"], parsed(name)["batch_size"]) == (4096, None)
    assert "50 pairs" in (CONFIGS / "own" / "post_no_warmup.yaml").read_text("utf-8")


PARAMETERS: dict[str, int] = {}


def parameters(name: str) -> int:
    """The parameters of a recipe's model, built on a device that computes nothing."""
    # Many rows differ in dropout alone, which has no parameters.
    key = str({key: value for key, value in model_options(name).items() if "dropout" not in key})
    if key not in PARAMETERS:
        with torch.device("meta"):
            model = build_model(arguments(name), task(VOCABULARY))
        PARAMETERS[key] = sum(parameter.numel() for parameter in model.parameters())
    return PARAMETERS[key]


@pytest.mark.parametrize("name", NAMES)
def test_model_has_the_parameters_that_the_header_says(name: str) -> None:
    header = (CONFIGS / f"{name}.yaml").read_text(encoding="utf-8").split("#\n")[0]
    stated = re.search(r"([\d,]+) parameters", header)
    assert stated is not None
    assert int(stated[1].replace(",", "")) == parameters(name)


def test_parameters_by_hand() -> None:
    # 3.1/3: DLCL, pre-norm, 6 + 6 layers.
    d, ffn, layers = 512, 1024, 6
    attention, norm = 4 * (d * d + d), 2 * d
    feed_forward = 2 * d * ffn + ffn + d
    encoder = layers * (attention + feed_forward + 2 * norm)
    decoder = layers * (2 * attention + feed_forward + 3 * norm)
    # For each stack a square of weights, a norm for each layer's output and one on top.
    history = 2 * ((layers + 1) ** 2 + layers * norm + norm)
    assert parameters("3.1/3") == 10_000 * d + encoder + decoder + history


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(CONFIGS).as_posix())
def test_header_comments_and_nothing_twice(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    name = path.relative_to(CONFIGS).with_suffix("").as_posix()
    assert lines[0].startswith("# ")
    if name in NAMES:
        assert f"#   examples/iwslt14/run.sh {name}" in lines
        assert any(line.startswith("# Published: ") for line in lines)
        bleu = all_rows()[name].bleu
        assert re.sub(r"\D*", "", bleu) in re.sub(r"[^\d]", "", "".join(line for line in lines if "ublished" in line))
    else:
        assert any("Not a recipe" in line or "to run by itself" in line for line in lines)
    own = yaml.load("\n".join(lines), yaml.BaseLoader)
    plain = [line for line in lines if not line.startswith(("#", "extends:")) and " # " not in line]
    assert len(plain) <= 0.5 * (len(own) - ("extends" in own))
    if "extends" in own:
        base = recipe.read_recipe(path.parent / own["extends"])
        assert not [key for key, value in own.items() if key in base and base[key].value == value]


def test_tables_are_in_the_project() -> None:
    assert (TABLES / "README.md").is_file()
    assert ROOT in TABLES.parents
