"""`dlcl_dual`: two models that train as each would alone, split and joined checkpoints, and what is refused."""

from __future__ import annotations

import random
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from fairseq_cli import preprocess
from support.dual_models import build_dual
from support.models import EXAMPLE, SIZE, dictionary
from support.restarts import forget
from support.trainings import fairseq_train

import deepnmt
from deepnmt import cli
from deepnmt.checkpoints import data_fit
from deepnmt.checkpoints.averaging import average_checkpoints
from deepnmt.checkpoints.dual_files import join_checkpoints, split_checkpoint
from deepnmt.checkpoints.one_direction import of_direction
from deepnmt.checkpoints.starts import check_starts
from deepnmt.checkpoints.state import CheckpointState, new_contents
from deepnmt.checkpoints.trained_model import check_model, model_config
from deepnmt.errors import UserError
from deepnmt.model.config import DLCLTransformerConfig
from deepnmt.model.dual import DualConfig, DualModel
from deepnmt.options.dual_rules import UNSPLIT, missing
from deepnmt.recipe.combinations import rule_faults
from deepnmt.translation_task import DeepTranslationConfig, DeepTranslationTask

COMMON = ["--task=deep_translation", "--batch-size=8", "--share-all-embeddings", "--dropout=0.2", "--no-progress-bar"]
COMMON += ["--label-smoothing=0.1", "--sentence-avg", "--lr-scheduler=fixed", "--max-update=6", "--clip-norm=0"]
COMMON += ["--disable-validation", "--save-interval-updates=3", "--encoder-skip=0.3", "--decoder-norm=pre"]
DUAL = ["--arch=dlcl_dual", "--criterion=dual_supervised"]
ALONE = ["--criterion=label_smoothed_cross_entropy_fused"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data whose sentences have one length, and trainings of both directions and of each alone."""
    deepnmt.register()
    folder = tmp_path_factory.mktemp("dual")
    draw = random.Random(3)
    for language in "ab":
        words = [f"{language}{number}" for number in range(8)]
        lines = "".join(" ".join(draw.choices(words, k=4)) + "\n" for _ in range(24))
        for split in ("train", "valid"):
            (folder / f"{split}.{language}").write_text(lines, encoding="utf-8")
    command = ["fairseq-preprocess", "--source-lang=a", "--target-lang=b", "--joined-dictionary"]
    prefixes = [f"--{split}pref={folder / split}" for split in ("train", "valid")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [*command, *prefixes, f"--destdir={folder / 'data'}"])
        preprocess.cli_main()
        for name, more in (("dual", DUAL), ("fwd", ALONE), ("bwd", [*ALONE, "-s=b", "-t=a"])):
            forget()
            fairseq_train(patch, [str(folder / "data")], folder / name, *COMMON, *more)
    return folder


def last(folder: Path) -> dict[str, Any]:
    return dict(checkpoint_utils.load_checkpoint_to_cpu(str(folder / "checkpoint_last.pt")))


def test_each_model_trains_as_it_would_alone(trained: Path) -> None:
    both = last(trained / "dual")["model"]
    for direction in ("fwd", "bwd"):
        alone = last(trained / direction)["model"]
        names = {name.removeprefix(f"{direction}."): name for name in both if name.startswith(f"{direction}.")}
        assert names.keys() == alone.keys()
        assert all(torch.equal(alone[name], both[names[name]]) for name in alone)


def test_split_models_score_the_same(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [tmp_path / "fwd.pt", tmp_path / "bwd.pt"]
    cli.call("split", [str(trained / "dual" / "checkpoint_last.pt"), *map(str, paths)])
    assert capsys.readouterr().out == f"{paths[0]} and {paths[1]} are ready\n"
    (dual,), _, _ = checkpoint_utils.load_model_ensemble_and_task([str(trained / "dual" / "checkpoint_last.pt")])
    for path, direction, languages in zip(paths, ("fwd", "bwd"), ("ab", "ba")):
        (model,), cfg, task = checkpoint_utils.load_model_ensemble_and_task([str(path)])
        assert (task.cfg.source_lang, task.cfg.target_lang) == tuple(languages)
        assert (cfg.criterion._name, cfg.criterion.label_smoothing) == ("label_smoothed_cross_entropy_fused", 0.1)
        inputs = {name: each % len(task.source_dictionary) for name, each in EXAMPLE.items()}
        inputs["src_lengths"] = EXAMPLE["src_lengths"]
        expected = getattr(dual, direction).eval()(**inputs)[0]
        assert torch.equal(model.eval()(**inputs)[0], expected)
        # Generation takes it as any model.
        task.build_generator([model], Namespace(beam=2))
    with pytest.raises(UserError, match=r"^FWD and BWD must be different files, but are both .*fwd\.pt$"):
        split_checkpoint(trained / "dual" / "checkpoint_last.pt", tmp_path / "x" / "fwd.pt", tmp_path / "x" / "fwd.pt")
    with pytest.raises(UserError, match=r"fwd\.pt: the new checkpoint exists already$"):
        split_checkpoint(trained / "dual" / "checkpoint_last.pt", *paths)
    with pytest.raises(UserError, match=r"cfg\.model\._name must be dlcl_dual, but is dlcl_transformer$"):
        split_checkpoint(paths[0], tmp_path / "c.pt", tmp_path / "d.pt")


def test_averages_are_of_both_models_or_of_one(trained: Path, tmp_path: Path) -> None:
    checkpoints = sorted((trained / "dual").glob("checkpoint_*_*.pt"))
    assert len(checkpoints) == 2
    for path in checkpoints:
        check_model(CheckpointState.of(path))
    mean = average_checkpoints(checkpoints)["model"]
    halves = []
    for number, path in enumerate(checkpoints):
        split_checkpoint(path, tmp_path / f"fwd{number}.pt", tmp_path / f"bwd{number}.pt")
        halves.append(tmp_path / f"fwd{number}.pt")
    for name, tensor in average_checkpoints(halves)["model"].items():
        assert torch.equal(tensor, mean[f"fwd.{name}"])
    with pytest.raises(UserError, match=r"cannot be averaged with .*: it is of another training"):
        average_checkpoints([tmp_path / "fwd0.pt", tmp_path / "bwd1.pt"])


def test_checkpoints_of_each_direction_are_joined(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    starts = [trained / name / "checkpoint_last.pt" for name in ("fwd", "bwd")]
    cli.call("join", [*map(str, starts), str(tmp_path / "joint.pt")])
    assert capsys.readouterr().out == f"{tmp_path / 'joint.pt'} is ready\n"
    joined = torch.load(tmp_path / "joint.pt", weights_only=False)["model"]
    parts = [torch.load(path, weights_only=False)["model"] for path in starts]
    assert joined.keys() == {f"{name}.{key}" for name, part in zip(("fwd", "bwd"), parts) for key in part}
    for name, part in zip(("fwd", "bwd"), parts):
        assert all(torch.equal(joined[f"{name}.{key}"], tensor) for key, tensor in part.items())
    with pytest.raises(UserError, match=r"must translate b to a, but translates a to b$"):
        join_checkpoints(starts[0], starts[0], tmp_path / "c.pt")
    state = torch.load(starts[1], weights_only=False)
    state["cfg"]["model"]["activation_fn"] = "gelu"
    torch.save(state, tmp_path / "other.pt")
    with pytest.raises(UserError, match=r"other\.pt: cfg\.model\.activation_fn must be relu, as in .*, but is gelu$"):
        join_checkpoints(starts[0], tmp_path / "other.pt", tmp_path / "c.pt")


@pytest.mark.slow
def test_both_ways_to_begin_with_checkpoints_are_the_same_training(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = [trained / name / "checkpoint_last.pt" for name in ("fwd", "bwd")]
    join_checkpoints(*starts, tmp_path / "joint.pt")
    ways = ([f"--finetune-from-model={tmp_path / 'joint.pt'}"], [f"--fwd-from={starts[0]}", f"--bwd-from={starts[1]}"])
    saved = []
    for number, way in enumerate(ways):
        forget()
        options = [*COMMON, *DUAL, "--max-update=1", "--lr=0.001", *way]
        fairseq_train(monkeypatch, [str(trained / "data")], tmp_path / str(number), *options)
        saved.append(last(tmp_path / str(number))["model"])
    assert all(torch.equal(saved[0][name], saved[1][name]) for name in saved[0])
    # An update of Adam moves no parameter by more than the rate.
    for name, tensor in last(trained / "bwd")["model"].items():
        assert tensor.dtype != torch.float32 or float((saved[0][f"bwd.{name}"] - tensor).abs().max()) < 0.0011
    # A resumed training needs its starts no more.
    forget()
    gone = [*COMMON, *DUAL, "--max-update=2", "--fwd-from=gone.pt"]
    fairseq_train(monkeypatch, [str(trained / "data")], tmp_path / "1", *gone)
    assert last(tmp_path / "1")["optimizer_history"][-1]["num_updates"] == 2


def test_starts_that_are_missing_or_of_another_model_are_refused(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match=r"^--fwd-from: checkpoint 'gone\.pt' not found$"):
        fairseq_train(monkeypatch, [str(trained / "data")], tmp_path, *COMMON, *DUAL, "--fwd-from=gone.pt")
    task = Namespace(source_dictionary=dictionary(17), target_dictionary=dictionary(17))
    path = str(trained / "bwd" / "checkpoint_last.pt")
    with pytest.raises(UserError, match=r"^--bwd-from: .*: encoder\.embed_tokens\.weight must have the shape \(21, 16"):
        DualModel.build_model(DualConfig(**{**SIZE, "bwd_from": path}), task)


def test_starts_of_another_direction_or_model_are_refused(trained: Path, tmp_path: Path) -> None:
    """Their tensors have the same names and shapes."""
    fwd, bwd = (str(trained / name / "checkpoint_last.pt") for name in ("fwd", "bwd"))
    own, data, languages = vars(model_config(CheckpointState.of(Path(fwd)))), trained / "data", ("a", "b")
    check_starts(DualConfig(**own, fwd_from=fwd, bwd_from=bwd), data, languages)
    with pytest.raises(UserError, match=r"^--fwd-from: .*: must translate a to b, but translates b to a\n--bwd-from: "):
        check_starts(DualConfig(**own, fwd_from=bwd, bwd_from=fwd), data, languages)
    # Options of training alone may differ, and so may the way in which a norm is requested.
    more = {"dropout": 0.5, "decoder_norm": "auto", "decoder_normalize_before": True}
    check_starts(DualConfig(**{**own, **more}, fwd_from=fwd), data, languages)
    changed = DualConfig(**{**own, "encoder_attention_heads": 8, "activation_fn": "gelu"}, bwd_from=bwd)
    with pytest.raises(UserError, match=r"\n--bwd-from: .*encoder_attention_heads must be 8, as in this") as error:
        check_starts(changed, data, languages)
    line = f"--bwd-from: {bwd}: cfg.model.activation_fn must be gelu, as in this training, but is relu"
    assert line in str(error.value).splitlines()

    # Of a frozen encoder, the decoder's options do not matter.
    plain = {**own, "fused_encoder": fwd, "_name": "dlcl_transformer"}
    check_starts(DLCLTransformerConfig(**{**plain, "decoder_norm": "post", "decoder_layers": 7}), data, languages)
    with pytest.raises(UserError, match=r"^--fused-encoder: .*: cfg\.model\.encoder_norm must be pre, as in this tr"):
        check_starts(DLCLTransformerConfig(**{**plain, "encoder_norm": "pre"}), data, languages)
    # So do options that have no stack's name.
    with pytest.raises(UserError, match=r"^--fused-encoder: .*: cfg\.model\.activation_fn must be gelu, as in this tr"):
        check_starts(DLCLTransformerConfig(**{**plain, "activation_fn": "gelu"}), data, languages)
    with pytest.raises(UserError, match=r"^--fused-encoder: .*: must be an encoder of b, but is of a$"):
        check_starts(DLCLTransformerConfig(**plain), data, ("b", "a"))
    # Another dictionary of as many types.
    (tmp_path / "data").mkdir()
    for language in languages:
        lines = (data / f"dict.{language}.txt").read_text("utf-8").splitlines()
        (tmp_path / "data" / f"dict.{language}.txt").write_text("\n".join([lines[1], lines[0], *lines[2:]]) + "\n")
    with pytest.raises(UserError, match=r"^--fused-encoder: .*: it was trained with another source dictionary; give"):
        check_starts(DLCLTransformerConfig(**plain), tmp_path / "data", languages)


@pytest.mark.parametrize("kind", ["deep_translation", "translation"])
def test_an_unsplit_model_does_not_translate(kind: str) -> None:
    deepnmt.register()
    words = dictionary()
    task: Any = TranslationTask(TranslationConfig(), words, words)
    if kind == "deep_translation":
        task = DeepTranslationTask(DeepTranslationConfig(), words, words)
    with pytest.raises(UserError, match=f"^{UNSPLIT}$"):
        task.build_generator([build_dual()], Namespace(beam=2))


def test_commands_on_one_model_ask_for_a_split_one(trained: Path) -> None:
    with pytest.raises(UserError, match=rf"checkpoint_last\.pt: {UNSPLIT}$"):
        model_config(CheckpointState.of(trained / "dual" / "checkpoint_last.pt"))
    with pytest.raises(UserError, match=rf"checkpoint_last\.pt: {UNSPLIT}$"):
        data_fit.check_model(trained / "dual" / "checkpoint_last.pt", trained / "data", ("a", "b"))


def test_one_direction_has_its_languages_and_no_options_of_two() -> None:
    sides = {"source": {"types": 5, "sha256": "0" * 64}, "target": {"types": 7, "sha256": "1" * 64}}
    cfg = {
        "model": {"_name": "dlcl_dual", "fwd_from": "a.pt", "max_source_positions": 3, "max_target_positions": 4},
        "task": {"_name": "deep_dual", "source_lang": "a", "target_lang": "b", "lambda_otf": 1.0, "mono": "m"},
        "criterion": {"_name": "dual_supervised", "label_smoothing": 0.1, "dual_weight": 0.5, "marginals": "f"},
    }
    tensors = {f"{direction}.x": torch.full((2,), number) for number, direction in enumerate(("fwd", "bwd"))}
    state = CheckpointState(new_contents(cfg, tensors)).with_trained_on({"dictionaries": sides}).of_training("WORD 3 X")
    fwd, bwd = (of_direction(state, direction) for direction in ("fwd", "bwd"))
    assert [list(each.tensors()) for each in (fwd, bwd)] == [["x"], ["x"]]
    assert [float(each.tensors()["x"][0]) for each in (fwd, bwd)] == [0, 1]
    model = {"_name": "dlcl_transformer", "max_source_positions": 3, "max_target_positions": 4}
    assert fwd.options() == model
    assert bwd.options() == {**model, "max_source_positions": 4, "max_target_positions": 3}
    assert fwd.options("task") == {"_name": "deep_translation", "source_lang": "a", "target_lang": "b"}
    assert bwd.options("task") == {"_name": "deep_translation", "source_lang": "b", "target_lang": "a"}
    assert fwd.options("criterion") == {"_name": "label_smoothed_cross_entropy_fused", "label_smoothing": 0.1}
    assert fwd.trained_on() == {"dictionaries": sides}
    assert bwd.trained_on() == {"dictionaries": {"source": sides["target"], "target": sides["source"]}}
    assert (fwd.training(), bwd.training()) == ("WORD.fwd 3 X", "WORD.bwd 3 X")


def test_options_that_two_directions_exclude_are_refused() -> None:
    for options, message in (
        ({"two_sided": True}, "^--two-sided cannot be combined with arch dlcl_dual$"),
        ({"initializer": "admin", "residual_scale": "admin", "encoder_norm": "post"}, "^--initializer must need no ba"),
    ):
        with pytest.raises(UserError, match=message):
            build_dual(**options)
    right = {"arch": "dlcl_dual", "criterion": "dual_supervised", "task": "deep_translation"}
    assert not list(rule_faults(right, {}))
    excluded = {
        "two_sided": True, "adaptive_softmax_cutoff": [5], "base_layers": 1, "encoder_layers_to_keep": "0",
        "decoder_layers_to_keep": "0", "eval_bleu": True, "right_to_left": True, "load_alignments": True,
        "truncate_source": True, "ignore_prefix_size": 1, "fused_encoder": "a.pt",
    }  # fmt: skip
    for name, value in excluded.items():
        fault = (name.replace("_", "-"), "cannot be combined with arch dlcl_dual")
        assert fault in list(rule_faults({**right, name: value}, {})), name
    for more, fault in (
        ({"criterion": "x"}, ("criterion", "must be dual_supervised with arch dlcl_dual, but is x")),
        ({"arch": "x"}, ("arch", "must be dlcl_dual with criterion dual_supervised, but is x")),
        (
            {"arch": "x", "criterion": "x", "task": "deep_dual"},
            ("arch", "must be dlcl_dual with task deep_dual, but is x"),
        ),
        (
            {"freeze_embeddings": "source"},
            ("freeze-embeddings", "must be none or both with arch dlcl_dual, but is source"),
        ),
        ({"marginals": "m", "bpe_dropout": 0.1}, ("bpe-dropout", "cannot be combined with marginals")),
        ({"marginals": "m", "unigram_sampling": 0.1}, ("unigram-sampling", "cannot be combined with marginals")),
        ({"sample_share": 0.8}, ("sample-share", "cannot be combined with arch dlcl_dual")),
        ({"marginals": "m", "upsample_primary": 2}, ("upsample-primary", "must be 1 with marginals, but is 2")),
    ):
        assert fault in list(rule_faults({**right, **more}, {})), more


def test_files_that_only_a_command_line_has_are_missed_at_the_start() -> None:
    dual = {"arch": "dlcl_dual", "criterion": "dual_supervised", "task": "deep_dual"}
    assert list(missing({**dual, "dual_weight": 0.1})) == [
        ("marginals", "must be given with dual-weight 0.1, but is not"),
        ("mono", "must be given with task deep_dual, but is not"),
    ]
    text = {"criterion": "label_smoothed_cross_entropy_lm", "lm_loss_weight": 1.0, "task": "deep_translation"}
    assert list(missing(text)) == [("mono", f"must be given with criterion {text['criterion']}, but is not")]
    for values in ({**dual, "mono": "/:/tmp"}, {**text, "lm_loss_weight": 0.0}, {**text, "mono": "/"}):
        assert not list(missing(values))
    absent = {**dual, "dual_weight": 0.1, "marginals": "m", "mono": "/:n", "source_lm": "s", "pair_weights": "/"}
    assert [f"--{name} {rest}" for name, rest in missing(absent)] == [
        "--marginals: no such file 'm'",
        "--source-lm: no such file 's'",
        "--pair-weights: no such file '/'",
        "--mono: data folder 'n' not found",
    ]


def test_options_of_a_language_exchange_their_places() -> None:
    model = build_dual(
        Namespace(source_dictionary=dictionary(5), target_dictionary=dictionary(7)),
        max_source_positions=30, max_target_positions=40,
    )  # fmt: skip
    assert (len(model.fwd.encoder.embed_tokens.weight), len(model.fwd.decoder.embed_tokens.weight)) == (9, 11)
    assert (len(model.bwd.encoder.embed_tokens.weight), len(model.bwd.decoder.embed_tokens.weight)) == (11, 9)
    assert (model.max_positions(), model.bwd.max_positions()) == ((30, 40), (40, 30))
