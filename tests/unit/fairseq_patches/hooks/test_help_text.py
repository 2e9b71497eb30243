"""`--help` of fairseq's commands lists the options of what is chosen, this package's first."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from fairseq import options
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq_cli import preprocess, score

import deepnmt

# The command line of the issue, and an option of each of its parts: the package's, then fairseq's.
TRAIN = (
    "--arch dlcl_transformer --criterion label_smoothed_cross_entropy_r_drop --lr-scheduler inverse_sqrt_reset "
    "--optimizer adam --task deep_translation"
)
OWN = ("--encoder-groups", "--r-drop-alpha", "--reset-updates", "--bpe-dropout", "--reference-kernels")
STOCK = ("--encoder-layers", "--label-smoothing", "--adam-betas", "--eval-bleu", "--max-tokens")
PARSERS = {
    "train": options.get_training_parser,
    "generate": options.get_generation_parser,
    "interactive": options.get_interactive_generation_parser,
    "validate": options.get_validation_parser,
    "eval-lm": options.get_eval_lm_parser,
}


def help_of(
    command: str, words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, **more: Any
) -> str:
    monkeypatch.setattr("sys.argv", [f"fairseq-{command}", *words.split(), "--help"])
    parser: Callable[[], Any] = PARSERS[command]
    with pytest.raises(SystemExit, match="0"):
        options.parse_args_and_arch(parser(), **more)
    return capsys.readouterr().out


def place(option: str, text: str) -> int:
    """Where an option's own line stands."""
    found = re.search(rf"^  (-\w.*, )?{option}\b", text, re.MULTILINE)
    assert found, option
    return found.start()


def test_a_training_lists_the_options_of_all_its_parts(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = help_of("train", f"DATA --user-dir {deepnmt.__path__[0]} {TRAIN} --lr 0.1", capsys, monkeypatch)
    own, stock = ([place(option, text) for option in names] for names in (OWN, STOCK))
    assert max(own) < min(stock)
    for part in TRAIN.split("--")[1:]:
        chosen = part.strip()
        assert (f"deepnmt: options of --{chosen}:\n" in text) == (chosen != "optimizer adam")
    assert text.startswith("usage: fairseq-train data [OPTION]...\n")
    for name in (*OWN, *STOCK):
        assert len(re.findall(rf"^  (?:-\w.*, )?{name}(?= |$)", text, re.MULTILINE)) == 1, name


@pytest.mark.parametrize("command", ["generate", "interactive", "validate"])
def test_commands_that_read_checkpoints(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = help_of(command, "--task deep_translation", capsys, monkeypatch)
    assert place("--length-penalty", text) < place("--path", text)
    # Without the task none is left but that of all commands, and no data folder is asked for.
    text = help_of(command, "", capsys, monkeypatch)
    assert place("--reference-kernels", text) < place("--path", text)
    assert "--length-penalty" not in text
    assert "--task deep_translation" in text


def test_language_models(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    text = help_of("eval-lm", "", capsys, monkeypatch)
    assert place("--tokens-per-sample", text)
    assert place("--softmax-batch", text)


@pytest.mark.parametrize(
    ("command", "words", "right"),
    [
        (preprocess, ["--user-dir", deepnmt.__path__[0]], ["--task", "--trainpref", "--srcdict", "--only-source"]),
        (score, [], ["--sys", "--ref", "--order", "--ignore-case", "--sentence-bleu"]),
    ],
)
def test_commands_without_such_parts(
    command: Any,
    words: list[str],
    right: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.argv", ["fairseq", *words, "--help"])
    with pytest.raises(SystemExit, match="0"):
        command.cli_main()
    text = capsys.readouterr().out
    assert [place(option, text) for option in right]
    # Names of the package's can be given where fairseq asks for one.
    assert ("label_smoothed_cross_entropy_r_drop" in text) == ("inverse_sqrt_reset" in text) == bool(words)


def test_a_training_without_an_architecture(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = help_of("train", "--criterion label_smoothed_cross_entropy_r_drop", capsys, monkeypatch)
    assert place("--r-drop-alpha", text) < place("--arch", text)
    assert "dlcl_transformer_tiny" in text
    assert "Model-specific configuration" not in text


def test_values_that_do_not_exist_are_said(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["fairseq-train", "--criterion", "nothing", "--help"])
    with pytest.raises(SystemExit, match="2"):
        options.parse_args_and_arch(options.get_training_parser())
    assert "argument --criterion: invalid choice: 'nothing'" in capsys.readouterr().err


@pytest.mark.parametrize("family", ["lstm", "fconv", "lightconv", "transformer", "levenshtein_transformer", "hubert"])
def test_help_texts_of_fairseq_that_argparse_has_never_printed(
    family: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert family in ARCH_MODEL_REGISTRY
    text = help_of("train", f"--arch {family}", capsys, monkeypatch)
    assert f"--arch {family}" not in text
    assert "Model-specific configuration" in text


def test_a_percent_sign_stays(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    parser = options.get_training_parser()
    parser.add_argument("--share", help="10% of all")
    with pytest.raises(SystemExit, match="0"):
        options.parse_args_and_arch(parser, ["--help"])
    assert re.search(r"--share SHARE\s+10% of all\n", capsys.readouterr().out)
