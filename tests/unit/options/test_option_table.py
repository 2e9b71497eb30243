"""Each rule of the table by itself, for every row: values that it lets through and values that it does not."""

from __future__ import annotations

import math
from typing import Any

import pytest

from deepnmt.options.option_table import EXPORT, MODEL, OPTIONS, SEARCH, SEARCHES, TRAINING, holds, range_faults

INF, NAN = math.inf, math.nan
# What is said of a wrong value, right values, wrong ones, and the options. The largest whole number is 2^31 - 1.
FROM_0 = ("at least 0 and at most 2147483647", [0, 1, 2147483647, "7"], [-1, 2147483648, "x"])
FROM_1 = ("at least 1 and at most 2147483647", [1, 2147483647], [0, -1, 2147483648])
OFF = ("-1 (off), or from 0 to 2147483647", [-1, 0, 2147483647], [-2, 2147483648])
NOT_NEGATIVE = ("a finite number of at least 0", [0, 1e-9, 3.5], [-1e-9, INF, NAN])
ABOVE_0 = ("a finite number above 0", [1e-9, 3.5], [0, -1, INF, NAN])
SHARE = ("at least 0 and below 1", [0, 0.999], [1, -0.001, NAN])
SHARE_ABOVE_0 = ("above 0 and at most 1", [0.001, 1], [0, 1.001, NAN])
FINITE = ("a finite number", [-3, 0, 2.5], [INF, -INF, NAN])
WIDE = ("from 1 to 1048576", [1, 1048576], [0, 1048577])
BEAM = ("from 1 to 256", [1, 256], [0, 257])
KINDS: list[tuple[str, list[Any], list[Any], str]] = [
    (
        *FROM_0,
        "max_update cooldown_updates max_epoch curriculum ignore_prefix_size warmup_updates save_interval_updates",
    ),
    (*FROM_0, "validate_interval_updates validate_after_updates encoder_max_relative_length max_len_b dlcl_window"),
    (*FROM_0, "decoder_max_relative_length decoder_lm_layers check"),
    (*FROM_1, "max_tokens max_tokens_valid batch_size batch_size_valid required_batch_size_multiple fp16_init_scale"),
    (*FROM_1, "required_seq_len_multiple save_interval validate_interval max_valid_steps log_interval bucket_cap_mb"),
    (*FROM_1, "competence_updates competence_every"),
    (*FROM_1, "distributed_world_size encoder_attention_heads decoder_attention_heads neighbours shortlist"),
    (*FROM_1, "embedding_factor"),
    ("at least 0 and at most 1", [0, 0.5, 1], [-0.1, 1.1, NAN], "fused_drop dual_lm_share"),
    ("from 2 to 256", [2, 256], [1, 257], "dual_samples"),
    ("different languages, such as en,de", ["en", "en,de"], ["en,", "en,en"], "mass_langs"),
    (
        "none, or whole numbers that increase, such as 10000,20000",
        ["none", "10", "1,2"],
        ["0", "2,1", "all"],
        "encoder_embedding_cutoffs",
    ),
    (*OFF, "patience keep_interval_updates keep_last_epochs keep_best_checkpoints"),
    (*NOT_NEGATIVE, "unigram_sampling l1 l2 lambda_otf lambda_dual dual_weight lm_loss_weight"),
    (*NOT_NEGATIVE, "stop_time_hours clip_norm adam_eps weight_decay momentum max_len_a min_len_ratio coverage_weight"),
    (*ABOVE_0, "min_loss_scale max_len_ratio temperature neighbour_temperature"),
    (*SHARE, "label_smoothing bpe_dropout encoder_skip decoder_skip encoder_word_dropout decoder_word_dropout dropout"),
    (*SHARE, "encoder_layerdrop decoder_layerdrop attention_dropout activation_dropout relu_dropout dlcl_dropout"),
    (*SHARE, "adaptive_softmax_dropout neighbour_weight"),
    (*SHARE_ABOVE_0, "coverage_floor ds_init_alpha mass_share sample_share"),
    (*FINITE, "unkpen diverse_beam_strength"),
    (*WIDE, "max_source_positions max_target_positions encoder_embed_dim decoder_embed_dim encoder_ffn_embed_dim"),
    (*WIDE, "decoder_ffn_embed_dim decoder_input_dim decoder_output_dim"),
    (*BEAM, "beam nbest"),
    ("above 0 and below 1", [0.001, 0.999], [0, 1, NAN], "competence_start"),
    ("at least 2 and at most 2147483647", [2], [1, 0], "sample_warmup"),
    (
        "finite numbers of at least 0, one of them above 0, such as 1,0.5",
        ["1", "1,0.5", "0,2"],
        ["0", "1,-1", "1,inf", "nan", "1;2", "x"],
        "set_weights",
    ),
    ("from 1 to 10000", [1, 10000], [0, 10001], "encoder_layers decoder_layers"),
    ("from 1 to 1000", [1, 1000], [0, 1001], "validate_average"),
    ("from 0 to 1024", [0, 1024], [-1, 1025], "num_workers"),
    ("from 0 to 1048576", [0, 1048576], [-1, 1048577], "data_buffer_size"),
    ("from 0 to 4294967295", [0, 4294967295], [-1, 4294967296], "seed"),
    ("numbers, each at least 1 and at most 2147483647", [[1], [4, 2]], [[], [1, 0], [2147483648]], "update_freq"),
    ("numbers, each a finite number above 0", [[0.1], [1, 1e-9]], [[], [0.1, 0], [INF]], "lr"),
    ("at least 0 and at most 1", [0, 0.5, 1], [-0.1, 1.1, NAN], "quant_noise_pq"),
    ("-1 (automatic), or a finite number of at least 0", [-1, 0, 0.1], [-0.5, INF, NAN], "warmup_init_lr"),
    ("from -100 to 100", [-100, 0.6, 100], [-100.1, 100.1, NAN], "lenpen"),
    ("at least 1, or -1 for all types", [1, 5, -1], [0, -2], "sampling_topk"),
    ("above 0 and at most 1, or -1 for all types", [0.1, 1, -1], [0, 1.1, -0.5, NAN], "sampling_topp"),
    ("at least 0", [0, 3.5, INF], [-0.1, NAN], "prune_gap"),
    ("last, mean, or a number from 1", ["last", "mean", "3"], ["first", "0", "-1", "1.5"], "coverage_layer"),
    (
        "two numbers of at least 0 and below 1, such as (0.9, 0.98)",
        ["(0.9, 0.98)", "[0, 0.5]", (0.9, 0.999)],
        ["(0.9,)", "(0.9, 1)", "(-0.1, 0.9)", "0.9", "(a, b)", "(True, 0.5)", "(" * 300],
        "adam_betas",
    ),
    (
        "whole numbers that increase, such as 10000,20000",
        ["1", "100,200", "(1, 2)", [3, 4], 5],
        ["0", "2,1", "1,1", "1.5", "a", "-1,3", "True"],
        "adaptive_softmax_cutoff",
    ),
    (
        'JSON such as {"beam": 4}, with a beam from 1 to 256',
        ['{"beam": 256}', "{}", '{"max_len_b": 3}'],
        ['{"beam": 0}', '{"beam": 257}', '{"beam": "4"}', '{"beam": 1.5}', "[]", "beam"],
        "eval_bleu_args",
    ),
    ('JSON such as {"target_lang": "de"}', ['{"a": 1}', "{}"], ["[]", "de", "{" * 300], "eval_bleu_detok_args"),
]
CASES = {name: (words, right, wrong) for words, right, wrong, names in KINDS for name in names.split()}


def test_every_row_with_a_rule_is_here_once() -> None:
    assert CASES.keys() == {name for name, row in OPTIONS.items() if row.rule}
    assert len(CASES) == sum(len(names.split()) for *_, names in KINDS)


@pytest.mark.parametrize("name", CASES)
def test_rule(name: str) -> None:
    words, right, wrong = CASES[name]
    row = OPTIONS[name]
    assert row.rule
    assert row.rule.words == words
    shown = name.replace("_", "-")
    for value in right:
        assert holds(row.rule, value), value
        assert list(range_faults({name: value}, row.role)) == []
    for value in wrong:
        assert not holds(row.rule, value), value
        text = ",".join(map(str, value)) if isinstance(value, list) else value
        assert list(range_faults({name: value}, row.role)) == [(shown, f"must be {words}, but is {text}")]
    # Nobody else asks.
    others = {TRAINING, MODEL, SEARCH, EXPORT} - {row.role}
    assert list(range_faults(dict.fromkeys([name], wrong[0]), *others)) == []


@pytest.mark.parametrize("value", [None, "", "${model.dropout}"])
def test_what_is_not_given_is_not_asked(value: object) -> None:
    assert list(range_faults(dict.fromkeys(OPTIONS, value), TRAINING, MODEL, SEARCH, EXPORT)) == []


@pytest.mark.parametrize("name", ["max_tokens", "batch_size"])
def test_what_follows_another_option_is_named_once(name: str) -> None:
    faults = list(range_faults({name: 0, f"{name}_valid": 0}, TRAINING))
    assert [fault for fault, _ in faults] == [name.replace("_", "-")]
    assert len(list(range_faults({name: 0, f"{name}_valid": -1}, TRAINING))) == 2


@pytest.mark.parametrize("name", SEARCHES)
def test_options_of_the_search_are_whole(name: str) -> None:
    row = SEARCHES[name]
    assert row.role == SEARCH
    assert row.help
    # A flag has no value to name.
    assert bool(row.metavar) == (row.kind is not bool)
    assert not row.choices or row.default in row.choices
    assert row.default is None or row.rule is None or holds(row.rule, row.default)


@pytest.mark.parametrize("name", [name for name, row in OPTIONS.items() if row.part_of])
def test_what_says_nothing_without_another_option(name: str) -> None:
    wholes = ("encoder_groups", "adaptive_softmax_cutoff", "base_layers", "decoder_self_attention")
    wholes += ("encoder_embedding_cutoffs",)
    assert OPTIONS[name].part_of in wholes
