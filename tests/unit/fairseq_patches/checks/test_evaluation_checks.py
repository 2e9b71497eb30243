"""fairseq-generate, fairseq-interactive and fairseq-validate say what is wrong with their options before they load."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from fairseq import options, utils
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.tasks.language_modeling import LanguageModelingTask
from omegaconf import OmegaConf

import deepnmt  # noqa: F401  puts the checks in place
from deepnmt import console
from deepnmt.errors import UserError


@cache
def parsed() -> Any:
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(sys, "argv", ["fairseq-generate"])
        args = options.parse_args_and_arch(options.get_generation_parser(), ["data", "--path=model.pt"])
    return convert_namespace_to_omegaconf(args)


def imported(**changes: Any) -> None:
    """Do what each command does first: import the plug-in that its options name."""
    cfg = OmegaConf.create(parsed(), flags={"allow_objects": True})
    for name, value in changes.items():
        OmegaConf.update(cfg, name.replace("__", "."), value, merge=False, force_add=True)
    utils.import_user_module(cfg.common)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"common_eval__path": None},
            "--path must be a checkpoint, or several with colons between them, but is not given",
        ),
        (
            {"common_eval__path": ""},
            "--path must be a checkpoint, or several with colons between them, but is not given",
        ),
        (
            {"common_eval__model_overrides": "{a"},
            r"--model-overrides must be a dictionary such as \{'data': 'DATA'\}, but is \{a",
        ),
        ({"common_eval__model_overrides": "[1]"}, r"--model-overrides must be a dictionary .*, but is \[1\]"),
        ({"common__seed": -5}, "--seed must be from 0 to 4294967295, but is -5"),
        (
            {"generation__iter_decode_max_iter": 3},
            "--iter-decode-max-iter must be given with an iterative decoder alone",
        ),
        ({"generation__decoding_format": "vote"}, "--decoding-format must be given with an iterative decoder alone"),
        (
            {"eval_lm__context_window": 16, "task": {"_name": "language_modeling", "tokens_per_sample": 16}},
            "--context-window must be below --tokens-per-sample 16, but is 16",
        ),
        ({"generation__print_step": True}, "--print-step must be given with an iterative decoder alone"),
        (
            {"generation__retain_iter_history": True},
            "--retain-iter-history must be given with an iterative decoder alone",
        ),
        (
            {"task": {"_name": "translation_from_pretrained_bart", "langs": None}},
            "--langs must be the languages of the pretrained model, such as en_XX,de_DE, but is not given",
        ),
    ],
    ids=str,
)
def test_what_is_wrong_is_a_line(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=f"^{message}$"):
        imported(**changes)


def test_what_is_right_and_what_is_a_training() -> None:
    imported()
    imported(common_eval__model_overrides="{'data': 'other'}", common__seed=0)
    imported(generation__print_step=True, task___name="translation_lev")
    imported(task={"_name": "translation_from_pretrained_bart", "langs": "en_XX,de_DE"})
    imported(common_eval__path=None, optimizer={"_name": "adam"})


def test_a_pipe_that_nobody_may_write_to_is_no_input(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    message = f"--input must be a file, or - for standard input, but is the named pipe {pipe}"
    with pytest.raises(UserError, match=f"^{message}$"):
        imported(interactive__input=str(pipe))
    imported(interactive__input=str(tmp_path / "file"))


def test_a_byte_order_mark_would_be_a_part_of_the_first_word(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("a b\n", "utf-8")
    (tmp_path / "marked").write_text("a b\n", "utf-8-sig")
    imported(interactive__input=str(tmp_path / "plain"))
    with pytest.raises(UserError, match=r"^--input must begin with text, but .*/marked begins with a byte order mark"):
        imported(interactive__input=str(tmp_path / "marked"))


def test_all_faults_are_said_at_once() -> None:
    with pytest.raises(UserError, match="--path") as error:
        imported(common_eval__path=None, common__seed=-1)
    assert [line.split(" must")[0] for line in str(error.value).splitlines()] == ["--path", "--seed"]


def test_validation_needs_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["fairseq-validate"])
    given = ["data", "--path=model.pt", "--max-tokens=9"]
    with pytest.raises(UserError, match=r"^--task must be given, such as --task translation, but is not$"):
        options.parse_args_and_arch(options.get_validation_parser(), given)
    args = options.parse_args_and_arch(options.get_validation_parser(), [*given, "--task=translation"])
    assert args.task == "translation"


def test_perplexity_is_of_language_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["fairseq-eval-lm"])
    given = ["data", "--path=model.pt"]
    with pytest.raises(UserError, match=r"^--task must be one of language models, .*, but is translation$"):
        options.parse_args_and_arch(options.get_eval_lm_parser(), [*given, "--task=translation"])
    assert options.parse_args_and_arch(options.get_eval_lm_parser(), given).task == "language_modeling"


def test_a_training_needs_an_architecture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["fairseq-train"])
    with pytest.raises(
        UserError, match=r"^--arch must be given, such as --arch dlcl_transformer, but is not$"
    ) as error:
        options.parse_args_and_arch(options.get_training_parser(), ["data"])
    assert isinstance(error.value, RuntimeError)


class Reached(Exception):
    """The evaluation would begin."""


def test_options_of_tasks_without_a_dataclass() -> None:
    imported(task=Namespace(_name="translation_multi_simple_epoch"))


def test_an_evaluation_leaves_nothing_out(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(console, "_runs", True)
    task = LanguageModelingTask.__new__(LanguageModelingTask)
    monkeypatch.setattr(LanguageModelingTask, "source_dictionary", None)
    monkeypatch.setattr(LanguageModelingTask, "get_batch_iterator", raises(Reached))
    samples = Namespace(sizes=[7, 16])
    message = "^--tokens-per-sample must be at most the 15 positions of the model, but a sample has 16 tokens$"
    with pytest.raises(UserError, match=message):
        task.eval_lm_dataloader(samples, max_positions=15)
    with pytest.raises(Reached, match=r"^$"):
        task.eval_lm_dataloader(samples, max_positions=16)
    with pytest.raises(UserError, match=r"^--tokens-per-sample must be at most the 16 positions .* has 17 tokens$"):
        task.eval_lm_dataloader(samples, max_positions=16, context_window=1)
    # A program gets what fairseq does, and is told.
    monkeypatch.setattr(console, "_runs", False)
    with pytest.raises(Reached, match=r"^$"):
        task.eval_lm_dataloader(samples, max_positions=15)
    assert [record.message for record in caplog.records] == [message.strip("^$")]


def raises(error: type[Exception]) -> Callable[..., None]:
    def function(*args: Any, **kwargs: Any) -> None:
        raise error

    return function
