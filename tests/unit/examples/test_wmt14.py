"""WMT14: the text comes out of the archives as it must, and each recipe is its row of the book's tables."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
import sys
import tarfile
from argparse import Namespace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from fairseq import options
from fairseq.models import MODEL_DATACLASS_REGISTRY, build_model
from grammar.corpus import sample_pairs
from support import warm
from support.models import ROOT, dictionary, task
from wmt14_text import PARTS, Part, extract

from deepnmt import recipe
from deepnmt.errors import UserError
from deepnmt.recipe.checking import check_recipe
from deepnmt.recipe.own_keys import share

EXAMPLE, CONFIGS = ROOT / "examples" / "wmt14", ROOT / "configs" / "wmt14"
FILES = sorted(CONFIGS.rglob("*.yaml"))
NAMES = [name for path in FILES if "/" in (name := path.relative_to(CONFIGS).with_suffix("").as_posix())]
TYPES = 32_768


def table(name: str) -> dict[str, dict[str, str]]:
    with (EXAMPLE / "tables" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return {f"{name}/{entry['row']}": entry for entry in csv.DictReader(file)}


BATCHES, SYSTEMS = table("7.3"), table("15.1")


@cache
def arguments(name: str, *more: str) -> Namespace:
    path, argv, sys.argv = CONFIGS / f"{name}.yaml", sys.argv, ["pytest"]
    try:
        read = share(recipe.read_recipe(path), 8)
        check_recipe(path, read, [])
        result: Namespace = options.parse_args_and_arch(
            options.get_training_parser(), ["DATA", *recipe.to_arguments(read), *more]
        )
    finally:
        sys.argv = argv
    return result


def settings(name: str) -> dict[str, Any]:
    args = arguments(name)
    return {**vars(args), **vars(MODEL_DATACLASS_REGISTRY[args.arch].from_namespace(args))}


def differing(name: str, **wanted: Any) -> dict[str, Any]:
    got = settings(name)
    return {key: got[key] for key, value in wanted.items() if got[key] != value}


def test_every_row_has_a_recipe() -> None:
    assert [*BATCHES, *SYSTEMS] == ["7.3/1", "7.3/2", "7.3/3", "15.1/base", "15.1/big", "15.1/dlcl_30"]
    assert sorted(NAMES) == sorted([*BATCHES, *SYSTEMS])
    assert len(FILES) == len(NAMES) + 2


@pytest.mark.parametrize("name", BATCHES)
def test_table_of_batches(name: str) -> None:
    entry = BATCHES[name]
    plain = {"encoder_groups": "none", "decoder_groups": "none", "encoder_norm": "pre", "decoder_norm": "pre"}
    assert not differing(name, **plain, encoder_layers=30, decoder_layers=6, lr=[float(entry["lr"])])
    # On each of eight GPUs.
    args = arguments(name)
    assert args.max_tokens * args.update_freq[0] == int(entry["batch"])
    tokens = {args.max_tokens * args.update_freq[0] * args.max_update for args in map(arguments, BATCHES)}
    assert len(tokens) == 1


def test_table_of_systems() -> None:
    base = {"encoder_embed_dim": 512, "encoder_ffn_embed_dim": 2048, "encoder_attention_heads": 8}
    post = {"encoder_norm": "post", "decoder_norm": "post", "encoder_groups": "none", "decoder_groups": "none"}
    vaswani = {**post, "initializer": "default", "attention_dropout": 0, "activation_dropout": 0, "encoder_layers": 6}
    assert not differing("15.1/base", **base, **vaswani, adam_betas="(0.9, 0.98)", dropout=0.1, lr=[0.0007])
    big = {"encoder_embed_dim": 1024, "decoder_ffn_embed_dim": 4096, "decoder_attention_heads": 16}
    assert not differing("15.1/big", **big, **vaswani, adam_betas="(0.9, 0.98)", dropout=0.3, lr=[0.0005])
    dlcl = {"encoder_groups": "1", "decoder_groups": "1", "encoder_norm": "pre", "initializer": "fairseq-2019"}
    assert not differing("15.1/dlcl_30", **base, **dlcl, encoder_layers=30, decoder_layers=6, lr=[0.002])
    # Noam's peak, (width x warm-up)^-0.5, is what the paper trains Base with.
    assert settings("15.1/base")["lr"][0] == pytest.approx((512 * 4000) ** -0.5, rel=0.01)


@pytest.mark.parametrize("name", NAMES)
def test_model_has_the_parameters_that_the_header_says(name: str) -> None:
    with torch.device("meta"):
        model = build_model(arguments(name), task(dictionary(TYPES - 4)))
    number = sum(parameter.numel() for parameter in model.parameters())
    header = (CONFIGS / f"{name}.yaml").read_text(encoding="utf-8")
    assert f"{number:,} parameters" in header
    if name in ("15.1/big", "15.1/dlcl_30"):
        assert round(number / 1e6) == int(SYSTEMS[name]["parameters_millions"])
    if name == "15.1/base":
        # With 37,000 types it is the book's figure.
        assert round((number + 512 * (37_000 - TYPES)) / 1e6) == int(SYSTEMS[name]["parameters_millions"])


@pytest.mark.parametrize("name", NAMES)
def test_narrow_model_of_the_recipe_has_a_finite_loss_and_gradients(name: str) -> None:
    sizes = {"embed-dim": 16, "ffn-embed-dim": 32, "attention-heads": 2}
    narrow = [f"--{stack}-{key}={value}" for stack in ("encoder", "decoder") for key, value in sizes.items()]
    model = build_model(arguments(name, *narrow), task(dictionary(20)))
    tokens = torch.tensor([[5, 6, 7, 2], [8, 9, 10, 2]])
    logits = model(tokens, torch.tensor([4, 4]), torch.tensor([[2, 5, 6], [2, 7, 8]]))[0]
    torch.nn.functional.cross_entropy(logits.flatten(0, 1), torch.tensor([5, 6, 2, 7, 8, 2])).backward()
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in model.parameters())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(CONFIGS).as_posix())
def test_header_comments_and_nothing_twice(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    name = path.relative_to(CONFIGS).with_suffix("").as_posix()
    if name in NAMES:
        assert f"#   deepnmt train wmt14/{name} output/wmt14/data checkpoints/wmt14/" in text
        published = re.search(r"^# Published: (.*)", text, re.MULTILINE)
        assert published is not None
        entry = {**BATCHES, **SYSTEMS}[name]
        assert published[1].startswith(entry.get("bleu") or f"{entry['parameters_millions']} million parameters")
    else:
        assert "Not a recipe" in text
    own = yaml.load(text, yaml.BaseLoader)
    if "extends" in own:
        base = recipe.read_recipe(path.parent / own["extends"])
        assert not [key for key, value in own.items() if key in base and base[key].value == value]


def archive(path: Path, **members: str) -> None:
    with tarfile.open(path, "w:gz") as tar:
        for name, text in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(text.encode())
            tar.addfile(info, io.BytesIO(text.encode()))


def sgm(sentences: list[str]) -> str:
    rows = [f'<seg id="{number}"> {text} </seg>' for number, text in enumerate(sentences, start=1)]
    return "\n".join(['<refset setid="newstest2014">', '<doc docid="1">', "<p>", *rows, "</p>", "</doc>", "</refset>"])


def write_archives(folder: Path, **changed: dict[str, str]) -> None:
    """Write archives in the organisers' form; the newstests have as many sentences as theirs."""
    folder.mkdir()
    for part in PARTS:
        many = part.pairs or 40
        sides = [[f"{part.split} {language} {n}" for n in range(many)] for language in ("one", "eins")]
        texts = [sgm(side) if part.split == "test" else "\n".join(side) + "\n" for side in sides]
        content = {f"folder/{name}": text for name, text in zip(part.members, texts)}
        archive(folder / part.archive, **{"folder/readme": "no", **content, **changed.get(part.archive, {})})


def test_text_of_the_archives(tmp_path: Path) -> None:
    write_archives(tmp_path / "archives")
    out = tmp_path / "text"
    assert extract(tmp_path / "archives", out)
    lines = {path.name: path.read_text("utf-8").split("\n")[:-1] for path in out.glob("*.??")}
    assert {name: len(text) for name, text in lines.items()} == {
        **{f"train.{lang}": 120 for lang in ("en", "de")},
        **{f"valid.{lang}": 3000 for lang in ("en", "de")},
        **{f"test.{lang}": 3003 for lang in ("en", "de")},
    }
    assert lines["train.en"][38:42] == ["train one 38", "train one 39", "train one 0", "train one 1"]
    assert (lines["test.de"][0], lines["test.de"][-1]) == ("test eins 0", "test eins 3002")
    before = (out / "train.en").stat().st_mtime_ns
    assert not extract(tmp_path / "archives", out)
    assert (out / "train.en").stat().st_mtime_ns == before


SMALL = (Part("a.tgz", "train", ("a.en", "a.de")), Part("t.tgz", "test", ("t.en.sgm", "t.de.sgm"), 2))


def small(folder: Path, train: tuple[str, str] = ("a\n", "b\n"), test: str = sgm(["x", "y"])) -> None:
    archive(folder / "a.tgz", **{"training/a.en": train[0], "training/a.de": train[1]})
    archive(folder / "t.tgz", **{"t/t.en.sgm": test, "t/t.de.sgm": test})


def test_lines_end_at_line_feeds_alone_and_segments_keep_their_text(tmp_path: Path) -> None:
    small(tmp_path, ("one\u2028two\r\nthree\x85four", "eins\nzwei\n"), sgm(["a &amp; b’s", ""]))
    extract(tmp_path, tmp_path / "text", SMALL)
    assert (tmp_path / "text" / "train.en").read_bytes().decode() == "one\u2028two\nthree\x85four\n"
    assert (tmp_path / "text" / "test.en").read_text("utf-8") == "a &amp; b’s\n\n"


def test_faulty_archives_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"must hold the organisers' archives, but lacks a\.tgz, t\.tgz"):
        extract(tmp_path, tmp_path / "text", SMALL)
    small(tmp_path, ("a\n", "b\nc\n"))
    with pytest.raises(UserError, match=r"a\.tgz: both sides .* but have 1 in English and 2 in German"):
        extract(tmp_path, tmp_path / "text", SMALL)
    small(tmp_path, test=sgm(["x"]))
    with pytest.raises(UserError, match=r"t\.tgz: t\.en\.sgm must have 2 sentences, but has 1"):
        extract(tmp_path, tmp_path / "text", SMALL)
    archive(tmp_path / "a.tgz", **{"training/a.en": "a\n"})
    with pytest.raises(UserError, match=r"a\.tgz must hold a\.en and a\.de, but lacks a\.de"):
        extract(tmp_path, tmp_path / "text", SMALL)
    small(tmp_path)
    whole = (tmp_path / "a.tgz").read_bytes()
    for damaged in (whole[: len(whole) // 2], b"<html>not found</html>", whole[:40] + b"\0" * 20 + whole[60:]):
        (tmp_path / "a.tgz").write_bytes(damaged)
        with pytest.raises(UserError, match=r"a\.tgz must be a whole archive, but is not"):
            extract(tmp_path, tmp_path / "text", SMALL)
    assert not (tmp_path / "text").exists()


def prepare(*more: Any, status: int = 0, **environment: str) -> str:
    command = [str(part) for part in (EXAMPLE / "prepare.sh", *more)]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **warm.environment(), **environment}
    )
    assert done.returncode == status, done.stderr[-3000:]
    return done.stdout if status == 0 else done.stderr


def test_prepare(tmp_path: Path) -> None:
    pairs = sample_pairs(40, seed=5)
    english, german = ["\n".join(side) + "\n" for side in zip(*((target, source) for source, target in pairs))]
    first = PARTS[0]
    text = {f"folder/{name}": side for name, side in zip(first.members, (english, german))}
    write_archives(tmp_path / "archives", **{first.archive: text})
    run = ["--archives", tmp_path / "archives", "--bpe-merges", "60", "--workers", "1"]
    prepare(*run, OUT=str(tmp_path / "out"))
    record = json.loads((tmp_path / "out" / "data" / "preprocess.json").read_text("utf-8"))
    assert (record["source_lang"], record["target_lang"], record["lowercase"]) == ("en", "de", False)
    assert (record["max_len"], record["max_ratio"], record["bpe_merges"]) == (250, 1.5, 60)
    assert [record["counts"][split]["kept"] for split in ("valid", "test")] == [3000, 3003]
    assert all((tmp_path / "out" / "data" / f"{split}.en-de.de.idx").is_file() for split in ("train", "valid", "test"))


def test_faulty_command_lines(tmp_path: Path) -> None:
    assert prepare(status=2) == "prepare.sh: error: --archives must be given (see --help)\n"
    assert "unknown argument '--url'" in prepare("--url", "x", status=2)
    done = prepare("--archives", tmp_path / "none", status=2, OUT=str(tmp_path / "out"))
    assert done.endswith(f"prepare.sh: error: --archives: no such folder: '{tmp_path}/none'\n")
    assert not (tmp_path / "out" / "text").exists()
