"""Rows of examples/multi30k/text.sh on a small corpus: two from text to their table, and the text of all."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest
from grammar.corpus import sample_pairs
from support.flow import write
from support.models import ROOT
from support.stand_ins import TRAINED, copy_of_example, run

from deepnmt.text.lines import read_text

# Rows of few pairs have 5,000.
SIZES = {"train": 5200, "val": 12, "test_2016_flickr": 20}
ROWS = [
    *("original", "dirty", "cleaned", "merges-2k", "merges-4k", "dropout-2k", "dropout-4k", "dropout-10k", "unigram"),
    *("separate", "few", "few-dropout", "selected", "raw-case", "truecase", "lower-case"),
]
RECIPE = ["arch: transformer", "share-all-embeddings: true", "optimizer: adam", "lr: 0.001", "lr-scheduler: fixed"]
RECIPE += ["criterion: label_smoothed_cross_entropy", "label-smoothing: 0.1"]
RECIPE += [
    f"{stack}-{name}: {number}"
    for stack in ("encoder", "decoder")
    for name, number in {"layers": 1, "embed-dim": 16, "ffn-embed-dim": 16, "attention-heads": 2}.items()
]


def small_multi30k(folder: Path) -> None:
    """Text of the demo's grammar, as Multi30k has it: as people write it, and tokenised in lower case."""
    pairs = sample_pairs(sum(SIZES.values()), seed=1)
    for split, number in SIZES.items():
        part, pairs = pairs[:number], pairs[number:]
        sides = [[pair[side] for pair in part] for side in (0, 1)]
        write(folder, split, *sides)
        tokenised = ([" ".join(re.findall(r"\w+|[^\w\s]", line.lower())) for line in side] for side in sides)
        write(folder, f"{split}.lc.norm.tok", *tokenised)


@pytest.mark.slow
def test_rows_of_text(tmp_path: Path) -> None:
    small_multi30k(tmp_path / "corpus")
    root = copy_of_example(tmp_path / "root", TRAINED)
    example, scripts = root / "examples" / "multi30k", root / "scripts"
    (example / "fetch.py").write_bytes((ROOT / "examples" / "multi30k" / "fetch.py").read_bytes())
    files = (tmp_path / "corpus").iterdir()
    sums = (f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)
    (example / "SHA256SUMS").write_text("".join(sums))
    (root / "examples" / "download.py").symlink_to(ROOT / "examples" / "download.py")
    (root / "configs" / "clean.txt").symlink_to(ROOT / "configs" / "clean.txt")
    (tmp_path / "recipe.yaml").write_text("".join(f"{line}\n" for line in RECIPE))
    places = {"MULTI30K_DIR": str(tmp_path / "corpus"), "RECIPE": str(tmp_path / "recipe.yaml")}
    out = root / "out" / "text-rows"

    def table(*rows: str) -> list[list[str]]:
        _, printed = run(root, "text.sh", *rows, "--max-update", "2", **places)
        return [line.split() for line in printed.rpartition("\n---")[2].splitlines()[1:]]

    # The text of all rows is made by the scripts; trainings differ by it and their options alone, and are stood in for.
    for path in (ROOT / "scripts").iterdir():
        if path.is_file() and not (scripts / path.name).exists():
            (scripts / path.name).symlink_to(path)
    lines = table(*ROWS)
    assert [line[0] for line in lines] == sorted(ROWS)
    for name, seed, *scores, cased in lines:
        assert seed == "1"
        assert all(0 <= float(score) <= 100 for score in scores)
        assert (cased == "-") == (name not in ("raw-case", "truecase"))

    def record(row: str) -> dict[str, object]:
        found: dict[str, object] = json.loads((out / "data" / row / "preprocess.json").read_text())
        return found

    def pairs(row: str) -> int:
        return len(read_text(out / "data" / row / "text" / "train.tok.en"))

    assert (pairs("original"), pairs("dirty"), pairs("few"), pairs("selected")) == (5200, 5200, 5000, 5000)
    assert 5200 * 0.6 < pairs("cleaned") < 5200 * 0.85
    merges = {row: record(row)["bpe_merges"] for row in ("original", "merges-2k", "merges-4k", "separate")}
    assert merges == {"original": 10000, "merges-2k": 2000, "merges-4k": 4000, "separate": 5000}
    assert record("unigram")["subwords"] == "unigram"
    assert {row: (record(row)["lowercase"], record(row).get("truecase")) for row in ROWS[-3:]} == {
        "raw-case": (False, None), "truecase": (False, True), "lower-case": (True, None),
    }  # fmt: skip
    assert sorted(path.name for path in (out / "data").iterdir()) == sorted(row for row in ROWS if "dropout" not in row)

    # From that text on, without any stand-in.
    for name in TRAINED:
        (scripts / name).unlink()
        (scripts / name).symlink_to(ROOT / "scripts" / name)
    places["SEED"] = "2"
    lines = [line for line in table("few-dropout", "truecase") if line[1] == "2"]
    assert [(line[0], line[-1] == "-") for line in lines] == [("few-dropout", True), ("truecase", False)]
    assert all(0 <= float(score) < 100 for line in lines for score in line[2:-1])
    for row in ("few-dropout", "truecase"):
        checkpoint = Path((out / "results" / "seed-2" / row / "chosen").read_text().rstrip("\n"))
        assert checkpoint.parent == out / "checkpoints" / "seed-2" / row
        log = (checkpoint.parent / "train.log").read_text("utf-8")
        assert ("'bpe_dropout': 0.1" in log) == (row == "few-dropout")
