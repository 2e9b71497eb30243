"""Options of `deepnmt preprocess` together: what is cut and numbered is what the pipeline of the folder says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from support.flow import corpus, preprocess, write

from deepnmt.text.dictionary import read_types
from deepnmt.text.inline_targets import MARKS
from deepnmt.text.pipeline import TextPipeline, tokens_of

GLOSSARY = ["--glossary-training", "1"]
UNIGRAM = ["--subwords", "unigram", "--vocabulary", "60"]
WORDPIECE = ["--subwords", "wordpiece", "--vocabulary", "60", "--min-pair-count", "2"]


@pytest.mark.parametrize(
    "options",
    [
        [*GLOSSARY, *UNIGRAM, "--byte-fallback", "--truecase"],
        [*GLOSSARY, *WORDPIECE, "--spell-unknown", "--separate-dictionaries", "--lowercase"],
        [*GLOSSARY, "--placeholders", "numbers", "--keep-punctuation"],
        [*WORDPIECE, "--bpe-dropout", "0.5", "--copies", "2", "--normalise", "punctuation"],
        [*UNIGRAM, "--unigram-sampling", "0.1", "--copies", "2"],
    ],
    ids=["unigram-bytes-truecase", "wordpiece-spelt-lower", "placeholders", "wordpiece-copies", "unigram-copies"],
)
def test_text_numbers_and_pipeline_agree(tmp_path: Path, options: list[str]) -> None:
    if "unigram" in options:
        pytest.importorskip("sentencepiece")
    data = tmp_path / "data"
    result = preprocess(corpus(tmp_path / "raw"), data, *options)
    assert result.returncode == 0, result.stderr
    record = json.loads((data / "preprocess.json").read_text())
    assert record.get("min_pair_count") == (2 if "wordpiece" in options else None)
    counts, pipeline = record["counts"], TextPipeline.read(data)
    parts = [f"train1.{pair}" for pair in ("de-en", "en-de")] if options[:2] == GLOSSARY else []
    for subset in ("train", "valid", "test", *parts):
        for language in ("de", "en"):
            lines = (data / "text" / f"{subset}.bpe.{language}").read_text("utf-8").splitlines()
            assert len(lines) == counts[subset]["kept"] > 0
            types = read_types(data / f"dict.{language}.txt")
            assert set(" ".join(lines).split()) <= set(types)
            if subset in parts:
                marked = subset.startswith(f"train1.{language}")
                assert any(MARKS[0] in line for line in lines) == marked
                numbered = data / f"{subset}.{language}.bin"
            else:
                numbered = data / f"{subset}.de-en.{language}.bin"
            if subset != "train" or "--copies" not in options:
                numbers = memoryview(numbered.read_bytes()).cast("H")
                assert (
                    " ".join(types[number] for number in numbers) == "".join(f"{line} </s> " for line in lines).strip()
                )
            if subset in ("valid", "test") and "--placeholders" not in options:
                tokens = (data / "text" / f"{subset}.tok.{language}").read_text("utf-8").splitlines()
                assert [tokens_of(line, pipeline.settings) for line in lines] == tokens
    if "--unigram-sampling" in options:
        types, plain = read_types(data / "dict.de.txt"), (data / "text" / "train.bpe.de").read_text("utf-8")
        copies = []
        for folder in (data, data / "copy1"):
            numbers = memoryview((folder / "train.de-en.de.bin").read_bytes()).cast("H")
            copies.append("".join(f"{types[number]} " for number in numbers).replace(" </s> ", "\n"))
        assert len({*copies, plain}) == 3
        assert {each.replace("@@ ", "") for each in copies} == {plain.replace("@@ ", "")}
    raw = (data / "text" / "valid.raw.de").read_text("utf-8").splitlines()
    assert [pipeline.encode(line) for line in raw] == (data / "text" / "valid.bpe.de").read_text("utf-8").splitlines()


def test_tokenised_text_and_its_raw_text(tmp_path: Path) -> None:
    files = corpus(tmp_path / "raw")
    made = preprocess(files, tmp_path / "first")
    assert made.returncode == 0, made.stderr
    text = tmp_path / "first" / "text"
    tokens = {split: text / f"{split}.tok" for split in files}
    raw = ["--raw-valid", text / "valid.raw", "--raw-test", text / "test.raw"]
    made = preprocess(tokens, tmp_path / "second", "--pretokenized", *raw)
    assert made.returncode == 0, made.stderr
    for name in ("test.raw.de", "valid.raw.en", "train.bpe.de", "test.bpe.en"):
        assert (tmp_path / "second" / "text" / name).read_bytes() == (text / name).read_bytes()
    inputs = json.loads((tmp_path / "second" / "preprocess.json").read_text())["inputs"]
    assert list(inputs) == [
        "train.de", "train.en", "valid.de", "valid.raw.de", "valid.en", "valid.raw.en",
        "test.de", "test.raw.de", "test.en", "test.raw.en",
    ]  # fmt: skip


def test_validation_pairs_out_of_the_training_pairs(tmp_path: Path) -> None:
    lines = [f"line {number} ." for number in range(1, 12)]
    prefix = write(tmp_path / "raw", "train", lines, lines)
    made = preprocess({"train": prefix}, tmp_path / "data", "--valid-every", "4")
    assert made.returncode == 0, made.stderr
    assert "2 pairs held out for validation" in made.stdout
    text = tmp_path / "data" / "text"
    for kind in ("tok", "raw"):
        held = [re.findall(r"\d+", line) for line in (text / f"valid.{kind}.en").read_text().splitlines()]
        assert held == [["4"], ["8"]]
    counts = json.loads((tmp_path / "data" / "preprocess.json").read_text())["counts"]
    assert (counts["train"]["kept"], counts["train"]["held_out"], counts["valid"]) == (9, 2, {"read": 2, "kept": 2})


def test_chinese_words(tmp_path: Path) -> None:
    pytest.importorskip("jieba")
    for split, number in (("train", 20), ("valid", 1)):
        (tmp_path / f"{split}.zh").write_text("我們今天去北京大學看書。\n" * number, "utf-8")
        (tmp_path / f"{split}.de").write_text("Wir gehen heute zur Universität.\n" * number, "utf-8")
    files = {split: tmp_path / split for split in ("train", "valid")}
    options = ["--source-lang", "zh", "--target-lang", "de", "--segment", "jieba", "--normalise", "simplified"]
    made = preprocess(files, tmp_path / "data", *options)
    assert made.returncode == 0, made.stderr
    words = (tmp_path / "data" / "text" / "valid.tok.zh").read_text("utf-8").split()
    assert "北京大学" in words
    assert (tmp_path / "data" / "text" / "valid.raw.zh").read_text("utf-8") == "我們今天去北京大學看書。\n"
