"""Recipe and command line, checked together: a line for each fault, before anything expensive starts."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deepnmt.errors import UserError
from deepnmt.options.option_table import OPTIONS, TRAINING, dashed, is_json_mapping
from deepnmt.recipe import read_recipe
from deepnmt.recipe.__main__ import main
from deepnmt.recipe.checking import check_recipe

VALID = {
    "arch": "dlcl_transformer_tiny",
    "optimizer": "adam",
    "lr-scheduler": "inverse_sqrt",
    "criterion": "label_smoothed_cross_entropy",
    "lr": "0.001",
    "max-tokens": "100",
}
Run = Callable[..., list[str]]


def text_of(**options: str) -> str:
    """A recipe; an option that is "" is left out."""
    merged = {**VALID, **{key.replace("_", "-"): value for key, value in options.items()}}
    return "".join(f"{key}: {value}\n" for key, value in merged.items() if value)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """`python -m deepnmt.recipe` in this process: the arguments that it prints."""

    def command(recipe: str, *words: str) -> list[str]:
        (tmp_path / "r.yaml").write_text(recipe, encoding="utf-8")
        monkeypatch.setattr(sys, "argv", ["recipe.py", str(tmp_path / "r.yaml"), "--lines", *words])
        before = list(sys.argv)
        try:
            main()
        finally:
            assert sys.argv == before
            printed = capsys.readouterr().out.splitlines()
        return printed

    return command


# ruff: noqa: E501
# Each is the value of one option, and what is said of it.
LINES = {
    "lr": [("0", "r.yaml:5: lr must be numbers, each a finite number above 0, but is 0"), ("-1", "above 0, but is -1"),
           ("nan", "lr must be numbers, but is 'nan'"), ("__import__('os')", "lr must be numbers, but is '__import__"),
           ("9**9**9**9", "lr must be numbers, but is '9"), ("0.1,-2", "above 0, but is 0.1,-2")],
    "label-smoothing": [("2", "must be at least 0 and below 1, but is 2.0"), ("nan", "below 1, but is nan")],
    "clip-norm": [("-1", "must be a finite number of at least 0, but is -1.0"), ("inf", "but is inf")],
    "patience": [("-3", r"must be -1 \(off\), or from 0 to 2147483647, but is -3")],
    "max-update": [("0", "must be at least 1 where nothing else ends the training .*, but is 0"),
                   ("1" + "0" * 30, "must be at least 0 and at most 2147483647, but is 10"), ("-1", "but is -1"),
                   ("1e3", "must be a whole number, but is '1e3'")],
    "max-epoch": [("0", "must be at least 1 where nothing else ends the training .*max-update.*, but is 0")],
    "max-tokens": [("0", "r.yaml:6: max-tokens must be at least 1 and at most 2147483647, but is 0"), ("-5", "but is -5"),
                   ("", "r.yaml: a recipe must have max-tokens or batch-size, but has neither"),
                   ("2147483648", "but is 2147483648"), ("9" * 5000, "must be a whole number, but is '9")],
    "max-tokens-valid": [("0", "r.yaml:7: max-tokens-valid must be at least 1 and at most 2147483647, but is 0"),
                         ("many", "max-tokens-valid must be at least 1 and at most 2147483647, but is many")],
    "adam-betas": [(text, "must be two numbers of at least 0 and below 1, such as .*, but is")
                   for text in ("0.9", "(0.9, 1)", "(0.9, -0.1)", "(0.9, 0.98, 0)", "x", "(1e400, 0)", "'(' * 9")],
    "warmup-updates": [("0", "must be at least 1 with lr-scheduler inverse_sqrt, but is 0"), ("-4", "but is -4")],
    "update-freq": [("1.5", "r.yaml:7: update-freq must be whole numbers, but is '1.5'"), ("2,2.5", "but is '2,2.5'"),
                    ("1,0", "must be numbers, each at least 1 and at most 2147483647, but is 1,0")],
    "lr-scheduler": [("triangular", "--max-lr must be given, but is not")],
    "log-interval": [("0", "must be at least 1 and at most 2147483647, but is 0")],
    "adaptive-softmax-cutoff": [(text, "must be whole numbers that increase, such as 10000,20000, but is")
                                for text in ("5,3", "-3", "0", "4,4")]
                               + [("4,9", "criterion must be adaptive_loss with adaptive-softmax-cutoff, but is label_")],
    "quant-noise-pq": [("2", "must be at least 0 and at most 1, but is 2.0")],
    "eval-bleu-detok-args": [(text, 'must be JSON such as {"target_lang": "de"}, but is') for text in ("[1", "[1]", "x")],
    "best-checkpoint-metric": [("bleu", "must be a figure of the validation, but is bleu without eval-bleu")],
    "criterion": [("nat_loss", "must be one for translation, such as cross_entropy, but is nat_loss"),
                  ("label_smoothed_cross_entropy_two_sided", "two-sided must be given with criterion .*_two_sided, but is not")],
    "two-sided": [("true", "criterion must be label_smoothed_cross_entropy_two_sided with two-sided, but is label_s")],
    "dataset-impl": [("fasta", "must be mmap, lazy, cached or raw for translation, but is fasta")],
    "num-workers": [("1" + "0" * 20, "must be from 0 to 1024, but is 1000")],
    "encoder-layers": [("1000000000", "r.yaml:7: encoder-layers must be from 1 to 10000, but is 1000000000"), ("0", "from 1"),
                       ("-2", "must be from 1 to 10000, but is -2")],
    "encoder-embed-dim": [("0", "must be from 1 to 1048576, but is 0"), ("127", "must be divisible by --encoder-attention-heads 4, but is 127")],
    "encoder-attention-heads": [("2147483648", "r.yaml:7: encoder-attention-heads must be at least 1 and at most 2147483647, but is 2147483648"),
                                ("0", "r.yaml:7: encoder-attention-heads must be at least 1 and at most 2147483647, but is 0")],
    "encoder-ffn-embed-dim": [("0", "must be from 1 to 1048576, but is 0"), ("2147483648", "but is 2147483648")],
    "decoder-embed-dim": [("-128", "must be from 1 to 1048576, but is -128"), ("2147483648", "but is 2147483648")],
    "encoder-groups": [("0,6,6,12", "r.yaml:7: encoder-groups: boundaries must be increasing, but are")],
    "task": [("online_backtranslation", "r.yaml:7: task must be translation or a kind of it for .*, but is online_b"),
             ("translation_from_pretrained_xlm", "a kind of it for .*, but is translation_from_pretrained_xlm"), ("language_modeling", "task must be translation or a kind of it for dlcl_.*, but is language_modeling")],
    "arch": [("transfomer", r"r.yaml:1: arch must be one of .*, but is 'transfomer' \(did you mean 'transformer'\?\)"),
             ("", "a recipe must name an architecture"), ("false", "a recipe must name an architecture")],
    "optimizer": [("", "a recipe must name an optimizer"), ("adan", "optimizer must be one of .*, but is 'adan'")],
    "save-dir": [("x", "r.yaml:7: save-dir must not be set in a recipe: it is the command's SAVE")],
    "user-dir": [("/x", "r.yaml:7: user-dir must not be set in a recipe: it is the plug-in")],
    "fp16": [("yes", "r.yaml:7: fp16 must be true or false, but is 'yes'")],
    "dropout": [("true", "dropout must have a value, but has none"), ("1.5", "r.yaml:7: dropout must be at least 0 and below 1")],
    "nprocs-per-node": [("5", "r.yaml:7: nprocs-per-node must not be set in a recipe: it is the command's PROCESSES")],
    "distributed-rank": [("5", "it is the command's NODE")], "distributed-port": [("-5", "it is the port of the command's MASTER")],
    "distributed-init-method": [("tcp://nowhere:99999", "it is the command's MASTER")],
    "help": [("true", "r.yaml:7: 'help' is not an option of fairseq-train")],
    "eval-bleu-args": [('{"beam": 1000}', "with a beam from 1 to 256"), ("{", "must be JSON such as")],
}  # fmt: skip
CASES = [(key, value, message) for key, cases in LINES.items() for value, message in cases]


@pytest.mark.parametrize(("key", "value", "message"), CASES, ids=[f"{key}-{value[:20]}" for key, value, _ in CASES])
def test_one_line_before_anything_starts(key: str, value: str, message: str, run: Run) -> None:
    quoted = value if key in ("lr", "arch") or not value else "'" + value.replace("'", "''") + "'"
    with pytest.raises(UserError, match=message) as error:
        run(text_of(**{key: quoted}))
    assert len(str(error.value).splitlines()) == 1


def test_command_line_is_held_against_the_same_table(run: Run) -> None:
    with pytest.raises(UserError, match=r"r\.yaml:5: lr must be") as error:
        run(text_of(lr="-1", dropout="3"), "--clip-norm", "-1", "--patience=-3", "--dropout", "0.1", "--seed", "-1")
    assert [line.split(" must ")[0].split("/")[-1] for line in str(error.value).splitlines()] == [
        "--patience",
        "r.yaml:5: lr",
        "--clip-norm",
        "--seed",
    ]
    with pytest.raises(UserError, match=r"r\.yaml:7: max-update must be a whole number, but is '0.5'$"):
        run(text_of(max_update="0.5"), "--max-update", "3")
    with pytest.raises(UserError, match=r"^--lr must be numbers, but is 'false'$"):
        run(text_of(), "--lr=false")
    with pytest.raises(UserError, match=r"^--lr: invalid value: 'nan'$"):
        run(text_of(), "--lr=nan", "--lr=1")
    with pytest.raises(UserError, match=r"^--drop-out is not an option of .* \(did you mean 'dropout'\?\)$"):
        run(text_of(), "--drop-out", "0.1")
    with pytest.raises(
        UserError, match=r"^--batches-per-update must stand in a recipe; .* give --update-freq instead$"
    ):
        run(text_of(), "--batches-per-update", "1")
    for key in ("--extends=base.yaml", "--stages=2"):
        with pytest.raises(UserError, match=rf"^{key.split('=')[0]} must stand in a recipe, not on the command line$"):
            run(text_of(), key)
    with pytest.raises(UserError, match=r"^--save-dir must not be set on the command line: it is the command's SAVE$"):
        run(text_of(), "--save-dir", "x")


@pytest.mark.parametrize(
    "valid",
    [
        {"patience": "-1"},
        {"clip-norm": "0"},
        {"warmup-updates": "0", "lr-scheduler": "fixed"},
        {"warmup-updates": "0", "lr-scheduler": "inverse_sqrt_reset", "decay-period": "10"},
        {"max-update": "0", "max-epoch": "2"},
        {"keep-last-epochs": "-1"},
        {"lr": "0.1,0.01", "update-freq": "1,2", "lr-scheduler": "fixed"},
        {"adam-betas": "'[0.9, 0.98]'"},
        {"max-tokens": "", "batch-size": "8"},
        {"memory-efficient-fp16": "true", "fp16": "true"},
        {"lr-scheduler": "inverse_sqrt_reset", "cooldown-updates": "10", "max-update": "10"},
        {"task": "deep_translation", "validate-average": "5", "keep-last-epochs": "8", "patience": "3"},
        {"task": "deep_translation", "validate-average": "5", "patience": "3"},
        {
            "task": "deep_translation",
            "validate-average": "5",
            "save-interval-updates": "10",
            "keep-interval-updates": "5",
        },
    ],
    ids=str,
)
def test_what_means_something_stays_valid(valid: dict[str, str], run: Run) -> None:
    assert run(text_of(**valid))


def test_only_arguments_are_printed(
    run: Run, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level("INFO")
    assert run(text_of())[0] == "--arch=dlcl_transformer_tiny"
    # fairseq logs "--user-dir=... has already been imported" where it sees that option.
    assert not caplog.records
    assert not capsys.readouterr().err


AVERAGE = {"task": "deep_translation", "validate-average": "5"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"lr-scheduler": "inverse_sqrt_reset", "cooldown-updates": "20", "max-update": "10"},
            r"r.yaml:\d+: cooldown-updates must be at most max-update, 10, but is 20",
        ),
        ({"task": "deep_translation", "validate-average": "0"}, "validate-average must be from 1 to 1000, but is 0"),
        (
            {**AVERAGE, "keep-last-epochs": "7", "patience": "3"},
            "keep-last-epochs must be at least 8, the sum of .* is 7",
        ),
        ({**AVERAGE, "keep-last-epochs": "4"}, "keep-last-epochs must be at least 5, the sum of .*, but is 4"),
        (
            {**AVERAGE, "save-interval-updates": "10", "keep-interval-updates": "7", "patience": "3"},
            "keep-interval-updates must be at least 8, the sum of .* is 7",
        ),
        ({**AVERAGE, "no-epoch-checkpoints": "true"}, "no-epoch-checkpoints must not be set with validate-average 5"),
        ({**AVERAGE, "no-save": "true"}, "no-save must not be set with validate-average 5"),
        ({**AVERAGE, "checkpoint-suffix": "-x"}, "checkpoint-suffix must not be given with validate-average 5, which"),
    ],
    ids=str,
)
def test_options_that_do_not_go_together(options: dict[str, str], message: str, run: Run) -> None:
    with pytest.raises(UserError, match=message) as error:
        run(text_of(**options))
    assert len(str(error.value).splitlines()) == 1


def test_missing_files_stand_beside_other_faults(run: Run) -> None:
    recipe = text_of(**{"task": "deep_translation", "pair-weights": "none.tsv"})
    message = r"^--dropout must be .*, but is 2\.0\n.*r\.yaml:8: pair-weights: no such file 'none\.tsv'$"
    with pytest.raises(UserError, match=message) as error:
        run(recipe, "--dropout", "2")
    assert len(str(error.value).splitlines()) == 2
    # Other commands than a training need no such file.
    assert "--pair-weights=none.tsv" in run(recipe)


def test_two_precisions_are_refused(run: Run) -> None:
    with pytest.raises(UserError, match=r"r.yaml:7: bf16 must be the only precision, but stands beside amp$"):
        run(text_of(bf16="true", amp="true"))
    with pytest.raises(UserError, match=r"^--fp16 must be the only precision, but stands beside bf16$"):
        run(text_of(bf16="true"), "--fp16")


@pytest.mark.parametrize(
    ("options", "words", "gpus", "expected"),
    [
        ({}, (), 1, ["--fp16"]),
        ({"bf16": "true"}, (), 1, ["--bf16"]),
        ({"amp": "true"}, (), 2, ["--amp"]),
        ({"fp16": "false"}, (), 1, []),
        ({"bf16": "false", "amp": "false", "memory-efficient-fp16": "false"}, (), 1, ["--fp16"]),
        ({"fp16": "false", "bf16": "true"}, (), 1, ["--bf16"]),
        ({}, ("--bf16",), 1, ["--bf16"]),
        ({}, ("--memory-efficient-fp16",), 1, ["--memory-efficient-fp16"]),
        ({"cpu": "true"}, (), 1, ["--cpu"]),
        ({}, (), 0, ["--cpu"]),
        ({"cpu": "true", "bf16": "true"}, (), 0, ["--bf16", "--cpu"]),
    ],
)
def test_precision_of_recipe_and_command_line(
    options: dict[str, str], words: tuple[str, ...], gpus: int, expected: list[str], run: Run
) -> None:
    printed = run(text_of(**options), "--gpus", str(gpus), *words)
    chosen = [word for word in printed if word.endswith(("fp16", "bf16", "--amp", "--cpu"))]
    assert sorted(chosen) == sorted(expected)


def test_half_precision_without_a_gpu(run: Run) -> None:
    with pytest.raises(UserError, match=r"r.yaml:7: fp16 must not be set where no GPU is visible, but is"):
        run(text_of(fp16="true"), "--gpus", "0")
    with pytest.raises(UserError, match=r"^--amp must not be set with --cpu, but is; --bf16 works there$"):
        run(text_of(), "--gpus", "1", "--amp", "--cpu")
    with pytest.raises(UserError, match=r"r.yaml:7: cpu must not be false where no GPU is visible, but is"):
        run(text_of(cpu="false"), "--gpus", "0")


# Files


@pytest.mark.parametrize("text", ["", "# nothing\n", "--- {}\n"], ids=["empty", "comments", "braces"])
def test_recipes_that_say_nothing(text: str, run: Run) -> None:
    with pytest.raises(UserError, match="must name an architecture") as error:
        run(text)
    assert "must name an optimizer" in str(error.value)
    assert "must have max-tokens or batch-size" in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lr: 1\nseed: \0\n", r"r.yaml:2: must be printable text, but has the character 0"),
        ('lr: 1\n"seed": "\\0"\n', r"r.yaml:2: an option must be one line of text, but has the character '\\x00'"),
        ("lr: |\n  1\n  2\n", "r.yaml:1: an option must be one line of text"),
        ("[" * 100_000, "nested without end"),
        ("{" * 100_000, "nested without end|not valid YAML"),
        ("- " * 100_000, "nested without end|not valid YAML"),
        ('{"lr": 1, "seed": [1]}', "r.yaml:1: an option must have one plain value"),
        ("? [a]\n: 1\n", "an option must have one plain value"),
        ("&a x: *a\n", "r.yaml"),
        ("a: 1\n" * (1 << 18), "a recipe must have at most 1048576 bytes, but has 1310720"),
        (f"extends: {'x' * 5000}\n", "extends must name a recipe, but"),
    ],
    ids=range(11),
)
def test_files_that_are_no_recipe(text: str, message: str, run: Run) -> None:
    with pytest.raises(UserError, match=message):
        run(text)


def test_chain_of_bases_and_a_pipe(tmp_path: Path) -> None:
    for number in range(300):
        (tmp_path / f"{number}.yaml").write_text(f"extends: {number + 1}.yaml\n", encoding="utf-8")
    (tmp_path / "300.yaml").write_text("lr: 1\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"49\.yaml:1: extends must end within 50 recipes, but does not"):
        read_recipe(tmp_path / "0.yaml")
    assert read_recipe(tmp_path / "260.yaml")["lr"].value == "1"
    os.mkfifo(tmp_path / "pipe.yaml")
    with pytest.raises(UserError, match=r"pipe\.yaml: a recipe must be a regular file, but is not"):
        read_recipe(tmp_path / "pipe.yaml")


# Properties: never a traceback, never half a result


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.one_of(
        st.text(max_size=60).map(str.encode),
        st.binary(max_size=60),
        st.text("a:&*[]{}-?|>!%@\n '\"\\#,1", max_size=40).map(str.encode),
    )
)
def test_any_bytes_are_a_recipe_or_a_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "any.yaml"
    path.write_bytes(content)
    try:
        options = read_recipe(path)
    except UserError as error:
        assert str(error).startswith(str(path)) or "extends" in str(error)  # noqa: PT017
    else:
        assert all(isinstance(option.value, str) and "\0" not in option.value for option in options.values())


NAMES = [*(dashed(name) for name, row in OPTIONS.items() if row.role == TRAINING), *VALID, "dropout", "encoder-layers", "decoder-ffn-embed-dim", "encoder-attention-heads",
         "encoder-groups", "initializer", "residual-scale", "encoder-norm", "task", "fp16", "bf16", "amp", "cpu", "restore-file",
         "optimizer-overrides", "batches-per-update", "no-such-option"]  # fmt: skip
NASTY = ["0", "-1", "-3", "1", "0.5", "2147483648", "1" + "0" * 30, "nan", "inf", "-inf", "1e400", "true", "false", "none",
         "deepnorm", "t-fixup", "admin", "post", "(0.9, 0.98)", "1,2", "[", "{}", "x", "9**9", "None", "--beam", "ü"]  # fmt: skip


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    changed=st.dictionaries(st.sampled_from(NAMES), st.sampled_from(NASTY), min_size=1, max_size=4),
    words=st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(NASTY)), max_size=2),
)
def test_any_options_are_arguments_or_lines(
    changed: dict[str, str], words: list[tuple[str, str]], tmp_path: Path
) -> None:
    path = tmp_path / "r.yaml"
    path.write_text("".join(f'{key}: "{value}"\n' for key, value in {**VALID, **changed}.items()), encoding="utf-8")
    try:
        parsed = check_recipe(path, read_recipe(path), [f"--{name}={value}" for name, value in words])
    except UserError as error:
        for line in str(error).splitlines():
            assert line.startswith((f"{path}:", "--")), line
    else:
        assert parsed.lr[0] > 0
        assert (parsed.max_tokens or 1) >= 1


@pytest.mark.parametrize("arch", ["levenshtein_transformer", "transformer_lm", "wav2vec2", "s2t_berard", "roberta"])
def test_models_that_are_not_of_sentence_pairs(arch: str, run: Run) -> None:
    message = rf"r\.yaml:1: arch must be a model of sentence pairs, such as transformer, with task translation, but is {arch}$"
    with pytest.raises(UserError, match=message):
        run(text_of(arch=arch))


@pytest.mark.parametrize("arch", ["transformer", "transformer_tiny", "fconv", "lightconv", "bart_base"])
def test_models_of_sentence_pairs(arch: str, run: Run) -> None:
    assert run(text_of(arch=arch))[0] == f"--arch={arch}"


def test_an_empty_text_is_no_json() -> None:
    """fairseq would end in a traceback; what is not given at all is its own default."""
    assert [is_json_mapping(value) for value in (None, "{}", "", "[]", "{")] == [True, True, False, False, False]
