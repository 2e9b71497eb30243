"""Raw text to BLEU through the five scripts, and fairseq's own commands through the plug-in, on a small corpus."""

from __future__ import annotations

import json
import math
import os
import re
import resource
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq_cli import generate
from grammar.generate import write_splits
from support import warm
from support.checkpoints import run_main
from support.processes import SECONDS, finish, started, wait_until
from support.slow import slow_but

from deepnmt.checkpoints.file import read
from deepnmt.cli import export, translate
from deepnmt.errors import UserError
from deepnmt.text.nbest import read_nbest
from deepnmt.text.subwords import join_bpe

ROOT = Path(__file__).resolve().parents[2]
RECIPE = """
task: translation
arch: dlcl_transformer_tiny
encoder-embed-dim: 32
decoder-embed-dim: 32
encoder-layers: 3
decoder-layers: 2
encoder-groups: 0,1,3
encoder-max-relative-length: 4
decoder-max-relative-length: 4
share-all-embeddings: true
optimizer: adam
lr: 0.005
lr-scheduler: inverse_sqrt
warmup-updates: 10
criterion: label_smoothed_cross_entropy
label-smoothing: 0.1
max-tokens: 1500
max-update: 12
save-interval-updates: 4
num-workers: 0
log-format: simple
"""
Flow = dict[str, Path]
REAL = {"DEEPNMT_PYTHON_BIN": ""}  # a training that others are compared with is of Python itself


def run(*command: Any, status: int = 0, **options: Any) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **warm.environment(), **options.pop("env", {})}
    done = finish(command, env=environment, **options)
    assert done.returncode == status, done.stdout[-2000:] + done.stderr[-4000:]
    if status:
        assert "Traceback" not in done.stderr
    return done


def script(name: str, *arguments: Any, **options: Any) -> subprocess.CompletedProcess[str]:
    return run(ROOT / "scripts" / name, *arguments, **options)


def fairseq(name: str, *arguments: Any, **options: Any) -> subprocess.CompletedProcess[str]:
    return run(warm.program(f"fairseq-{name}"), *arguments, **options)


def parameters(checkpoint: Path) -> dict[str, torch.Tensor]:
    model: dict[str, torch.Tensor] = read(checkpoint)["model"]
    return model


def assert_same_model(one: Path, other: Path) -> None:
    first, second = parameters(one), parameters(other)
    assert first.keys() == second.keys()
    for name in first:
        assert first[name].equal(second[name]), name


def error_line(done: subprocess.CompletedProcess[str]) -> str:
    """The one line that says what is wrong."""
    lines = [line for line in done.stderr.splitlines() if "error:" in line]
    assert len(lines) == 1, done.stderr
    return lines[0]


@pytest.fixture(scope="module")
def flow(tmp_path_factory: pytest.TempPathFactory) -> Flow:
    folder = tmp_path_factory.mktemp("flow")
    write_splits(folder / "text", {"train": 400, "valid": 30, "test": 20}, seed=1)
    files = {name: folder / name for name in ("text", "data", "save", "out")}
    files["recipe"] = folder / "recipe.yaml"
    files["recipe"].write_text(RECIPE, encoding="utf-8")
    files["average"] = folder / "average.pt"
    text = files["text"]
    script(
        "preprocess.sh", "--source-lang", "de", "--target-lang", "en", "--train", text / "train", "--valid",
        text / "valid", "--test", text / "test", "--dest", files["data"], "--bpe-merges", 300, "--workers", 1,
    )  # fmt: skip
    files["log"] = folder / "train.log"
    done = script("train.sh", files["recipe"], files["data"], files["save"], env=REAL)
    files["log"].write_text(done.stdout + done.stderr, encoding="utf-8")
    script("average.sh", files["save"], files["average"], "--last", 3)
    script("generate.sh", files["average"], files["data"], files["out"], "--beam", 2, "--max-len-b", 20, "--nbest", 2)
    script("score.sh", files["out"], files["data"])
    return files


def test_flow_from_raw_text_to_scores(flow: Flow) -> None:
    assert (flow["out"] / "ref.en").read_text("utf-8") == (flow["text"] / "test.en").read_text("utf-8")
    assert len((flow["out"] / "hyp.en").read_text("utf-8").splitlines()) == 20
    assert json.loads((flow["out"] / "generate.json").read_text("utf-8"))["untranslated"] == 0
    scores = json.loads((flow["out"] / "scores.json").read_text("utf-8"))
    assert {name for name, score in scores.items() if score["score"] >= 0} == set(scores)
    assert len(scores) == 4
    assert not list(flow["out"].parent.glob("*.tmp*"))


def test_nbest_lists(flow: Flow) -> None:
    lines = read_nbest(flow["out"] / "nbest.tsv")
    assert [(line.sentence, line.rank) for line in lines] == [(number, rank) for number in range(20) for rank in (1, 2)]
    best = [join_bpe(line.subwords) for line in lines if line.rank == 1]
    assert best == (flow["out"] / "hyp.tok.en").read_text("utf-8").splitlines()
    # fairseq's log has means in bits.
    log = (flow["out"] / "generate.log").read_text("utf-8")
    means = {int(number): float(mean) for number, mean in re.findall(r"^H-(\d+)\t(\S+)\t", log, re.MULTILINE)[::-1]}
    for line in lines[::2]:
        expected = means[line.sentence] * math.log(2) * line.features["length"]
        assert line.features["model"] == pytest.approx(expected, rel=1e-3)
        assert line.features["length"] == len(line.subwords.split()) + 1


def test_separate_dictionaries(flow: Flow, tmp_path: Path) -> None:
    text = flow["text"]
    script(
        "preprocess.sh", "--source-lang", "de", "--target-lang", "en", "--train", text / "train", "--valid",
        text / "valid", "--dest", tmp_path / "data", "--bpe-merges", 300, "--workers", 1, "--separate-dictionaries",
    )  # fmt: skip
    for language in ("de", "en"):
        words = (tmp_path / "data" / "text" / f"train.bpe.{language}").read_text("utf-8").split()
        lines = (tmp_path / "data" / f"dict.{language}.txt").read_text("utf-8").splitlines()
        types = {line.split(" ")[0] for line in lines}
        # fairseq fills a dictionary up to a multiple of eight.
        assert {word for word in types if not word.startswith("madeupword")} == set(words)


def test_training_says_what_it_runs_and_nothing_that_no_one_can_act_on(flow: Flow) -> None:
    log = flow["log"].read_text("utf-8")
    assert f"+ fairseq-train {flow['data']} --user-dir" in log
    assert "num_updates 12" in log
    assert "Warning" not in log
    assert (flow["save"] / "train.log").stat().st_size > 0


def test_checkpoint_holds_no_namespace_and_all_options(flow: Flow) -> None:
    state = read(flow["save"] / "checkpoint_last.pt")
    assert state["args"] is None
    assert state["cfg"]["model"]["encoder_groups"] == "0,1,3"
    assert state["model"]["encoder.history.weight"].shape == (3, 3, 1)


@pytest.mark.parametrize("updates", slow_but([6], [6, 11]), ids=["first-epoch", "second-epoch"])
def test_stopped_training_goes_on_to_the_same_end(flow: Flow, tmp_path: Path, updates: int) -> None:
    script("train.sh", flow["recipe"], flow["data"], tmp_path, "--max-update", updates)
    epoch = read(tmp_path / "checkpoint_last.pt")["extra_state"]["train_iterator"]["epoch"]
    assert epoch == (1 if updates == 6 else 2)
    script("train.sh", flow["recipe"], flow["data"], tmp_path)
    assert_same_model(tmp_path / "checkpoint_last.pt", flow["save"] / "checkpoint_last.pt")


def test_finished_training_is_left_alone(flow: Flow) -> None:
    last = flow["save"] / "checkpoint_last.pt"
    before = last.read_bytes()
    done = script("train.sh", flow["recipe"], flow["data"], flow["save"])
    assert "nothing to train: 12 updates are done, and --max-update is 12" in done.stdout + done.stderr
    assert last.read_bytes() == before


def test_interrupted_training_says_so_and_goes_on(flow: Flow, tmp_path: Path) -> None:
    command = [str(ROOT / "scripts" / "train.sh"), *(str(flow[name]) for name in ("recipe", "data")), str(tmp_path)]
    log = tmp_path / "train.log"
    with started(
        [*command, "--max-update", "100000", "--log-interval", "1"],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        env={**os.environ, **warm.environment()},
    ) as process:
        wait_until((tmp_path / "checkpoint_last.pt").exists, process)
        os.killpg(process.pid, signal.SIGINT)
        errors = process.communicate(timeout=SECONDS)[1]
    assert process.returncode == 130
    assert (
        f"train.sh: interrupted; run the same command again to resume from the last checkpoint in {tmp_path}" in errors
    )
    assert "Traceback" not in errors
    updates = read(tmp_path / "checkpoint_last.pt")["optimizer_history"][-1]["num_updates"]
    run(*command, "--max-update", updates + 2, "--no-save")
    assert f"num_updates {updates + 2}" in log.read_text("utf-8")


@pytest.mark.slow
def test_no_space_left_for_a_checkpoint(flow: Flow, tmp_path: Path) -> None:
    script("train.sh", flow["recipe"], flow["data"], tmp_path, "--max-update", 4)
    kept = parameters(tmp_path / "checkpoint_last.pt")
    limit = (tmp_path / "checkpoint_last.pt").stat().st_size // 2

    def small_files() -> None:
        # A larger file fails as a full disk does; Python ignores the signal that comes with it.
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    done = script(
        "train.sh", flow["recipe"], flow["data"], tmp_path, "--max-update", 8, status=2, preexec_fn=small_files
    )
    assert "earlier checkpoints are intact" in error_line(done)
    after = parameters(tmp_path / "checkpoint_last.pt")
    assert all(after[name].equal(kept[name]) for name in kept)


def test_fairseq_generate_with_an_ensemble_and_score(flow: Flow, tmp_path: Path) -> None:
    paths = f"{flow['average']}:{flow['save'] / 'checkpoint_best.pt'}"
    done = fairseq(
        "generate", flow["data"], "--user-dir", ROOT / "deepnmt", "--path", paths, "--cpu", "--beam", 2,
        "--batch-size", 8, "--remove-bpe", "subword_nmt",
    )  # fmt: skip
    assert "Generate test with beam=2: BLEU4 = " in done.stdout
    lines = done.stdout.splitlines()
    for name, prefix, field in (("hyp", "H-", 2), ("ref", "T-", 1)):
        texts = [line.split("\t")[field] for line in lines if line.startswith(prefix)]
        assert len(texts) == 20
        (tmp_path / name).write_text("\n".join(texts) + "\n", encoding="utf-8")
    assert "BLEU4 = " in fairseq("score", "--sys", tmp_path / "hyp", "--ref", tmp_path / "ref").stdout


def test_raw_text_is_translated_as_generate_does(flow: Flow, tmp_path: Path) -> None:
    """By a model folder, by the checkpoint, and by fairseq-interactive with the model folder in place of the data."""
    model, expected = tmp_path / "model", (flow["out"] / "hyp.en").read_bytes()
    run_main(export.main, "deepnmt export", flow["average"], flow["data"], model, "--beam", 2, "--check", 9)
    words = [flow["text"] / "test.de", "--output", tmp_path / "out", "--max-len-b", 20]
    run_main(translate.main, "deepnmt translate", model, *words)
    assert (tmp_path / "out").read_bytes() == expected
    lines = (flow["text"] / "test.de").read_text("utf-8").splitlines()
    # Lines without a translation change nothing for the others.
    mixed = "".join(f"{line}\r\n\n{'lang ' * 1100}\n" for line in lines)
    (tmp_path / "mixed").write_text(mixed, encoding="utf-8", newline="")
    words = ["--data", flow["data"], tmp_path / "mixed", "--output", tmp_path / "out", "--max-len-b", 20, "--beam", 2]
    run_main(translate.main, "deepnmt translate", flow["average"], *words, "--batch-size", 7)
    assert (tmp_path / "out").read_bytes() == expected.replace(b"\n", b"\n\n\n")
    arguments = [
        "--user-dir",
        ROOT / "deepnmt",
        "--path",
        model / "model.safetensors",
        "--cpu",
        "--beam",
        2,
        "--max-len-b",
        20,
    ]
    arguments += [
        "-s",
        "de",
        "-t",
        "en",
        "--bpe",
        "subword_nmt",
        "--bpe-codes",
        model / "codes",
        "--tokenizer",
        "moses",
    ]
    done = fairseq("interactive", model, *arguments, "--moses-no-dash-splits", input=lines[0] + "\n")
    assert [line.split("\t")[2] for line in done.stdout.splitlines() if line.startswith("D-0")] == [
        expected.decode().splitlines()[0]
    ]


def test_fairseq_interactive_translates_one_line_as_generate_does(flow: Flow) -> None:
    arguments = ["--user-dir", ROOT / "deepnmt", "--path", flow["average"], "--cpu", "--beam", 2, "--max-len-b", 20]
    source = (flow["data"] / "text" / "test.bpe.de").read_text("utf-8").splitlines()[0]
    done = fairseq("interactive", flow["data"], *arguments, "--remove-bpe", "subword_nmt", input=source + "\n")
    got = [line.split("\t")[2] for line in done.stdout.splitlines() if line.startswith("H-0")]
    assert got == (flow["out"] / "hyp.tok.en").read_text("utf-8").split("\n")[:1]


def test_fairseq_validate_gives_the_loss_of_training(flow: Flow) -> None:
    done = fairseq(
        "validate", flow["data"], "--user-dir", ROOT / "deepnmt", "--path", flow["save"] / "checkpoint_last.pt",
        "--cpu", "--max-tokens", 1500, "--task", "translation",
    )  # fmt: skip
    best = read(flow["save"] / "checkpoint_last.pt")["extra_state"]["val_loss"]
    assert f"loss {best:.3f}".rstrip("0") in done.stderr + done.stdout


@pytest.mark.slow
def test_fairseq_hydra_train_with_a_named_architecture_in_bf16(flow: Flow, tmp_path: Path) -> None:
    config = f"""
# @package _group_
common: {{user_dir: {ROOT / "deepnmt"}, cpu: true, bf16: true, log_format: simple}}
task: {{_name: translation, data: {flow["data"]}, source_lang: de, target_lang: en}}
model: {{_name: dlcl_transformer_tiny, encoder_layers: 2, decoder_layers: 1, share_all_embeddings: true}}
criterion: {{_name: label_smoothed_cross_entropy, label_smoothing: 0.1}}
optimizer: {{_name: adam, adam_betas: "(0.9,0.98)"}}
lr_scheduler: {{_name: inverse_sqrt, warmup_updates: 10}}
dataset: {{max_tokens: 600, num_workers: 0}}
optimization: {{max_update: 3, lr: [0.001]}}
checkpoint: {{save_dir: {tmp_path}/save}}
"""
    (tmp_path / "toy.yaml").write_text(config, encoding="utf-8")
    command = ["--config-dir", tmp_path, "--config-name", "toy", "hydra.job.chdir=false", f"hydra.run.dir={tmp_path}"]
    fairseq("hydra-train", *command, cwd=tmp_path)
    saved = tmp_path / "save" / "checkpoint_last.pt"
    assert parameters(saved)["encoder.history.weight"].shape == (3, 3, 1)
    assert parameters(saved)["encoder.layers.0.fc1.weight"].shape == (256, 128)
    # A new process needs none of the options again.
    script("generate.sh", saved, flow["data"], tmp_path / "out", "--beam", 1, "--max-len-b", 5)
    assert len((tmp_path / "out" / "hyp.en").read_text("utf-8").splitlines()) == 20


HALF = ["--fp16", "--fp16-no-flatten-grads", "--fp16-init-scale", "4"]
STOCK = [
    "--encoder-layerdrop", "0.3", "--decoder-layerdrop", "0.3", "--checkpoint-activations", "--layernorm-embedding",
    "--activation-fn", "gelu", "--criterion", "adaptive_loss", "--ddp-backend", "legacy_ddp",
    "--adaptive-softmax-cutoff", "50,100",
]  # fmt: skip


@pytest.mark.parametrize("extra", [HALF, STOCK], ids=["fp16", "stock-options"])
def test_fairseq_train_with_options_of_its_own(
    flow: Flow, tmp_path: Path, extra: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    criterion = [] if "--criterion" in extra else ["--criterion", "label_smoothed_cross_entropy"]
    done = fairseq(
        "train", flow["data"], "--user-dir", ROOT / "deepnmt", "--arch", "dlcl_transformer_tiny", "--cpu",
        "--encoder-layers", 3, "--decoder-layers", 2, "--optimizer", "adam", "--max-tokens", 600, "--max-update", 2,
        "--num-workers", 0, "--save-dir", tmp_path, "--encoder-max-relative-length", 3, *criterion, *extra,
    )  # fmt: skip
    assert "num_updates 2" in done.stdout + done.stderr
    saved = parameters(tmp_path / "checkpoint_last.pt")
    assert all(tensor.isfinite().all() for tensor in saved.values())
    # The checkpoint is read again by a command that is given none of these options.
    run_main(
        generate.cli_main, "fairseq-generate", flow["data"], "--path", tmp_path / "checkpoint_last.pt", "--cpu",
        "--beam", 1, "--max-len-b", 3, "--batch-size", 20, "--num-workers", 0,
    )  # fmt: skip
    assert "Generate test with beam=1: BLEU4 = " in capsys.readouterr().out


def test_options_that_make_no_sense_are_refused_at_start(flow: Flow, tmp_path: Path) -> None:
    done = fairseq(
        "train", flow["data"], "--user-dir", ROOT / "deepnmt", "--arch", "dlcl_transformer_tiny", "--cpu",
        "--encoder-groups", "0,6,6,12", "--dlcl-granularity", "7", "--optimizer", "adam", "--max-tokens", 600,
        "--save-dir", tmp_path / "save", status=2,
    )  # fmt: skip
    assert [line for line in done.stderr.splitlines() if "error:" in line] == [
        "deepnmt: error: --encoder-groups: boundaries must be increasing, but are '0,6,6,12'",
        "deepnmt: error: --dlcl-granularity: must divide --encoder-embed-dim 128, but is 7",
        "deepnmt: error: --dlcl-granularity: must divide --decoder-embed-dim 128, but is 7",
    ]
    assert not (tmp_path / "save").exists()


def test_faulty_recipe_and_missing_files_stop_train(flow: Flow, tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("arch: dlcl_transformer_tiny\nencoder-grups: 2\noptimizer: adam\nmax-tokens: 9\n", encoding="utf-8")
    # Nor is the package of the folder imported in which the script is called.
    (tmp_path / "deepnmt").mkdir()
    (tmp_path / "deepnmt" / "__init__.py").write_text("raise SystemExit(7)", encoding="utf-8")
    done = script("train.sh", tmp_path / "none.yaml", flow["data"], tmp_path / "save", status=2, cwd=tmp_path, env=REAL)
    assert error_line(done) == (
        "train.sh: error: RECIPE must be a file, or a name that 'deepnmt recipe' lists, but there is no "
        f"'{tmp_path / 'none.yaml'}'"
    )
    done = script("train.sh", bad, flow["data"], tmp_path / "save", status=2)
    assert f"{bad}:2: 'encoder-grups' is not an option" in error_line(done)
    done = script("train.sh", flow["recipe"], tmp_path / "none", tmp_path / "save", status=2)
    assert "DATA must be a folder made by deepnmt preprocess" in error_line(done)
    assert "must be given" in error_line(script("train.sh", status=2))
    assert not (tmp_path / "save").exists()


def test_fairseq_names_a_truncated_checkpoint_and_a_dictionary_that_does_not_fit(flow: Flow, tmp_path: Path) -> None:
    cut = tmp_path / "cut.pt"
    cut.write_bytes(flow["average"].read_bytes()[:10000])
    arguments = [flow["data"], "--user-dir", ROOT / "deepnmt", "--cpu", "--path"]
    done = fairseq("generate", *arguments, cut, status=2)
    assert f"deepnmt: error: {cut}: must be a whole fairseq checkpoint, but is truncated" in error_line(done)
    other = shutil.copytree(flow["data"], tmp_path / "data")
    for language in ("de", "en"):
        with (other / f"dict.{language}.txt").open("a", encoding="utf-8") as file:
            file.write("new 1\n")
    with pytest.raises(UserError, match=r"^dictionary must have the"):
        run_main(generate.cli_main, "fairseq-generate", other, "--cpu", "--path", flow["average"])
