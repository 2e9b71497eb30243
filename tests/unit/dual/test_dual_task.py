"""`deep_dual`: pairs that are translated now, beside the same pairs from files, and whole trainings by its recipes."""

from __future__ import annotations

import copy
import shutil
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq.data import Dictionary, LanguagePairDataset
from support.checkpoints import checkpoint
from support.distributed_runs import largest_difference, run, write_corpus
from support.dual_models import build_dual
from support.language_models import save_language_model
from support.models import ROOT, SIZE
from support.restarts import train_until
from support.substitution import SOURCE, TARGET, monolingual, sentences, substitution_data

import deepnmt
from deepnmt.criterions.dual_supervised import PASSES, DualSupervised, DualSupervisedConfig
from deepnmt.criterions.fused import FusedLabelSmoothedCrossEntropy
from deepnmt.errors import UserError
from deepnmt.options.dual_rules import missing, untrained
from deepnmt.recipe.checking import check_recipe
from deepnmt.recipe.combinations import rule_faults
from deepnmt.recipe.own_keys import to_arguments
from deepnmt.recipe.recipe_file import read_recipe
from deepnmt.synthetic.decoding import LineDecoder, Method

LINES = sentences(30, seed=4)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Data, text in each of its languages, a language model of both, and marginals of the pairs."""
    deepnmt.register()
    folder = tmp_path_factory.mktemp("dual")
    data = substitution_data(folder / "data")
    found = {"data": data, **{name: monolingual(folder, data, name, LINES, []) for name in (SOURCE, TARGET)}}
    found["lm"] = save_language_model(folder, Dictionary.load(str(data / f"dict.{TARGET}.txt")))
    found["marginals"] = folder / "marginals.tsv"
    found["marginals"].write_text("\n".join([f"{SOURCE}\t{TARGET}", *["-30.5\t-31.25"] * 40]) + "\n", encoding="utf-8")
    return found


def task(folders: dict[str, Path], *texts: str, **options: Any) -> Any:
    from deepnmt.dual.dual_task import DeepDualConfig, DeepDualTask

    named: dict[str, Any] = {
        "source_lang": SOURCE,
        "target_lang": TARGET,
        "train_subset": "train",
        "dataset_impl": "mmap",
        "required_seq_len_multiple": 1,
    }
    mono = ":".join(str(folders[name]) for name in texts) or None
    return DeepDualTask.setup_task(
        DeepDualConfig(data=str(folders["data"]), mono=mono, **{**named, "seed": 1, **options})
    )


def batch_of(task: Any, *numbers: int) -> dict[str, Any]:
    dataset = task.dataset("train")
    found: dict[str, Any] = dataset.collater([dataset[number] for number in numbers])
    return found


@pytest.mark.parametrize(("side", "language", "learner"), [("target", TARGET, "fwd"), ("source", SOURCE, "bwd")])
def test_pairs_translated_now_train_as_the_same_pairs_from_files(
    side: str, language: str, learner: str, folders: dict[str, Path]
) -> None:
    """Batch by batch, by a translator that is not trained meanwhile."""
    made = task(folders, language, lambda_otf=0.5)
    made.load_dataset("train", combine=True)
    model = build_dual(Namespace(source_dictionary=made.src_dict, target_dictionary=made.tgt_dict), dropout=0.5)
    twin = copy.deepcopy(model)
    # What deepnmt synthesise does with the same lines.
    translator = model.bwd if learner == "fwd" else model.fwd
    ends = (made.tgt_dict, made.src_dict) if learner == "fwd" else (made.src_dict, made.tgt_dict)
    of_lines = type(made)(made.cfg, *ends)
    decode = LineDecoder.of(of_lines, [translator.eval()], Method("greedy"), batch_size=4)
    decode.generator.max_len_a, decode.generator.max_len_b = 1.5, 10
    config = DualSupervisedConfig(label_smoothing=0.1, sentence_avg=True)
    plain = FusedLabelSmoothedCrossEntropy(of_lines, True, 0.1)
    for number, numbers in enumerate([(2, 5, 11, 30), (1, 7, 8, 20), (0, 3, 9, 39)]):
        sample = batch_of(made, *numbers)
        text = sample["mono"][side]
        (found,) = made.passes(sample["mono"], model.train(), number)
        assert model.training
        assert (found.direction, found.weight, found.counts) == (learner, 0.5, None)
        lines = [ends[0].string(row[row.ne(1)]) for row in text]
        translator.eval()
        translations = [best[0] for best in decode(lines, "seed")]
        encode = [ends[1].encode_line(line, add_if_not_exist=False).long() for line in translations]
        targets = [row[row.ne(1)] for row in text]
        pairs = LanguagePairDataset(encode, [len(each) for each in encode], ends[1], targets,
                                    [len(each) for each in targets], ends[0], shuffle=False)  # fmt: skip
        files = pairs.collater([pairs[number] for number in range(4)])
        rows = [files["id"].tolist().index(number) for number in range(4)]
        for name in ("src_tokens", "prev_output_tokens", "src_lengths"):
            assert torch.equal(found.inputs[name], files["net_input"][name][rows])
        assert torch.equal(found.target, files["target"][rows])

        (model.eval(), twin.eval())
        both, both_size, _ = DualSupervised(made, config)(model, {**sample, PASSES: [found]})
        assert both_size == (6.0 if learner == "fwd" else 4.0)
        alone = plain(getattr(twin, learner), files)[0]
        halves = [plain(getattr(twin, name), turned)[0] for name, turned in (("fwd", sample), ("bwd", _turned(sample)))]
        torch.testing.assert_close(DualSupervised(made, config)(twin, sample)[0], sum(halves))
        expected = halves[0] + 0.5 * alone + 1.5 * halves[1]
        if learner == "bwd":
            # A mean over its pairs, of which the new ones count half.
            expected = halves[0] + (halves[1] + 0.5 * alone) / 1.5
        torch.testing.assert_close(both, expected)
        # Both learners make the same update.
        for each, loss in ((model, both), (twin, expected)):
            parameters = list(getattr(each, learner).parameters())
            gradients = torch.autograd.grad(loss, parameters)
            with torch.no_grad():
                for parameter, gradient in zip(parameters, gradients):
                    parameter -= 0.01 * gradient


def _turned(sample: dict[str, Any]) -> dict[str, Any]:
    from deepnmt.data.exchanged_pairs import exchanged

    return {**sample, **exchanged(sample, 1, 2)}


def test_both_languages_have_their_turn(folders: dict[str, Path]) -> None:
    made = task(folders, SOURCE, TARGET, lambda_otf=1.0, lambda_dual=0.1, dual_lm_share=0.0, dual_samples=3)
    made.load_dataset("train", combine=True)
    model = build_dual(Namespace(source_dictionary=made.src_dict, target_dictionary=made.tgt_dict)).train()
    sample = batch_of(made, 1, 2)
    for update, directions in ((0, ["bwd", "fwd", "bwd"]), (1, ["fwd", "bwd", "fwd"]), (2, ["bwd", "fwd", "bwd"])):
        found = list(made.passes(sample["mono"], model, update))
        assert [each.direction for each in found] == directions
        assert [len(each.target) for each in found] == [2, 6, 6]
        assert [each.weight for each in found] == [1.0, 0.1, 0.1]
    # The searches are built once for a model.
    assert made.generator(model, "fwd", True) is made.generator(model, "fwd", True)
    # Samples may be empty.
    assert [made.generator(model, "bwd", sampling).min_len for sampling in (False, True)] == [1, 0]


def test_language_models_are_checked_before_the_first_update(folders: dict[str, Path], tmp_path: Path) -> None:
    made = task(folders, TARGET, lambda_dual=0.1, source_lm=str(folders["lm"]))
    made.load_dataset("train", combine=True)
    with pytest.raises(UserError, match=r"^--source-lm must be given with --lambda-dual and text of the target, but"):
        task(folders, TARGET, lambda_dual=0.1).load_dataset("train", combine=True)
    with pytest.raises(UserError, match=r"^--target-lm must be given with --lambda-dual and text of the source, but"):
        task(folders, SOURCE, lambda_dual=0.1, source_lm="x").load_dataset("train", combine=True)
    with pytest.raises(UserError, match=r"^--mono must be given with --task deep_dual, but is not$"):
        task(folders, lambda_otf=1.0).load_dataset("train", combine=True)
    both = {"source_lm": str(folders["lm"]), "target_lm": str(folders["lm"])}
    with pytest.raises(UserError, match=r"^--target-lm needs --mono with text of the source$"):
        task(folders, TARGET, lambda_dual=0.1, **both).load_dataset("train", combine=True)
    dictionary = Dictionary.load(str(folders["data"] / f"dict.{TARGET}.txt"))
    dictionary.symbols[7], dictionary.symbols[8] = dictionary.symbols[8], dictionary.symbols[7]
    other = save_language_model(tmp_path, dictionary)
    translates = tmp_path / "translates.pt"
    torch.save(checkpoint(), translates)
    for path, message in (
        (other, rf"{other}: must be of .*/dict\.{SOURCE}\.txt, "),
        (translates, rf"{translates}: must be a language model, but is a translation model$"),
    ):
        with pytest.raises(UserError, match=f"^--source-lm: {message}"):
            task(folders, TARGET, lambda_dual=0.1, source_lm=str(path)).load_dataset("train", combine=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lambda_otf": -1.0}, r"^--lambda-otf must be a finite number of at least 0, but is -1\.0$"),
        ({"lambda_dual": float("inf")}, "^--lambda-dual must be a finite number of at least 0, but is inf$"),
        ({"dual_samples": 1}, "^--dual-samples must be from 2 to .*, but is 1$"),
        ({"dual_lm_share": 1.5}, r"^--dual-lm-share must be at least 0 and at most 1, but is 1\.5$"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, Any], message: str, folders: dict[str, Path]) -> None:
    with pytest.raises(UserError, match=message):
        task(folders, TARGET, **options)


def test_options_without_effect_are_refused() -> None:
    dual = {"arch": "dlcl_dual", "criterion": "dual_supervised", "task": "deep_dual", "mono": "m"}
    nothing = ("lambda-otf", "or lambda-dual must be above 0 with task deep_dual, but both are 0")
    assert nothing in list(rule_faults(dual, {}))
    dual["lambda_otf"] = 1.0
    assert not list(rule_faults(dual, {}))
    for name, value in (("dual_samples", 3), ("dual_lm_share", 0.5), ("source_lm", "l"), ("target_lm", "l")):
        fault = (name.replace("_", "-"), "needs lambda-dual, but it is 0")
        assert list(rule_faults({**dual, name: value}, {})) == [fault]
        assert not list(rule_faults({**dual, name: value, "lambda_dual": 0.1}, {}))
    no_share = {**dual, "lambda_dual": 0.1, "dual_lm_share": 0.0, "source_lm": "l"}
    assert list(rule_faults(no_share, {})) == [("source-lm", "needs dual-lm-share, but it is 0")]
    assert list(rule_faults({**dual, "dual_weight": 0.0, "marginals": "m"}, {})) == [
        ("marginals", "needs dual-weight, but it is 0")
    ]
    plain = {"arch": "x", "criterion": "x", "task": "deep_translation", "mono": "m"}
    must = "must be label_smoothed_cross_entropy_lm, with an lm-loss-weight above 0, to read mono"
    assert list(rule_faults(plain, {})) == [("criterion", must)]
    reads = {**plain, "criterion": "label_smoothed_cross_entropy_lm", "lm_loss_weight": 1.0, "decoder_lm_layers": 1}
    assert not list(rule_faults(reads, {}))
    assert list(rule_faults({**reads, "lm_loss_weight": 0.0}, {})) == [("criterion", must)]
    layers = ("decoder-lm-layers", "must be at least 1 with criterion label_smoothed_cross_entropy_lm, but is 0")
    assert list(rule_faults({**reads, "decoder_lm_layers": 0}, {})) == [layers]
    assert list(rule_faults({**reads, "right_to_left": True}, {})) == [
        ("right-to-left", "cannot be combined with mono")
    ]


def test_files_that_do_not_exist_are_named_together() -> None:
    values = {"mono": "no", "pair_weights": "a.tsv", "encoder_embed_path": "a.vec", "marginals": "m.tsv"}
    assert [name for name, _ in missing(values)] == ["marginals:", "pair-weights:", "encoder-embed-path:", "mono:"]
    assert dict(missing(values))["encoder-embed-path:"] == "no such file 'a.vec'"


def test_methods_for_trained_models_say_that_theirs_are_untrained() -> None:
    starts: dict[str, Any] = {"fwd_from": "a.pt", "bwd_from": "b.pt"}
    dual = {"task": "deep_dual", "criterion": "dual_supervised"}
    first = "not given: untrained models write the first translations of --mono's text"
    assert list(untrained(dual)) == [f"--fwd-from and --bwd-from {first}"]
    assert list(untrained({**dual, **starts, "bwd_from": None})) == [f"--bwd-from {first}"]
    assert not list(untrained({**dual, **starts}))
    assert not list(untrained({**dual, "finetune_from_model": "c.pt"}))
    loss = "label_smoothed_cross_entropy_lm"
    assert not list(untrained({"criterion": loss, "decoder_lm_layers": 1}))
    assert list(untrained({"criterion": "cross_entropy", "decoder_lm_layers": 1})) == [
        f"--decoder-lm-layers without --criterion {loss}: these layers are no language model"
    ]


RECIPES = ("supervised", "on_the_fly", "policy_gradient", "language_model")
FILES = {
    "supervised": ("--marginals=marginals",),
    "on_the_fly": (f"--mono={SOURCE}:{TARGET}",),
    "policy_gradient": (f"--mono={SOURCE}:{TARGET}", "--source-lm=lm", "--target-lm=lm"),
    "language_model": (f"--mono={TARGET}",),
}


@pytest.mark.parametrize("name", RECIPES)
def test_recipes_are_faultless(name: str) -> None:
    path = ROOT / "configs" / "dual" / f"{name}.yaml"
    assert sorted(each.stem for each in path.parent.glob("*.yaml")) == sorted(RECIPES)
    parsed = check_recipe(path, read_recipe(path), [])
    assert (parsed.arch == "dlcl_dual") == (name != "language_model")


@pytest.mark.slow
@pytest.mark.parametrize("name", RECIPES)
def test_recipes_train_and_resume_to_the_same_model(
    name: str, folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = ROOT / "configs" / "dual" / f"{name}.yaml"
    words = [
        "=".join(
            [option.partition("=")[0], ":".join(str(folders[each]) for each in option.partition("=")[2].split(":"))]
        )
        for option in FILES[name]
    ]
    small = [f"--{key.replace('_', '-')}={value}" for key, value in SIZE.items()]
    small += ["--max-tokens=120", "--max-update=6", "--save-interval-updates=2", "--disable-validation", "--lr=0.01"]
    data = [str(folders["data"])]
    options = [*to_arguments(read_recipe(path)), *words, *small, "--lr-scheduler=fixed", "--warmup-updates=0"]
    assert train_until(monkeypatch, data, tmp_path / "whole", *options) == [0, 1, 2, 3, 4, 5]
    assert train_until(monkeypatch, data, tmp_path / "parts", *options, killed_at=5) == [0, 1, 2, 3, 4]
    assert train_until(monkeypatch, data, tmp_path / "parts", *options) == [4, 5]
    whole, parts = (
        torch.load(tmp_path / each / "checkpoint_last.pt", weights_only=False)["model"] for each in ("whole", "parts")
    )
    assert all(torch.equal(whole[key], parts[key]) for key in whole)


@pytest.mark.slow
def test_two_processes_learn_from_text_as_one(tmp_path: Path) -> None:
    data, mono = write_corpus(tmp_path / "data"), tmp_path / "mono"
    mono.mkdir()
    for language in ("de", "en"):
        shutil.copy(data / f"dict.{language}.txt", mono)
        for ending in ("bin", "idx"):
            shutil.copy(data / f"train.de-en.{language}.{ending}", mono / f"mono.de-en.{language}.{ending}")
    options = [
        "--task=deep_dual",
        "--arch=dlcl_dual",
        "--criterion=dual_supervised",
        "--lambda-otf=1",
        f"--mono={mono}",
    ]
    options.append("--max-update=6")
    one, two = (run(options, number, data, tmp_path / str(number)) for number in (1, 2))
    assert largest_difference(one, two) < 1e-5
