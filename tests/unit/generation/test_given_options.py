"""Options of fairseq-generate that a translation of a subset refuses."""

from __future__ import annotations

from dataclasses import fields

import pytest
from fairseq.options import get_generation_parser
from fairseq.tasks.translation import TranslationConfig

from deepnmt.errors import UserError
from deepnmt.generation import given_options
from deepnmt.translation_task import DeepTranslationConfig, DeepTranslationTask


def test_options_that_are_set_already_are_refused() -> None:
    words = ["--user-dir", "own", "--path=a.pt", "--gen-subset", "valid", "--source-lang=x", "--target-lang", "y"]
    with pytest.raises(UserError, match=r"^--user-dir must not be given: it is the plug-in") as error:
        given_options.check_options([*words, "--results-path", "z", "--beam", "3"])
    assert str(error.value).splitlines()[1:] == [
        "--path must not be given: it is CHECKPOINT",
        "--gen-subset must not be given: use --subset",
        "--source-lang must not be given: it is DATA's, or with --reverse its target",
        "--target-lang must not be given: it is DATA's, or with --reverse its source",
        "--results-path must not be given: it is OUT_DIR",
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-s", "en", "-t", "de"], "-s must not be given: it is DATA's source language, or with --reverse its target"),
        (["--beam=3", "-sen"], "-s must not be given: it is DATA's source language, or with --reverse its target"),
        (["-t=de"], "-t must not be given: it is DATA's target language, or with --reverse its source"),
        (["--constraint-file=x"], "--constraint-file must not be given: --terms makes it"),
        (["--constraint-file", "x"], "--constraint-file must not be given: --terms makes it"),
        (["--nbest-file=x"], "--nbest-file must not be given: --nbest makes it"),
        (["--results-path=x"], "--results-path must not be given: it is OUT_DIR"),
        (["--selected-on=x"], "--selected-on must not be given: generate.json has it"),
    ],
)
def test_other_forms_of_these_options_are_refused(words: list[str], message: str) -> None:
    with pytest.raises(UserError, match=f"^{message}"):
        given_options.check_options(words)


def test_all_names_of_these_options_are_known() -> None:
    """fairseq-generate has no other name for any of them."""
    parser = get_generation_parser()
    DeepTranslationTask.add_args(parser)
    names = [set(action.option_strings) for action in parser._actions]
    assert {"--source-lang", "-s"} in names
    given = {*given_options.GIVEN}
    assert all(each <= given for each in names if each & given)


def test_negative_numbers_are_no_short_options() -> None:
    given_options.check_options(["--lenpen", "-1", "--unkpen=-2", "--prefix-size", "-0.5"])


def test_options_of_the_task_are_refused_beside_another() -> None:
    own = {field.name for field in fields(DeepTranslationConfig)} - {field.name for field in fields(TranslationConfig)}
    # The others are fairseq's, and have another place.
    assert {*given_options.OF_THE_TASK} == {
        "nbest",
        *(name.replace("_", "-") for name in own - {"seed", "update_freq"}),
    }
    for options in (
        [],
        ["--nbest", "3", "--coverage=gnmt"],
        ["--task", "deep_translation", "--nbest=3"],
        ["--task=x", "--beam=2"],
    ):
        given_options.check_options(options)
    with pytest.raises(UserError, match=r"^--nbest: must be given with --task") as error:
        given_options.check_options(["--nbest=3", "--task", "translation", "--lenpen", "1", "--prune-gap", "2"])
    assert str(error.value).splitlines() == [
        "--nbest: must be given with --task deep_translation alone, but is with translation",
        "--prune-gap: must be given with --task deep_translation alone, but is with translation",
    ]


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ([], ""),
        (["--beam", "3"], ""),
        (["--datastore", "a:b", "--beam", "3"], "a:b"),
        (["--datastore=a", "--datastore", "b=c"], "b=c"),
        (["--datastores", "a", "--datastore"], ""),
    ],
)
def test_value_of_an_option(words: list[str], value: str) -> None:
    assert given_options.value_of(words, "--datastore") == value
