"""Subwords of other kinds through `deepnmt preprocess` and `binarise`, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.flow import contents, corpus, errors, in_process, preprocess, refused, write

from deepnmt.errors import UserError
from deepnmt.preparation.rewriting import tag
from deepnmt.text.dictionary import read_types
from deepnmt.text.like_folder import check_like
from deepnmt.text.pipeline import TextPipeline, tokens_of
from deepnmt.text.settings import TextSettings
from deepnmt.text.translated_folder import write_translations

LIMITED = [
    "--subwords",
    "unigram",
    "--vocabulary",
    "60",
    "--separate",
    "--byte-fallback",
    "--vocabulary-threshold",
    "2",
]


def test_unigram_with_bytes(tmp_path: Path) -> None:
    pytest.importorskip("sentencepiece")
    files = corpus(tmp_path / "raw")
    files["test"] = write(tmp_path / "raw", "test", ["Der 狗 schläft."], ["The 狗 sleeps."])
    data = tmp_path / "data"
    result = preprocess(files, data, *LIMITED)
    assert result.returncode == 0, result.stderr
    record = json.loads((data / "preprocess.json").read_text())
    expected = {"subwords": "unigram", "vocabulary": 60, "separate": True, "byte_fallback": True}
    assert record | expected | {"vocabulary_threshold": 2} == record
    assert {"codes.de", "codes.en", "vocabulary.de", "vocabulary.en"} < set(contents(data))
    assert (data / "dict.de.txt").read_bytes() == (data / "dict.en.txt").read_bytes()
    types = set(read_types(data / "dict.de.txt"))
    assert {"<0x00>", "<0xFF>@@"} <= types
    pipeline = TextPipeline.read(data)
    for split in ("train", "valid", "test"):
        for language in ("de", "en"):
            subwords = (data / "text" / f"{split}.bpe.{language}").read_text().splitlines()
            tokens = (data / "text" / f"{split}.tok.{language}").read_text().splitlines()
            assert [tokens_of(line, pipeline.settings) for line in subwords] == tokens
            assert set(" ".join(subwords).split()) <= types
    assert pipeline.encode("Der 狗 schläft.") == (data / "text" / "test.bpe.de").read_text().rstrip("\n")
    assert pipeline.decode((data / "text" / "test.bpe.en").read_text()) == "The 狗 sleeps."
    more = write(tmp_path / "raw", "more", ["Die 猫 schläft."], ["The 猫 sleeps."])
    result = in_process("binarise", "--like", data, "--train", more, "--dest", tmp_path / "more")
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "more" / "text" / "train.bpe.de").read_text().rstrip("\n") == pipeline.encode("Die 猫 schläft.")
    assert (tmp_path / "more" / "vocabulary.en").read_bytes() == (data / "vocabulary.en").read_bytes()


def test_units_stay_whole_and_tags_become_units(tmp_path: Path) -> None:
    german, english = ["Die 3 Hunde sahen A-1:2 um 12:30.", "Die 1.000 Katzen."], ["The 3 dogs saw A-1:2 at 12:30."]
    english += ["The 1,000 cats."]
    files = {split: write(tmp_path / "raw", split, german * 5, english * 5) for split in ("train", "valid")}
    files["test"] = write(tmp_path / "raw", "test", ["Um 11:45 kamen 20 Hunde."], ["20 dogs came at 11:45."])
    # Longer together than an argument of a command may be.
    note = "(?#" + "x" * 70_000 + ")"
    (tmp_path / "patterns").write_text(f"[A-Z]-\\d:\\d{note}\nunseen{note}\n")
    data, out = tmp_path / "data", tmp_path / "out"
    result = preprocess(files, data, "--protect", str(tmp_path / "patterns"), "--placeholders", "urls,numbers")
    assert result.returncode == 0, result.stderr

    def words(split: str, language: str) -> list[str]:
        lines = (data / "text" / f"{split}.bpe.{language}").read_text().splitlines()
        return [line.replace("@@ ", "") for line in lines][:2]

    assert words("train", "de") == ["Die <num> Hunde sahen A-1:2 um <num> .", "Die 1.000 Katzen ."]
    assert words("train", "en") == ["The <num> dogs saw A-1:2 at <num> .", "The 1,000 cats ."]
    assert words("test", "de") == ["Um <num> kamen <num> Hunde ."]
    assert words("test", "en") == ["20 dogs came at 11:45 ."]
    assert "A-1:2" in (data / "text" / "train.bpe.de").read_text().split()
    assert not (data / "tagged").exists()
    out.mkdir()
    write_translations(out, ["At <num> <num> dogs <num> came ."], data, "test", 0)
    assert (out / "hyp.en").read_text() == "At 11:45 20 dogs came.\n"
    pipeline = TextPipeline.read(data)
    assert pipeline.encode("Um 11:45 kamen 20 Hunde.") == (data / "text" / "test.bpe.de").read_text().rstrip("\n")
    with pytest.raises(UserError, match=r"data: must be made without --placeholders, but has numbers,urls"):
        check_like(data)


def test_addresses_with_brackets_through_the_flow(tmp_path: Path) -> None:
    german, english = ["Siehe AB–1 und https://a.org/Rust_(X) Hier."], ["See AB–1 and https://a.org/Rust_(X) here."]
    files = {split: write(tmp_path / "raw", split, german * 5, english * 5) for split in ("train", "valid", "test")}
    (tmp_path / "patterns").write_text("AB–\\d\n")
    both = ["--placeholders", "urls", "--protect", str(tmp_path / "patterns")]
    for name, options in {"urls": ["--placeholders", "urls", "--lowercase"], "protect": both[2:], "both": both}.items():
        data = tmp_path / name
        result = preprocess(files, data, *options)
        assert result.returncode == 0, result.stderr
        assert json.loads((data / "preprocess.json").read_text())["units_first"] is True
        tokens = (data / "text" / "test.tok.de").read_text().splitlines()[0]
        address = "https://a.org/Rust_ ‿ ( X )" if name == "protect" else "https://a.org/Rust_(X)"
        words = ("siehe ab–1 und", "hier") if name == "urls" else ("Siehe AB–1 und", "Hier")
        assert tokens == f"{words[0]} {address} {words[1]} ."
        assert TextPipeline.read(data).encode(german[0]) == (data / "text" / "test.bpe.de").read_text().split("\n")[0]
        assert (name == "protect") == ("<url>" not in (data / "text" / "train.bpe.de").read_text().split())
    out = tmp_path / "out"
    out.mkdir()
    write_translations(out, ["see <url> here ."] * 5, tmp_path / "urls", "test", 0)
    assert (out / "hyp.en").read_text() == "see https://a.org/Rust_(X) here.\n" * 5
    more = ("--like", tmp_path / "protect", "--train", files["train"], "--dest", tmp_path / "more")
    result = in_process("binarise", *more)
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "more" / "text" / "train.tok.de").read_text().split()[:2] == ["Siehe", "AB–1"]
    assert json.loads((tmp_path / "more" / "preprocess.json").read_text())["units_first"] is True


def test_an_address_without_its_like_is_words(tmp_path: Path) -> None:
    """Where the sides disagree, there is no tag, and no case to be kept for it."""
    texts = [tmp_path / f"train.tok.{language}" for language in ("de", "en")]
    texts[0].write_text("siehe https://a.org/X\nein www.B.org\n")
    texts[1].write_text("see that\na www.B.org\n")
    settings = TextSettings("de", "en", lowercase=True, pretokenized=True, placeholders="urls")
    tag(settings, texts, [tmp_path / "out.de", tmp_path / "out.en"], training=True, workers=1)
    assert (tmp_path / "out.de").read_text() == "siehe https://a.org/x\nein <url>\n"
    assert (tmp_path / "out.en").read_text() == "see that\na <url>\n"


def test_folders_of_earlier_versions_are_up_to_date(tmp_path: Path) -> None:
    text = ["Siehe AB–1 (3)."]
    files = {split: write(tmp_path / "raw", split, text * 5, text * 5) for split in ("train", "valid")}
    (tmp_path / "patterns").write_text("AB–\\d\n")
    data, options = tmp_path / "data", ["--protect", str(tmp_path / "patterns")]
    assert preprocess(files, data, *options).returncode == 0
    assert f"{data} is up to date" in preprocess(files, data, *options).stdout
    record = json.loads((data / "preprocess.json").read_text())
    del record["units_first"], record["reversible"]
    (data / "preprocess.json").write_text(json.dumps(record, indent=2))
    result = preprocess(files, data, *options)
    assert (result.returncode, result.stdout) == (0, f"{data} is up to date\n")
    result = in_process("binarise", "--like", data, "--train", files["train"], "--dest", tmp_path / "more")
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "more" / "text" / "train.tok.de").read_text().split()[:2] == ["Siehe", "AB-1"]
    assert "reversible" not in json.loads((tmp_path / "more" / "preprocess.json").read_text())
    assert "units_first" not in json.loads((tmp_path / "more" / "preprocess.json").read_text())


def test_numbers_with_other_separators_are_recorded(tmp_path: Path) -> None:
    text = ["Am 2020-12-31 um 3,5."]
    files = {split: write(tmp_path / "raw", split, text * 5, text * 5) for split in ("train", "valid")}
    data, options = tmp_path / "data", ["--placeholders", "numbers"]
    assert preprocess(files, data, *options).returncode == 0
    assert (data / "text" / "train.bpe.de").read_text().split("\n")[0].split().count("<num>") == 2
    record = json.loads((data / "preprocess.json").read_text())
    assert record.pop("all_numbers") is True
    assert TextPipeline.read(data).encode(text[0]).split().count("<num>") == 2
    # As c63d22f has left it.
    (data / "preprocess.json").write_text(json.dumps(record, indent=2))
    assert preprocess(files, data, *options).stdout == f"{data} is up to date\n"
    assert TextPipeline.read(data).encode(text[0]).split().count("<num>") == 1


def test_units_that_are_refused(tmp_path: Path) -> None:
    files = corpus(tmp_path / "raw")
    (tmp_path / "patterns").write_text("(\n")
    assert "patterns:1: must be a regular expression, but is '('" in refused(
        tmp_path, files, "--protect", str(tmp_path / "patterns")
    )
    files["valid"] = write(tmp_path / "raw", "valid", ["Die <num> Hunde ."], ["The 3 dogs ."])
    fault = refused(tmp_path, files, "--pretokenized", "--placeholders", "numbers")
    assert "valid.tok.de:1: must not have the tag <num>, which --placeholders uses, but does" in fault


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (["--subwords", "words"], "--subwords must be bpe, wordpiece, unigram or char, but is 'words'"),
        (["--bpe-merges", "20", "--vocabulary", "100"], "--bpe-merges cannot be combined with --vocabulary"),
        (
            ["--bpe-merges", "20", "--subwords", "unigram"],
            "--bpe-merges is for --subwords bpe, but KIND is unigram; use --vocabulary",
        ),
        (
            ["--subwords", "char", "--vocabulary", "9"],
            "--vocabulary cannot be combined with --subwords char",
        ),
        (["--min-pair-count", "9"], "--min-pair-count is for --subwords wordpiece, but KIND is bpe"),
        (["--vocabulary", "x"], "--vocabulary must be a whole number from 1 to 2147483647, but is 'x'"),
        (
            ["--vocabulary-threshold", "-1"],
            "--vocabulary-threshold must be a whole number from 0 to 2147483647, but is '-1'",
        ),
        (
            ["--subwords", "char", "--bpe-dropout", "0.1", "--copies", "2"],
            "is for --subwords bpe or",
        ),
        (["--separate", "--bpe-dropout", "0.1", "--copies", "2"], "--copies cannot be combined with --separate, --voc"),
        (["--segment", "moses"], "--segment must be jieba, but is 'moses'"),
        (["--segment", "jieba"], "--segment jieba: one of the languages must be zh, but they are de and en"),
        (["--placeholders", "names"], "--placeholders must be numbers, urls, or both with a comma, but has 'names'"),
        (["--vocabulary", "30"], "--vocabulary must be at least "),
    ],
)
def test_refusals(tmp_path: Path, options: list[str], fault: str) -> None:
    assert fault in refused(tmp_path, corpus(tmp_path / "raw"), *options)


def test_other_subwords_are_another_folder(tmp_path: Path) -> None:
    files, data = corpus(tmp_path / "raw"), tmp_path / "data"
    result = preprocess(files, data, "--subwords", "char")
    assert result.returncode == 0, result.stderr
    assert (data / "text" / "valid.bpe.en").read_text().startswith("T@@ h@@ e d@@ o@@ g s@@ l@@ e")
    assert "was made with" in errors(preprocess(files, data, "--subwords", "char", "--spell-unknown"))[0]
