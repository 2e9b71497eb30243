"""BPE learnt and applied: as subword-nmt does it, whatever the text, and whole or not at all."""

from __future__ import annotations

import io
import resource
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fairseq.data import Dictionary
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe
from support.numbered import cut_text, words_of, write_subwords

from deepnmt.errors import UserError
from deepnmt.preparation.cut_text import write_texts
from deepnmt.preparation.rewriting import Dropout
from deepnmt.preparation.subword_learning import learn_merges, sampled_types, write_dictionary
from deepnmt.text import in_order
from deepnmt.text.dictionary import check_dictionary
from deepnmt.text.lines import clean
from deepnmt.text.settings import TextSettings

TOKENS = st.text(st.sampled_from("abäß中@'\u0301🙂"), min_size=1, max_size=8)
TEXTS = st.lists(st.lists(TOKENS, min_size=1, max_size=6).map(" ".join).map(clean), min_size=1, max_size=12)


def write(path: Path, lines: list[str]) -> Path:
    path.write_bytes("".join(line + "\n" for line in lines).encode())
    return path


def lines_of(path: Path) -> list[str]:
    return path.read_bytes().decode().split("\n")[:-1]


def segmented(folder: Path, lines: list[str], workers: int = 1, dropout: float = 0, seed: int = 1) -> list[str]:
    text = write(folder / "in", lines)
    if dropout:
        how = Dropout(folder, TextSettings("de", "en"), ("de",), dropout, seed)
        how.write([text], [folder / "out"], workers)
    else:
        write_subwords(folder, text, folder / "out", workers)
    return lines_of(folder / "out")


def spelt_where_ambiguous(bpe: BPE, line: str) -> str:
    """Return subword-nmt's subwords, but a word's last one in characters where its end reads as the mark of a part."""
    words = []
    for word in line.split(" "):
        *parts, last = bpe.process_line(word).split(" ")
        words += [*parts, "@@ ".join(last) if last.endswith("@@") else last]
    return " ".join(words)


@settings(max_examples=60, deadline=None)
@example(german=["@@"], english=["@@"], merges=1)
@given(german=TEXTS, english=TEXTS, merges=st.integers(1, 40))
def test_any_text(tmp_path_factory: pytest.TempPathFactory, german: list[str], english: list[str], merges: int) -> None:
    folder = tmp_path_factory.mktemp("bpe")
    texts = [write(folder / "train.de", german), write(folder / "train.en", english)]
    expected = io.StringIO()
    try:
        learn_bpe(io.StringIO("".join(line + "\n" for line in german + english)), expected, merges)
    except ValueError:
        assert expected.getvalue() == "#version: 0.2\n"
    made = expected.getvalue().count("\n") - 1
    if not made:
        with pytest.raises(UserError, match=r"train\.de and .*train\.en: contain no adjacent symbols that occur twice"):
            learn_merges(folder / "codes", merges, words_of(*texts))
        assert {path.name for path in folder.iterdir()} == {"train.de", "train.en"}
        return
    assert learn_merges(folder / "codes", merges, words_of(*texts)) == made
    assert (folder / "codes").read_bytes().decode() == expected.getvalue()
    bpe = BPE(io.StringIO(expected.getvalue()))
    assert segmented(folder, german) == [spelt_where_ambiguous(bpe, line) for line in german]


def test_fewer_merges_than_asked_for_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = learn_merges(tmp_path / "codes", 10_000, words_of(write(tmp_path / "train", ["dog dog dogs"])))
    # d+o, do+g</w>, and do+g in dogs, which stands once alone.
    assert made == len(lines_of(tmp_path / "codes")) - 1 == 2
    said = capsys.readouterr().err
    assert "warning: --bpe-merges is 10000, but the text has only 2 merges to make\n" in said
    learn_merges(tmp_path / "codes", 2, words_of(tmp_path / "train"))
    assert "warning" not in capsys.readouterr().err


def test_dropout_is_the_same_for_any_number_of_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_order, "CHUNK", 7)
    text = ["the dogs sleep and the dogs eat"] * 60
    learn_merges(tmp_path / "codes", 40, words_of(write(tmp_path / "train", text)))
    whole = segmented(tmp_path, text)
    assert whole == text
    dropped = segmented(tmp_path, text, dropout=0.3)
    assert dropped == segmented(tmp_path, text, workers=3, dropout=0.3)
    assert dropped != segmented(tmp_path, text, dropout=0.3, seed=2)
    assert len(set(dropped)) > 30
    assert {line.replace("@@ ", "") for line in dropped} == set(text)
    # All merges left out: characters.
    assert segmented(tmp_path, ["the dogs"], dropout=1) == ["t@@ h@@ e d@@ o@@ g@@ s"]


@contextmanager
def small_files() -> Iterator[None]:
    """Let files that become larger than 100 bytes fail as on a full disk; Python ignores the signal that comes."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.parametrize("command", ["learn", "apply"])
def test_full_disk(tmp_path: Path, command: str) -> None:
    text = write(tmp_path / "train", ["the dogs sleep and the cats eat"] * 50)
    learn_merges(tmp_path / "codes", 15, words_of(text))
    with cut_text(tmp_path, text, tmp_path / "new") as cut:
        writers: dict[str, Callable[[], object]] = {
            "learn": lambda: learn_merges(tmp_path / "new", 60, words_of(text)),
            "apply": lambda: write_texts([cut], 1),
        }
        with small_files(), pytest.raises(UserError, match=f"^cannot write {tmp_path}/new: File too large$"):
            writers[command]()
    assert {path.name for path in tmp_path.iterdir()} == {"train", "codes"}


@settings(max_examples=40, deadline=None)
@given(text=TEXTS, dropout=st.floats(0, 1))
def test_dictionary_has_all_that_dropout_can_leave(
    tmp_path_factory: pytest.TempPathFactory, text: list[str], dropout: float
) -> None:
    # Such a word reads as a piece; preprocess.sh says that such text seems to have had BPE already.
    assume(not any(word.endswith("@@") for line in text for word in line.split()))
    folder = tmp_path_factory.mktemp("bpe")
    text = [line for line in text if line] * 2 + ["ab ab"]
    learn_merges(folder / "codes", 20, words_of(write(folder / "train", text)))
    whole = segmented(folder, text)
    types = Counter(piece for line in whole for piece in line.split())
    words = {word for line in text for word in line.split()}
    write_dictionary(folder / "dict", types, sampled_types(folder / "codes", words))
    stock = Dictionary()
    for line in whole:
        for word in line.split():
            stock.add_symbol(word)
    stock.finalize(padding_factor=1)
    entries = [line.rsplit(" ", 1) for line in lines_of(folder / "dict")]
    # The types of the text without dropout, as fairseq orders them; then the rest.
    counted = [[word, str(stock.count[stock.index(word)])] for word in stock.symbols[stock.nspecial :]]
    assert entries[: len(counted)] == counted
    assert {number for _, number in entries[len(counted) :]} <= {"0"}
    assert check_dictionary(folder / "dict") % 8 == 0
    dropped = segmented(folder, text, dropout=dropout, seed=3)
    assert {word for line in dropped for word in line.split()} <= {word for word, _ in entries}
