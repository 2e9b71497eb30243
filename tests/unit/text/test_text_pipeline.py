"""Raw text to subwords and back: the same as preprocess.sh and generate.sh do it, on lines of any kind."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacremoses import MosesDetokenizer, MosesPunctNormalizer, MosesTokenizer
from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe

from deepnmt.corpus.cleaning.corpus_index import FileIndex
from deepnmt.errors import UserError
from deepnmt.text import TextPipeline, TextSettings
from deepnmt.text.lines import check_parallel, clean, count_lines, open_file, read_lines, read_text
from deepnmt.text.normalisation import normaliser
from deepnmt.text.pipeline import has_long_word
from deepnmt.text.record import read_record, sha256
from deepnmt.text.subwords import check_codes, join_bpe

WORDS = ["the", "dog", "dogs", "ein", "U-Bahn", "„Mia“", "z. B.", "3,5", "naïve", "中文", "@@", "a|b", "&quot;"]
ODD = ["\u2028", "\x0c", "\x00", "\x85", "\r", "\ufeff", "\u3000", "\t", "\x1e"]
LINES = st.lists(st.sampled_from(WORDS + ODD) | st.text(max_size=6), max_size=12).map(
    lambda parts: " ".join(parts).replace("\n", " ")
)


@pytest.fixture(scope="module")
def codes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bpe") / "codes"
    with path.open("w", encoding="utf-8", newline="\n") as file:
        learn_bpe(io.StringIO("the dog sleeps , the dogs sleep\nein Hund und viele Hunde\n" * 3), file, 25)
    return path


@settings(max_examples=40, deadline=None)
@given(line=LINES, lowercase=st.booleans(), pretokenized=st.booleans(), keep=st.booleans())
def test_encoding_is_every_tool_by_itself(
    codes: Path, line: str, lowercase: bool, pretokenized: bool, keep: bool
) -> None:
    text = re.sub(r"[\x00-\x1f\x7f-\x9f]", " ", line.replace("\ufeff", ""))
    text = " ".join(text.split())
    if not pretokenized:
        text = text if keep else MosesPunctNormalizer(lang="de").normalize(text)
        text = MosesTokenizer(lang="de").tokenize(text, return_str=True)
    text = text.lower() if lowercase else text
    with codes.open(encoding="utf-8") as file:
        expected = BPE(file).process_line(text + "\n").rstrip("\n")
    old = TextSettings("de", "en", lowercase, pretokenized, keep, reversible=False)
    pipeline = TextPipeline(old, codes)
    assert pipeline.encode(line) == expected
    assert not re.search(r"[\x00-\x1f\x85\u2028\u2029]|^ | $|  ", expected)
    # Each subword can be put together again, but for words that ended in the separator before.
    if "@@" not in text:
        assert join_bpe(expected) == text


def test_hyphens_stay_and_the_way_back_is_text(codes: Path) -> None:
    pipeline = TextPipeline(TextSettings("de", "en"), codes)
    assert join_bpe(pipeline.encode("Die U-Bahn, „heute“.")) == "Die U-Bahn , „ heute “ ."
    assert pipeline.decode("the do@@ gs sle@@ ep , &quot; now &quot; .") == 'the dogs sleep, "now".'
    assert pipeline.encode(" \u2028\x00 ") == pipeline.decode("") == ""
    tokens = ["a", "(", "b", ")", "'s", "3", "%"]
    assert pipeline.decode(" ".join(tokens)) == MosesDetokenizer(lang="en").detokenize(tokens)


@pytest.mark.parametrize(
    ("language", "rules", "text", "tokens"),
    [
        # An apostrophe belongs to the second word in English, and to the first in French.
        ("en-US", "en", "The dog's 3,5 bones.", ["The", "dog", "&apos;s", "3,5", "bones", "."]),
        ("EN", "en", "The dog's bones.", ["The", "dog", "&apos;s", "bones", "."]),
        ("fr-CA", "fr", "L'école d'été.", ["L&apos;", "école", "d&apos;", "été", "."]),
        ("de_AT", "de", "Das war z.B. am 3. Mai.", ["Das", "war", "z.B.", "am", "3.", "Mai", "."]),
        ("zh-CN", "zh", "我们", ["我们"]),
    ],
)
def test_a_language_with_a_region_has_the_rules_of_the_language(
    codes: Path, language: str, rules: str, text: str, tokens: list[str]
) -> None:
    new = TextPipeline(TextSettings(language, language), codes)
    assert new.tokenize(text) == " ".join(tokens)
    pipeline = TextPipeline(TextSettings(language, language, reversible=False), codes)
    assert pipeline.tokenize(text).split() == MosesTokenizer(lang=rules).tokenize(text) == tokens
    assert pipeline.decode(" ".join(tokens)) == MosesDetokenizer(lang=rules).detokenize(tokens)
    quotes = "Er sagte: „Ja“, “dit-il”."
    assert normaliser(("punctuation",), language)(quotes) == normaliser(("punctuation",), rules)(quotes)
    normal = MosesPunctNormalizer(lang=rules).normalize(quotes)
    assert pipeline.tokenize(quotes) == MosesTokenizer(lang=rules).tokenize(normal, return_str=True)


@pytest.mark.parametrize("language", ["de", "en", "es", "fr"])
@pytest.mark.parametrize("dots", ["." * 1001, "…" * 334, "." * 500 + "…" * 167, "．" * 1001])
@pytest.mark.parametrize("steps", ["width", "width,punctuation"])
def test_a_run_of_dots_that_is_no_word_is_not_normalised(
    codes: Path, language: str, dots: str, steps: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Moses' rules for quotes in German take seconds for it, and it is refused all the same."""
    text, settings = f"Ja, „{dots} nein“{dots}", TextSettings(language, "en", normalise=steps, reversible=False)
    monkeypatch.setattr(MosesPunctNormalizer, "normalize", None)
    assert has_long_word(TextPipeline(settings, codes).tokenize(text))


def test_dots_that_are_a_word_or_several_are_normalised(codes: Path) -> None:
    normal, kept = TextSettings("de", "en", reversible=False), TextSettings("de", "en", keep_punctuation=True)
    assert TextPipeline(normal, codes).tokenize(f"„{'.' * 1000}“") == f"&quot; {'.' * 1000} &quot;"
    assert TextPipeline(normal, codes).tokenize("…" * 333) == "." * 999
    assert TextPipeline(normal, codes).tokenize(". " * 2000).split() == ["."] * 2000
    assert TextPipeline(kept, codes).tokenize("Ja" + "…" * 400) == f"Ja ‿ {'…' * 400}"


def test_reading_a_folder(codes: Path, tmp_path: Path) -> None:
    (tmp_path / "codes").write_bytes(codes.read_bytes())
    record = tmp_path / "preprocess.json"
    record.write_text('{"source_lang": "de", "target_lang": "en", "lowercase": true, "pretokenized": false}')
    pipeline = TextPipeline.read(tmp_path)
    assert pipeline.settings == TextSettings("de", "en", lowercase=True, reversible=False)
    assert join_bpe(pipeline.encode("Ein Hund.")) == "ein hund ."
    record.write_text('{"source_lang": "de"}')
    with pytest.raises(UserError, match=r"preprocess\.json: must have the key 'target_lang', but does not"):
        TextPipeline.read(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "contains no merge operations"),
        (b"#version: 0.2\n", "contains no merge operations"),
        (b"t h\n", r"codes:1: must be '#version: 0\.2', but is 't h'"),
        (b"#version: 0.2\nt h\nthe\n", "codes:3: must be two symbols, but is 'the'"),
        (b"#version: 0.2\nt h e\n", "codes:2: must be two symbols, but is 't h e'"),
        (b"#version: 0.2\n\xff h\n", "codes:2: invalid UTF-8"),
    ],
)
def test_faulty_codes(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "codes").write_bytes(content)
    with pytest.raises(UserError, match=message):
        check_codes(tmp_path / "codes")


def test_number_of_codes(codes: Path) -> None:
    assert check_codes(codes) == len(codes.read_bytes().split(b"\n")) - 2


@settings(max_examples=60, deadline=None)
@given(
    content=st.lists(st.sampled_from([*(odd.encode() for odd in ODD), b"\n", b"a", "ä".encode(), b"\xff"])).map(
        b"".join
    )
)
def test_lines_are_those_of_wc(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("lines") / "text"
    path.write_bytes(content)
    # wc counts line feeds; a last line without one is a line too.
    expected = content.count(b"\n") + (not content.endswith(b"\n"))
    if not content:
        with pytest.raises(UserError, match="text is empty"):
            count_lines(path)
        return
    assert count_lines(path) == check_parallel([path, path]) == expected
    wrong = next((n for n, line in enumerate(content.split(b"\n"), 1) if b"\xff" in line), None)
    if wrong is not None:
        with pytest.raises(UserError, match=f"text:{wrong}: invalid UTF-8"):
            list(read_lines(path))
        return
    lines = list(read_lines(path))
    assert len(lines) == expected
    content = content.removeprefix(b"\xef\xbb\xbf")
    assert "".join(lines).encode() == content
    assert all(clean(line).encode().count(b"\n") == 0 for line in lines)
    if "".join(lines).strip():
        assert read_text(path) == (content[:-1] if content.endswith(b"\n") else content).decode().split("\n")


def test_sides_of_different_length(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1\r\n2\r\n")
    (tmp_path / "b").write_bytes(b"1\n2\n3")
    with pytest.raises(UserError, match=r"/a has 2 lines, but .*/b has 3: line n of both must be one pair"):
        check_parallel([tmp_path / "a", tmp_path / "b"])


def test_importing_costs_neither_fairseq_nor_torch() -> None:
    program = (
        "import sys; from deepnmt.text import TextPipeline, check_data_folder;"
        "print([name for name in ('fairseq', 'torch', 'sacremoses', 'numpy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_device_without_end_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").symlink_to("/dev/zero")
    with pytest.raises(UserError, match=rf"^{tmp_path}/text: must be a file, but is a device$"):
        open_file(tmp_path / "text")
    with open_file(Path("/dev/null")) as file:
        assert file.read() == b""


@pytest.mark.parametrize(
    "use", [count_lines, lambda path: list(read_lines(path)), sha256, read_record, lambda path: FileIndex.of(path, 1)]
)
def test_a_named_pipe_is_refused_and_one_of_the_shell_is_read(use: Callable[[Path], object], tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(UserError, match=rf"^{pipe}: must be a file, but is a named pipe$"):
        use(pipe)
    reader, writer = os.pipe()
    os.write(writer, b"{}\n")
    os.close(writer)
    use(Path(f"/dev/fd/{reader}"))
    os.close(reader)


def test_a_record_that_is_nested_without_end(tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text("[" * 100_000)
    with pytest.raises(UserError, match=r"r\.json must be a JSON object, but is nested without end$"):
        read_record(tmp_path / "r.json")
