"""What a training is started with is held against ranges, data and memory, by fairseq's own command too."""

from __future__ import annotations

import logging
import shutil
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from fairseq import tasks
from fairseq.distributed import utils as distributed_utils
from fairseq.models import MODEL_DATACLASS_REGISTRY
from fairseq_cli import train
from support.data_folders import data_folder
from support.fairseq_configurations import configuration

from deepnmt.criterions import distillation
from deepnmt.errors import UserError
from deepnmt.fairseq_patches.checks import training_checks
from deepnmt.fairseq_patches.checks.training_checks import check_training
from deepnmt.model import validate
from deepnmt.model.config import DLCLTransformerConfig


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return data_folder(tmp_path_factory.mktemp("data") / "de-en")


def warnings_of(caplog: pytest.LogCaptureFixture, cfg: Any) -> list[str]:
    caplog.clear()
    with caplog.at_level(logging.WARNING, training_checks.logger.name):
        check_training(cfg)
    return [record.getMessage() for record in caplog.records]


# Ranges

RANGE_FAULTS = {
    "--lr=0": "--lr must be numbers, each a finite number above 0, but is 0.0",
    "--adam-betas=(0.9, 1.5)": "--adam-betas must be two numbers of at least 0 and below 1, such as (0.9, 0.98), "
    "but is (0.9, 1.5)",
    "--label-smoothing=2": "--label-smoothing must be at least 0 and below 1, but is 2.0",
    "--clip-norm=-1": "--clip-norm must be a finite number of at least 0, but is -1.0",
    "--patience=-3": "--patience must be -1 (off), or from 0 to 2147483647, but is -3",
    "--warmup-updates=0": "--warmup-updates must be at least 1 with lr-scheduler inverse_sqrt, but is 0",
    "--max-valid-steps=0": "--max-valid-steps must be at least 1 and at most 2147483647, but is 0",
    "--max-tokens=0": "--max-tokens must be at least 1 and at most 2147483647, but is 0",
    f"--max-update=1{'0' * 30}": f"--max-update must be at least 0 and at most 2147483647, but is 1{'0' * 30}",
    f"--num-workers=1{'0' * 20}": f"--num-workers must be from 0 to 1024, but is 1{'0' * 20}",
    "--distributed-world-size=0": "--distributed-world-size must be at least 1 and at most 2147483647, but is 0",
    "--save-interval=0": "--save-interval must be at least 1 and at most 2147483647, but is 0",
    "--encoder-layers=1000000000": "--encoder-layers must be from 1 to 10000, but is 1000000000",
}


def test_each_option_out_of_range_is_a_line(data: Path) -> None:
    with pytest.raises(UserError, match="must be") as error:
        check_training(configuration(data, *RANGE_FAULTS))
    assert sorted(str(error.value).splitlines()) == sorted(RANGE_FAULTS.values())


def test_two_sided_models(data: Path) -> None:
    with pytest.raises(UserError, match=r"^--criterion must be") as error:
        check_training(configuration(data, model__two_sided=True, distributed_training__ddp_backend="fully_sharded"))
    assert str(error.value).splitlines() == [
        "--criterion must be label_smoothed_cross_entropy_two_sided with two-sided, "
        "but is label_smoothed_cross_entropy",
        "--ddp-backend must not be fully_sharded with two-sided, but is",
    ]


def test_options_that_would_be_ignored(data: Path) -> None:
    ignored = {f"model__{name}": True for name in ("adaptive_input", "char_inputs", "export", "dlcl_softmax")}
    with pytest.raises(UserError, match="must not be given") as error:
        check_training(configuration(data, **ignored, model__dlcl_init="one"))
    assert [line.split(":")[0] for line in str(error.value).splitlines()] == [
        *(f"--{name} must not be given" for name in ("adaptive-input", "char-inputs", "export")),
        "--dlcl-init must be mean with --dlcl-softmax, which begins with means, but is one",
    ]


@pytest.mark.parametrize("arch", ["transformer", "dlcl_transformer_tiny"])
def test_options_of_a_transformer_that_do_harm_or_nothing(arch: str, data: Path) -> None:
    words = ["--adaptive-input", "--tie-adaptive-proj", "--char-inputs", "--export", "--quant-noise-pq=0.1"]
    with pytest.raises(UserError, match="must not be given") as error:
        check_training(configuration(data, f"--arch={arch}", *words, "--decoder-layers-to-keep=0", "--base-layers=1"))
    nothing = "must not be given: the model has nothing that it would change"
    assert set(error.value.args[0].splitlines()) >= {
        *(f"{word} {nothing}" for word in words[:-1]),
        "--decoder-layers-to-keep must not be given: deepnmt shrink --decoder-keep takes layers out",
        "--quant-noise-pq needs --fp16 or --bf16: without master weights, the noise of each update stays in them",
        "--base-layers needs several processes, which the experts are dealt out to",
    }
    check_training(configuration(data, f"--arch={arch}", "--quant-noise-pq=0.1", "--fp16"))


def test_a_merged_table_is_of_one_dictionary(data: Path, tmp_path: Path) -> None:
    check_training(configuration(data, model__merge_src_tgt_embed=True))
    other = Path(shutil.copytree(data, tmp_path / "de-en"))
    with (other / "dict.en.txt").open("a") as file:
        file.write("more 1\n")
    with pytest.raises(UserError, match=r"^--merge-src-tgt-embed needs one dictionary for .*dict\.en\.txt differ$"):
        check_training(configuration(other, model__merge_src_tgt_embed=True))


def test_what_must_be_given_and_what_stands_alone(data: Path) -> None:
    with pytest.raises(UserError, match=r"^--tpu must not be given without torch_xla, but is$"):
        check_training(configuration(data, common__tpu=True))
    cfg = configuration(data)
    cfg.criterion = {"_name": "nat_loss"}
    with pytest.raises(UserError, match=r"(?m)^--arch must be a non-autoregressive .*, but is dlcl_transformer_tiny$"):
        check_training(cfg)
    cfg.criterion = {"_name": distillation.NAME, "teacher": ""}
    needed = "--teacher must be given to train with --criterion label_smoothed_cross_entropy_distillation, but is not"
    with pytest.raises(UserError, match=f"^{needed}$"):
        check_training(cfg)
    for task, arch, message in (
        (
            "language_modeling",
            "transformer",
            "be a language model with --task language_modeling, such as transformer_lm",
        ),
        ("language_modeling", "dlcl_transformer_tiny", "be a language model with --task language_modeling, such as"),
        ("translation", "transformer_lm", "not be a language model with --task translation"),
        ("deep_translation", "transformer_lm_gpt", "not be a language model with --task deep_translation"),
    ):
        cfg = configuration(data)
        cfg.task._name, cfg.model._name = task, arch
        with pytest.raises(UserError, match=rf"(?m)^--arch must {message}.*, but is {arch}$"):
            check_training(cfg)
    later = {"checkpoint__write_checkpoints_asynchronously": True}
    with pytest.raises(UserError, match=r"^--write-checkpoints-asynchronously must not be given: without the package"):
        check_training(configuration(data, **later))
    half = {"common__amp": True, "common__bf16": True, "common__tpu": True, "common__cpu": True}
    cfg = configuration(data, dataset__max_tokens=None, **half)
    cfg.optimizer = None
    with pytest.raises(UserError, match="must be given") as error:
        check_training(cfg)
    assert str(error.value).splitlines() == [
        "--optimizer must be given, but is not",
        "--max-tokens or --batch-size must be given, but neither is",
        "--amp must not be set with --cpu, but is; --bf16 works there",
        "--bf16 must be the only precision, but stands beside amp",
    ]


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--max-update=0"],  # fairseq's default: no bound
        ["--warmup-updates=0", "--lr-scheduler=fixed"],
        ["--lr=0.1,0.01", "--update-freq=1,2", "--lr-scheduler=fixed", "--patience=-1", "--clip-norm=0"],
        ["--memory-efficient-fp16", "--keep-last-epochs=-1", "--batch-size=3"],
        ["--arch=transformer", "--optimizer=sgd"],
        # Their options come in another type.
        ["--optimizer=adagrad"],
    ],
    ids=str,
)
def test_what_means_something_stays_valid(words: list[str], data: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert not warnings_of(caplog, configuration(data, *words))


def test_it_is_asked_before_a_training_and_no_other_command(data: Path) -> None:
    cfg = configuration(data, optimization__lr=[-1.0])
    with pytest.raises(UserError, match=r"^--lr must be numbers, each a finite number above 0, but is -1.0$"):
        distributed_utils.call_main(cfg, train.main)
    asked = []
    distributed_utils.call_main(cfg, asked.append)
    assert asked == [cfg]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("eval_bleu_detok", "--eval-bleu-detok must be one of moses, nltk, space, but is foo"),
        ("eval_bleu_remove_bpe", "--eval-bleu-remove-bpe must be a kind of BPE such as subword_nmt, but is foo"),
    ],
)
def test_validation_by_bleu_is_looked_at_before_the_first_epoch(name: str, message: str, data: Path) -> None:
    faulty = {f"task__{name}": "foo"}
    check_training(configuration(data, **faulty))
    check_training(configuration(data, task__eval_bleu=True, checkpoint__best_checkpoint_metric="bleu"))
    with pytest.raises(UserError, match=f"^{message}$"):
        check_training(configuration(data, task__eval_bleu=True, **faulty))


def test_options_of_the_search_in_validation_are_options(data: Path) -> None:
    def trained(arguments: str) -> None:
        check_training(configuration(data, task__eval_bleu=True, task__eval_bleu_args=arguments))

    trained('{"beam": 4, "lenpen": 0.6}')
    message = "^--eval-bleu-args must have options of fairseq-generate's search, such as beam, but has 'bean'$"
    with pytest.raises(UserError, match=message):
        trained('{"bean": 4}')


def test_a_folder_for_curves_that_is_none(data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    check_training(configuration(data, common__tensorboard_logdir=str(folder)))
    assert folder.is_dir()
    file = tmp_path / "file"
    file.touch()
    for path, reason in ((file, "File exists"), (file / "b", "Not a directory")):
        with pytest.raises(UserError, match=f"^--tensorboard-logdir must be a folder, but is {path}: {reason}$"):
            check_training(configuration(data, common__tensorboard_logdir=str(path)))


def test_options_of_an_optimizer_without_a_dataclass(data: Path) -> None:
    with pytest.raises(UserError, match=r"^--momentum must be a finite number of at least 0, but is -3.0$"):
        check_training(configuration(data, "--optimizer=sgd", "--momentum=-3"))


@pytest.mark.parametrize("started", ["script", "module"])
def test_hydra_is_asked_when_it_sets_up_the_task(started: str, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cfg = configuration(data, optimization__lr=[-1.0])
    assert tasks.setup_task(cfg.task).source_dictionary is not None
    name = training_checks.HYDRA_TRAIN
    if started == "script":
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    else:
        monkeypatch.setattr(sys.modules["__main__"], "__spec__", SimpleNamespace(name=name))
    with pytest.raises(UserError, match=r"^--lr must be numbers, each a finite number above 0, but is -1.0$"):
        tasks.setup_task(cfg.task)
    named = configuration(data)
    tasks.setup_task(named.task)
    assert (named.task.source_lang, named.task.target_lang) == ("de", "en")


# Pairs of a paper that are set apart

NO_NORMS = {"encoder_norm": "none", "decoder_norm": "none"}
POST = {"encoder_norm": "post", "decoder_norm": "post"}
NO_LANGUAGE_MODEL = (
    "--decoder-lm-layers without --criterion label_smoothed_cross_entropy_lm: these layers are no language model"
)
APART = [
    (
        {"initializer": "t-fixup", **POST},
        ["--encoder-norm and --decoder-norm are none with --initializer t-fixup in the paper, but are post and post"],
    ),
    (
        {"initializer": "t-fixup-released", **NO_NORMS, "decoder_norm": "pre"},
        [
            "--encoder-norm and --decoder-norm are none with --initializer t-fixup-released in the paper, "
            "but are none and pre"
        ],
    ),
    (
        {"initializer": "deepnorm", **POST},
        ["--initializer and --residual-scale are both deepnorm in the paper, but are deepnorm and plain"],
    ),
    (
        {"residual_scale": "deepnorm", **POST},
        ["--initializer and --residual-scale are both deepnorm in the paper, but are default and deepnorm"],
    ),
    (
        {"residual_scale": "admin", **POST},
        ["--initializer is admin with --residual-scale admin in the paper, but is default"],
    ),
    # The course report's: the norms of the history stay.
    ({"initializer": "t-fixup", **NO_NORMS, "encoder_groups": "1"}, []),
    ({"initializer": "deepnorm", "residual_scale": "deepnorm", **POST}, []),
    ({"decoder_lm_layers": 1}, [NO_LANGUAGE_MODEL]),
    ({"initializer": "admin", "residual_scale": "admin", **POST}, []),
]


@pytest.mark.parametrize(("options", "lines"), APART, ids=[str(options) for options, _ in APART])
def test_a_pair_that_is_split_is_a_warning(
    options: dict[str, Any],
    lines: list[str],
    data: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cfg = configuration(data, **{f"model__{name}": value for name, value in options.items()})
    assert warnings_of(caplog, cfg) == lines
    monkeypatch.setenv("RANK", "1")
    assert not warnings_of(caplog, cfg)


def test_named_architectures_are_pairs() -> None:
    named = {name: kind for name, kind in MODEL_DATACLASS_REGISTRY.items() if issubclass(kind, DLCLTransformerConfig)}
    assert len(named) > 20
    for name, kind in named.items():
        assert not list(validate.split_pairs(kind())), name
