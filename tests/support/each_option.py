"""Give each option of fairseq's commands once: `python -m support.each_option FOLDER` writes FOLDER/seen.json.

The command lines are built from the parsers: a flag alone, else the value in `VALUES`, else one that is not the
default. Each runs in a process of its own on a model of width 16 and is compared with the command line without it.
"""

from __future__ import annotations

import gc
import json
import os
import re
import resource
import signal
import sys
import tempfile
import traceback
from argparse import Action
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from fairseq import options
from fairseq.data import Dictionary
from fairseq.tasks.fairseq_task import FairseqTask
from fairseq.trainer import Trainer
from fairseq_cli import score
from hydra._internal.config_repository import CachingConfigRepository

from support.data_folders import write_side
from support.language_models import save_language_model
from support.trainings import binarised_text

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 60  # of the processor, in one run
TASKS = {"translation": "transformer", "deep_translation": "dlcl_transformer"}
PARSERS = {
    "train": options.get_training_parser,
    "generate": options.get_generation_parser,
    "interactive": options.get_interactive_generation_parser,
    "validate": options.get_validation_parser,
    "eval-lm": options.get_eval_lm_parser,
}
SIZE = "--encoder-embed-dim=16 --encoder-ffn-embed-dim=24 --encoder-attention-heads=2 --encoder-layers=2 --dropout=0.1"
SIZE += f" {SIZE.replace('encoder', 'decoder')} --decoder-output-dim=16"
CHOICES = "--optimizer=adam --lr=0.01 --lr-scheduler=inverse_sqrt --criterion=label_smoothed_cross_entropy"
LOG = "--user-dir=PACKAGE --cpu --num-workers=0 --no-progress-bar"
TRAIN = f"{SIZE} {CHOICES} {LOG} --log-format=json --log-interval=2 --batch-size=8 --max-epoch=2 --save-dir=OUT"
TRAIN += " --warmup-updates=2"
SEARCH = f"--path=MODEL {LOG} --beam=3 --max-len-a=0 --max-len-b=8 --batch-size=4"
BASES = {
    "train": f"DATA {TRAIN}",
    "generate": f"DATA {SEARCH}",
    "interactive": f"DATA {SEARCH} --input=TEXT --buffer-size=4",
    "validate": f"DATA --path=MODEL {LOG} --batch-size=4 --log-format=json",
    "eval-lm": f"WORDS --path=LM --gen-subset=valid {LOG} --batch-size=4 --task=language_modeling "
    "--sample-break-mode=eos --tokens-per-sample=60",
    "score": "--sys=SYS --ref=REF",
}
HALF = "--fp16 --fp16-no-flatten-grads"
RESUME = "--restore-file=TRAINED --max-epoch=8"
CUTOFF = "--criterion=adaptive_loss --adaptive-softmax-cutoff=6,9 --ddp-backend=legacy_ddp"
COVERAGE = "--coverage=gnmt --coverage-weight=0.2"
EMA = "--store-ema --ema-decay=0.5"
BLEU = '--eval-bleu --eval-bleu-args={"beam":2,"max_len_b":8}'
PLATEAU = "--lr-scheduler=reduce_lr_on_plateau --lr-patience=0 --lr-threshold=0.99 --warmup-updates=0"
# The value, and what stands beside it; an option may be in this table for one command alone. Where the first word is
# "-", the option is a flag or takes the value that is derived.
VALUES = {
    "--log-file": "OUT/log", "--log-interval": "1", "--log-format": "simple", "--tensorboard-logdir": "OUT/board",
    "--aim-repo": "OUT/aim", "--aim-run-hash": "0", "--wandb-project": "none", "--user-dir": "PACKAGE",
    "--quantization-config-path": "OUT/none.yaml", "--plasma-path": "OUT/plasma", "--optimizer": "sgd",
    "--lr-scheduler": "fixed", "--tokenizer": "space", "--bpe": "sentencepiece", "--scoring": "sacrebleu",
    "--criterion": "cross_entropy", "eval-lm --criterion": "adaptive_loss", "--task": "deep_translation",
    "eval-lm --task": "language_modeling", "--max-tokens": "30", "--batch-size": "2", "--dataset-impl": "lazy",
    "--required-seq-len-multiple": "8", "--train-subset": "valid", "--valid-subset": "test", "--gen-subset": "valid",
    "eval-lm --gen-subset": "test",
    "--combine-val": "- data=SUBSETS", "--ignore-unused-valid-subsets": "- data=SUBSETS",
    "--validate-interval": "2", "--validate-interval-updates": "2", "--validate-after-updates": "6",
    "--max-tokens-valid": "20", "--batch-size-valid": "3", "--nval": "1", "--curriculum": "1 --max-epoch=3",
    "--num-shards": "2", "--shard-id": "1 --num-shards=2", "--update-epoch-batch-itr": "True",
    "--fp16-init-scale": f"4 {HALF}", "--fp16-scale-window": f"1 {HALF}", "--fp16-scale-tolerance": f"0.5 {HALF}",
    "--fp16": "- --fp16-no-flatten-grads", "--fp16-no-flatten-grads": "- --fp16", "--min-loss-scale": f"0.1 {HALF}",
    "--threshold-loss-scale": f"8 {HALF}", "--quiet": "-", "--distributed-backend": "gloo",
    "--distributed-init-method": "tcp://127.0.0.1:29511", "--distributed-port": "29512", "--ddp-backend": "legacy_ddp",
    "--ddp-comm-hook": "fp16", "--slowmo-momentum": "0.1", "--slowmo-base-algorithm": "sgp",
    "--pipeline-balance": "1", "--pipeline-devices": "0", "--pipeline-encoder-balance": "1",
    "--pipeline-encoder-devices": "0", "--pipeline-decoder-balance": "1", "--pipeline-decoder-devices": "0",
    "--pipeline-checkpoint": "always", "--zero-sharding": "os", "--path": "OTHER", "eval-lm --path": "LM",
    "--remove-bpe": "sentencepiece", "--model-overrides": "{'dropout':0.2}", "--results-path": "OUT/results",
    "--nbest": "2", "--max-len-a": "1", "--max-len-b": "3", "--min-len": "7", "--lenpen": "0", "--unkpen": "-9",
    "--prefix-size": "2", "--no-repeat-ngram-size": "1", "--sampling-topk": "2 --sampling",
    "--sampling-topp": "0.5 --sampling", "--sampling": "- --temperature=3", "--constraints": "-",
    "generate --constraints": "unordered --constraint-file=TERMS --task=deep_translation", "--temperature": "3",
    "--diverse-beam-groups": "3", "--diverse-beam-strength": "2 --diverse-beam-groups=3", "--diversity-rate": "0.5",
    "--print-alignment": "hard", "--lm-path": "LM --lm-weight=0.9", "--lm-weight": "0.9 --lm-path=LM",
    "--retain-dropout-modules": "TransformerEncoder --retain-dropout", "--decoding-format": "unigram",
    "--no-seed-provided": "- --sampling", "--eos-token": "a1", "--beam": "1", "--input": "OTHERTEXT",
    "--buffer-size": "1", "--save-dir": "OUT/other", "--restore-file": "TRAINED --max-epoch=8",
    "--continue-once": "TRAINED --max-epoch=8", "--finetune-from-model": "TRAINED",
    "--reset-dataloader": f"- {RESUME}", "--reset-lr-scheduler": f"- {RESUME} {PLATEAU}",
    "--reset-meters": f"- {RESUME}", "--reset-optimizer": f"- {RESUME}",
    "--optimizer-overrides": f"{{'betas':(0.5,0.9)}} {RESUME}", "--save-interval": "2", "--save-interval-updates": "2",
    "--keep-interval-updates": "1 --save-interval-updates=2",
    "--keep-interval-updates-pattern": "4 --save-interval-updates=2 --keep-interval-updates=1",
    "--keep-last-epochs": "1", "--keep-best-checkpoints": "1", "--best-checkpoint-metric": "ppl",
    "--maximize-best-checkpoint-metric": "-", "--patience": "1 --max-epoch=12 --lr=0.5", "--checkpoint-suffix": "-x",
    "generate --checkpoint-suffix": "-x", "--checkpoint-shard-count": "2", "--source-lang": "b",
    "--target-lang": "a", "train --source-lang": "b --target-lang=a", "train --target-lang": "a --source-lang=b",
    "--load-alignments": "-", "--max-source-positions": "5 --skip-invalid-size-inputs-valid-test",
    "--max-target-positions": "5 --skip-invalid-size-inputs-valid-test",
    "--skip-invalid-size-inputs-valid-test": "- --max-source-positions=5", "eval-lm --max-target-positions": "60",
    "--upsample-primary": "2 --task=deep_translation data=SUBSETS", "--eval-bleu": f"- {BLEU[11:]}",
    "--eval-bleu-args": f'{{"beam":1,"max_len_b":3}} {BLEU} --eval-bleu-print-samples',
    "--eval-bleu-detok": f"moses {BLEU} --eval-bleu-print-samples",
    "--eval-bleu-detok-args": f'{{"target_lang":"b"}} {BLEU} --eval-bleu-detok=moses --eval-bleu-print-samples',
    "--eval-tokenized-bleu": f"- {BLEU}", "--eval-bleu-remove-bpe": f"sentencepiece {BLEU} --eval-bleu-print-samples",
    "--eval-bleu-print-samples": f"- {BLEU}", "--force-anneal": "1 --lr-scheduler=fixed",
    "--lr-shrink": "0.5 --lr-scheduler=fixed --force-anneal=1", "--warmup-updates": "5",
    "--warmup-init-lr": "0.005", "--arch": "transformer", "--max-epoch": "1", "--max-update": "3",
    "--stop-time-hours": "0.0000001", "--clip-norm": "0.01", "--update-freq": "2", "--lr": "0.02",
    "--stop-min-lr": "0.05", "--store-ema": "- --ema-decay=0.5", "--ema-decay": f"0.9 {EMA}",
    "--ema-start-update": f"3 {EMA}", "--ema-seed-model": f"AVERAGED {EMA}", "--ema-update-freq": f"2 {EMA}",
    "--ema-fp32": f"- {EMA} {HALF}", "--activation-fn": "tanh", "--attention-dropout": "0.3",
    "--activation-dropout": "0.3", "--relu-dropout": "0.3", "--dropout": "0.3", "--encoder-embed-path": "VECTORS",
    "--decoder-embed-path": "VECTORS", "--encoder-embed-dim": "32", "--decoder-embed-dim": "32",
    "--decoder-input-dim": "8", "--decoder-output-dim": "8", "--encoder-layerdrop": "0.5",
    "--decoder-layerdrop": "0.5", "--encoder-layers-to-keep": "0", "--decoder-layers-to-keep": "0",
    "--encoder-xformers-att-config": "{}", "--decoder-xformers-att-config": "{}", "--encoder-attention-heads": "4",
    "--decoder-attention-heads": "4", "--encoder-ffn-embed-dim": "16", "--decoder-ffn-embed-dim": "16",
    "--encoder-layers": "1", "--decoder-layers": "1", "--adaptive-softmax-cutoff": "6,9 --criterion=adaptive_loss "
    "--ddp-backend=legacy_ddp", "--adaptive-softmax-dropout": f"0.5 {CUTOFF}",
    "--adaptive-softmax-factor": f"2 {CUTOFF}", "--quant-noise-pq": "0.5", "--quant-noise-pq-block-size":
    f"4 --quant-noise-pq=0.5 {HALF}", "--quant-noise-scalar": "0.5", "--min-params-to-wrap": "1", "--base-layers": "1",
    "--base-sublayers": "2", "--base-shuffle": "1", "--label-smoothing": "0.3", "--adam-betas": "(0.5,0.9)",
    "--adam-eps": "0.1", "--weight-decay": "0.3", "--length-penalty": "gnmt --lenpen=2", "--min-len-ratio": "1.5",
    "--max-len-ratio": "0.5", "--coverage": "gnmt --coverage-weight=0.9", "--coverage-weight": f"2 {COVERAGE}",
    "--coverage-floor": "0.9 --coverage=floor --coverage-weight=0.9", "--coverage-layer": f"1 {COVERAGE}",
    "--coverage-in-beam": f"- {COVERAGE}", "--beam-stop": "first", "--prune-gap": "0.01",
    "--ensemble-rule": "log-linear --path=BOTH", "--ensemble-weights": "0.9,0.1 --path=BOTH", "--datastore": "STORE",
    "--neighbours": "1 --datastore=STORE", "--neighbour-weight": "0.9 --datastore=STORE",
    "--neighbour-temperature": "1 --datastore=STORE", "--validate-average": "2", "--bpe-dropout": "0.5",
    "--bpe-dropout-side": "source --bpe-dropout=0.5", "--float32-matmul-precision": "medium",
    "--pair-weights": "WEIGHTS", "--constraint-file": "TERMS --constraints", "--nbest-file": "OUT/nbest",
    "--encoder-groups": "none", "--decoder-groups": "1", "--dlcl-granularity": "sublayer", "--dlcl-init": "one",
    "--dlcl-window": "1", "--dlcl-dropout": "0.5", "--encoder-max-relative-length": "2",
    "--decoder-max-relative-length": "2", "--relative-positions": "keys-values --encoder-max-relative-length=2",
    "--encoder-norm": "post", "--decoder-norm": "post", "--residual-scale": "deepnorm --encoder-norm=post "
    "--decoder-norm=post", "--initializer": "xavier", "--ds-init-alpha": "0.5 --initializer=ds-init",
    "--encoder-word-dropout": "0.5", "--decoder-word-dropout": "0.5", "--encoder-skip": "0.5", "--decoder-skip": "0.5",
    "--skip-schedule": "constant --encoder-skip=0.5", "--skip-scale": "inference --encoder-skip=0.5",
    "--context-window": "4", "--sample-break-mode": "none", "--tokens-per-sample": "7 --sample-break-mode=none",
    "--shorten-method": "truncate --tokens-per-sample=4", "--shorten-data-split-list":
    "train --tokens-per-sample=4 --shorten-method=truncate", "--sys": "REF", "--ref": "SYS", "--order": "1",
    "data": "OTHERDATA", "--local_rank": "1", "--distributed-rank": "1", "--softmax-batch": "3",
}  # fmt: skip
# A model has the layers of Xavier only where this is asked for, and so on: what the option needs in every command.
ALSO = {"--dlcl-embedding-norm": "--encoder-norm=post", "--no-decoder-final-norm": "--decoder-normalize-before"}


def rows() -> list[tuple[list[str], str, str]]:
    """The rows of docs/fairseq.md: names of an option, state, what was seen."""
    lines = [line for line in (ROOT / "docs" / "fairseq.md").read_text("utf-8").splitlines() if line.startswith("| `")]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|"))] for line in lines]
    assert all(len(row) == 3 for row in cells)
    return [(re.findall("`([^`]+)`", names), state, seen) for names, state, seen in cells]


def parsers() -> Iterator[tuple[str, str, Any, list[str]]]:
    """Yield command, task, parser with all its options, and what the command line begins with."""
    yield "score", "", score.get_parser(), []
    for command, make in PARSERS.items():
        for task, arch in TASKS.items():
            given = [] if command == "eval-lm" else [f"--task={task}"]
            given += [f"--arch={arch}", *CHOICES.split()] if command == "train" else []
            parser = make()
            options.parse_args_and_arch(parser, ["data", *given], parse_known=True)
            yield command, task if given else "", parser, given
            if not given:
                break


def line_of(command: str, action: Action) -> tuple[str, list[str], list[str]]:
    """The option's name, its words, and those that stand beside it."""
    names = [name for name in action.option_strings if name.startswith("--")]
    known = next((name for name in names if name in VALUES or f"{command} {name}" in VALUES), "")
    name = known or (names or [action.dest])[-1]
    value, *more = VALUES.get(f"{command} {name}", VALUES.get(name, "-")).split()
    more += ALSO.get(name, "").split()
    if name == "data":
        return name, [f"data={value}"], more
    if action.nargs == 0 or (value == "-" and action.nargs == "?"):
        return name, [name], more
    if value == "-":
        assert action.type in (int, float), f"{name} has no value in the table"
        default = action.default if isinstance(action.default, (int, float)) else 1
        value = str(default + 1) if action.type is int else str(default + 0.5)
    return name, [f"{name}={value}"], more


def write_files(folder: Path) -> dict[str, str]:
    """Make data and models; the places that stand for them in the command lines."""
    data = binarised_text(folder)
    subsets, other = folder / "subsets", folder / "other"
    for place in (subsets, other):
        place.mkdir()
        for path in data.iterdir():
            (place / path.name).write_bytes(path.read_bytes())
    for path in data.glob("valid.*"):
        (subsets / path.name.replace("valid", "valid1")).write_bytes(path.read_bytes())
        (subsets / path.name.replace("valid", "train1")).write_bytes(path.read_bytes())
        for split in ("train", "test"):
            (other / path.name.replace("valid", split)).write_bytes(path.read_bytes())
    types = Dictionary.load(str(data / "dict.b.txt"))
    words = folder / "words"
    words.mkdir()
    save_language_model(words, types)
    for split, size in (("valid", 6), ("test", 4)):
        write_side(words / split, [[4 + (3 * a + b) % 12 for b in range(3 + a)] + [2] for a in range(size)])
    vectors = "".join(
        f"{types[i]} {' '.join(str((i * j) % 7 / 10) for j in range(16))}\n" for i in range(4, len(types))
    )
    lines = (folder / "test.a").read_text("utf-8").splitlines()
    for name, text in (
        ("vectors", vectors),
        ("weights", "".join(f"{1 + n % 3}\n" for n in range(40))),
        ("terms", "b1 b2\n" * len(lines)),
        ("text", "\n".join(lines) + "\n"),
        ("othertext", "\n".join(lines[::-1]) + "\n"),
        ("sys", "a B c d e f\ng h i j k\n"),
        ("ref", "a b c d e g\ng h i j k\n"),
    ):
        (folder / name).write_text(text, encoding="utf-8")
    places = {"DATA": data, "SUBSETS": subsets, "OTHERDATA": other, "WORDS": words, "LM": words / "lm.pt"}
    places |= {"TERMS": folder / "terms", "VECTORS": folder / "vectors", "WEIGHTS": folder / "weights"}
    places |= {"TEXT": folder / "text", "OTHERTEXT": folder / "othertext", "SYS": folder / "sys", "REF": folder / "ref"}
    places |= {"PACKAGE": ROOT / "deepnmt"}
    return {name: str(path) for name, path in places.items()}


class Runs:
    """Run command lines in a folder, each in a process of its own, and remember what was seen of each."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.places = folder, write_files(folder)
        self.seen: dict[str, dict[str, Any]] = {}

    def run(self, command: str, words: list[str]) -> dict[str, Any]:
        """What a command line does."""
        base = BASES[command].split()
        for word in [word for word in words if word.startswith("data=")]:
            words = [each for each in words if each != word]
            base[0] = word[5:]
        line = " ".join([command, *base, *words])
        if line not in self.seen:
            out = self.folder / f"out{len(self.seen)}"
            out.mkdir()
            places = {**self.places, "OUT": str(out)}
            pattern = rf"\b({'|'.join(sorted(places, key=len, reverse=True))})\b"
            filled = [re.sub(pattern, lambda found: places[found[1]], word) for word in (*base, *words)]
            child = os.fork()
            if not child:
                work(command, filled, out)
            self.seen[line] = {**wait(child, out), "line": line, "out": str(out)}
        return self.seen[line]


def work(command: str, words: list[str], out: Path) -> None:
    """Be the command, and end; files in `out` have what it does."""
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    signal.alarm(20 * SECONDS)
    for stream, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(out / name, os.O_WRONLY | os.O_CREAT), stream)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.argv = [f"fairseq-{command}", *words]
    seen: dict[str, Any] = {"losses": [], "batches": [], "valid": []}
    step, valid_step = Trainer.train_step, FairseqTask.valid_step

    def train_step(self: Any, samples: Any, *args: Any, **kwargs: Any) -> Any:
        log = step(self, samples, *args, **kwargs)
        scaler = getattr(self.optimizer, "scaler", None)
        seen["losses"].append([log and round(float(log["loss"]), 6), self.get_lr(), scaler and scaler.loss_scale])
        seen["batches"].append([(x["id"].tolist(), list(x["net_input"]["src_tokens"].shape)) for x in samples])
        return log

    def validated(self: Any, sample: Any, *args: Any, **kwargs: Any) -> Any:
        found = valid_step(self, sample, *args, **kwargs)
        seen["valid"].append((round(float(found[0]), 6), sample["id"].tolist(), torch.initial_seed()))
        return found

    Trainer.train_step, FairseqTask.valid_step = train_step, validated
    status: Any = 0
    try:
        import_module(f"fairseq_cli.{command.replace('-', '_')}").cli_main()
    except SystemExit as end:
        status = end.code or 0
    except BaseException:
        status = 1
        try:
            sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
        except SystemExit as end:  # of which Python takes the status
            status = end.code
    last = next(iter(sorted(out.glob("**/checkpoint_last*.pt"))), None)
    if last is not None and status == 0:
        state = torch.load(last, weights_only=False)
        seen["model"] = {name: [*value.shape] for name, value in state["model"].items()}
        seen["state"] = sorted([*state, *state["extra_state"]])
        seen["average"] = sorted(round(float(value.sum()), 5) for value in state["extra_state"].get("ema", {}).values())
    sys.stdout.flush()
    (out / "parts.json").write_text(json.dumps(seen), encoding="utf-8")
    os._exit(status if isinstance(status, int) else 1)


def wait(child: int, out: Path) -> dict[str, Any]:
    """How the command ended, and what it has left, in parts that can be compared."""
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    texts = [(out / name).read_text("utf-8", errors="replace") for name in ("stdout", "stderr")]
    ended = "ran" if status == 0 else "line" if "Traceback (most" not in texts[1] and status > 0 else "traceback"
    parts = json.loads((out / "parts.json").read_text("utf-8")) if (out / "parts.json").exists() else {}
    files = [str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()]
    parts["files"] = sorted(re.sub(r"events\.out.*", "events", name) for name in files)
    parts["output"] = [line for line in texts[0].splitlines() if not re.match(r"20\d\d-", line)]
    log = [re.sub(r"^20\S+ \S+ ", "", line) for line in "\n".join(texts).splitlines() if "{'_name'" not in line]
    said = [
        re.sub(rf"{re.escape(str(out))}|\d+(\.\d+)?(e-?\d+)?", "0", line) for line in log if "Namespace(" not in line
    ]
    parts["log"] = said
    parts["figures"] = re.findall(r"(?:loss|Loss \(base 2\):|BLEU4? =|bleu) (\d+(?:\.\d+)?)", "\n".join(log))
    return {"ended": ended, "status": status, "parts": parts, "last": texts[1].strip().splitlines()[-1:]}


def share_sources(self: Any, delegate: Any) -> None:
    """In place of Hydra's constructor, which takes half a second to copy what a process that ends does not change."""
    self.delegate, self.cache = delegate, {}


def main(folder: Path) -> None:
    """Write what each option changes; a second call goes on where the first one was stopped."""
    torch.set_num_threads(1)
    # To the package this process is fairseq's command, which shows faults in a line.
    sys.modules["__main__"].__file__ = "fairseq-train"
    sys.argv = ["fairseq-train"]
    import deepnmt
    from deepnmt import console

    deepnmt.register()
    console.run(lambda: None)  # which makes this process a command, whatever has imported the package before
    CachingConfigRepository.__init__ = share_sources
    seen = folder / "seen.json"
    results: list[dict[str, Any]] = json.loads(seen.read_text("utf-8")) if seen.exists() else []
    done = {(each["command"], each["option"]) for each in results}
    work_folder = Path(tempfile.mkdtemp(dir=folder))
    runs = Runs(work_folder)
    gc.freeze()
    for task, arch in TASKS.items():
        trained = runs.run("train", [f"--task={task}", f"--arch={arch}", "--max-epoch=4", "--store-ema"])
        assert trained["ended"] == "ran", trained["last"]
        last = f"{trained['out']}/checkpoint_last.pt"
        names = ("OTHER",) if task == "translation" else ("MODEL", "AVERAGED")
        runs.places |= dict.fromkeys(names, last)
    runs.places |= {"BOTH": f"{runs.places['MODEL']}:{runs.places['OTHER']}"}
    plain = runs.run("train", ["--task=deep_translation", "--arch=dlcl_transformer", "--max-epoch=3"])
    runs.places |= {"TRAINED": f"{plain['out']}/checkpoint_last.pt", "STORE": str(work_folder / "store")}
    child = os.fork()
    if not child:
        import deepnmt.cli

        deepnmt.cli.main(["datastore", runs.places["MODEL"], runs.places["DATA"], runs.places["STORE"]])
        os._exit(0)
    os.waitpid(child, 0)
    for command, task, parser, given in parsers():
        for action in parser._actions:
            name, words, more = line_of(command, action)
            # The task of this package has those of fairseq's, too.
            if name == "--help" or (command, name) in done:
                continue
            done.add((command, name))
            without, with_it = runs.run(command, [*given, *more]), runs.run(command, [*given, *more, *words])
            changed = [key for key in with_it["parts"] if with_it["parts"][key] != without["parts"].get(key)]
            results.append({
                "option": name, "command": command, "task": task, "ended": with_it["ended"], "before": without["ended"],
                "changed": changed, "line": with_it["line"], "out": with_it["out"], "last": with_it["last"],
            })  # fmt: skip
            seen.write_text(json.dumps(results), encoding="utf-8")


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except Exception:
        traceback.print_exc()
        sys.exit(1)
