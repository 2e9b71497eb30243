"""A glossary through the scripts: training pairs, sources with translations beside their terms, and what is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from support.flow import corpus, in_process, preprocess, refused

from deepnmt.cli import generate
from deepnmt.errors import UserError
from deepnmt.fairseq_patches import install
from deepnmt.generation import subset_search
from deepnmt.generation.inline_sources import InlineSources
from deepnmt.text.dictionary import read_types
from deepnmt.text.inline_targets import MARKS, STATE
from deepnmt.text.like_folder import check_like, settings_record
from deepnmt.text.pipeline import TextPipeline
from deepnmt.text.translated_folder import lines_of

TERMS = "Hund\tcat\nschläft\tsleeps\nfehlt\tdog\n"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder whose subwords are each language's own, by a dictionary for each."""
    root = tmp_path_factory.mktemp("glossary")
    result = preprocess(
        corpus(root / "raw"), root / "data", "--glossary-training", "1", "--separate", "--separate-dictionaries"
    )
    assert result.returncode == 0, result.stderr
    return root / "data"


def shown(line: str) -> str:
    for mark, sign in zip(MARKS, ("[", "=", "]")):
        line = line.replace(mark, sign)
    return line.replace("@@ ", "")


def test_training_pairs_of_both_directions(data: Path) -> None:
    record = json.loads((data / "preprocess.json").read_text())
    assert (record["glossary"], record["glossary_training"]) == (True, 1)
    for source, target in (("de", "en"), ("en", "de")):
        pair = f"train1.{source}-{target}"
        sides = [lines_of(data / "text" / f"{pair}.bpe.{language}") for language in (source, target)]
        assert len(sides[0]) == len(sides[1]) == record["counts"][pair]["kept"] > 10
        assert all(MARKS[1] in line for line in sides[0])
        assert not any(mark in line for mark in MARKS for line in sides[1])
        # Pieces of the other language, too: nothing is unknown.
        types = set(read_types(data / f"dict.{source}.txt"))
        assert set(MARKS) <= types
        assert set(" ".join(sides[0]).split()) <= types
        assert (data / f"{pair}.{source}.bin").stat().st_size == 2 * sum(len(line.split()) + 1 for line in sides[0])
    assert "[" in shown(lines_of(data / "text" / "train1.de-en.bpe.de")[0])
    assert not any(mark in (data / "text" / f"train.bpe.{x}").read_text() for mark in MARKS for x in ("de", "en"))


@pytest.mark.parametrize("languages", [("de", "en"), ("en", "de")])
def test_fairseq_trains_on_the_pairs_of_its_direction(data: Path, languages: tuple[str, str]) -> None:
    from fairseq.tasks.translation import TranslationConfig, TranslationTask

    install()
    source, target = languages
    config = TranslationConfig(data=str(data), source_lang=source, target_lang=target, dataset_impl="mmap")
    task = TranslationTask.setup_task(config)
    task.load_dataset("valid")
    assert STATE not in task.state_dict()
    task.load_dataset("train", combine=True)
    assert task.state_dict()[STATE] is True
    dataset = task.dataset("train")
    plain = len(lines_of(data / "text" / "train.bpe.de"))
    expected = lines_of(data / "text" / f"train1.{source}-{target}.bpe.{source}")
    assert len(dataset) == plain + len(expected)
    assert task.source_dictionary.string(dataset[plain]["source"]) == expected[0]
    mark = task.target_dictionary.index(MARKS[0])
    assert not any(mark in dataset[number]["target"] for number in range(len(dataset)))


def searched(found: Sequence[str], again: Sequence[str], seen: Path) -> Callable[[Path, Path, int], dict[int, str]]:
    """A search that finds these translations, with two in each n-best list, and copies the folder that it reads."""
    results = iter((found, again))

    def search(data: Path, place: Path, total: int) -> dict[int, str]:
        shutil.copytree(data, seen / str(len(list(seen.iterdir()))))
        lines = dict(enumerate(next(results)))
        assert len(lines) == total
        ranks = ((number, rank, line) for number, line in lines.items() for rank in (1, 2))
        text = "".join(f"{number}\t{rank}\t{line}\tmodel=-{rank}\n" for number, rank, line in ranks)
        (place / "nbest.tsv").write_text(text)
        return lines

    return search


def test_what_lacks_a_term_is_translated_again(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "terms").write_text(TERMS)
    (tmp_path / "seen").mkdir()
    output = tmp_path / "out"
    output.mkdir()
    inline = InlineSources(tmp_path / "terms", data, "test", reverse=False)
    assert capsys.readouterr().err.splitlines() == [
        "2 terms in 1 of 2 sentences",
        f"warning: {tmp_path}/terms: 1 terms are in no source, or in longer ones alone: 'fehlt'",
    ]
    search = searched(["The dog sleeps .", "A dog ."], ["The cat sleeps ."], tmp_path / "seen")
    found = inline.followed(search(data, output, 2), output, search)
    assert found == {0: "The cat sleeps .", 1: "A dog ."}
    # The list of the translation that is taken.
    assert lines_of(output / "nbest.tsv") == [
        "0\t1\tThe cat sleeps .\tmodel=-1", "0\t2\tThe cat sleeps .\tmodel=-2",
        "1\t1\tA dog .\tmodel=-1", "1\t2\tA dog .\tmodel=-2",
    ]  # fmt: skip
    assert {path.name for path in output.iterdir()} == {"nbest.tsv"}

    read = tmp_path / "seen" / "1"
    expected = "Der [ Hund = cat ] [ schläft = sleeps ] ."
    # The second sentence has no term, and is not there; the target is that of the first.
    for language, text in (("de", expected), ("en", "The dog sleeps .")):
        types = read_types(data / f"dict.{language}.txt")
        numbers = (read / f"test.de-en.{language}.bin").read_bytes()
        words = [types[int.from_bytes(numbers[place : place + 2], "little")] for place in range(0, len(numbers), 2)]
        assert shown(" ".join(words)) == f"{text} </s>"
        assert (read / f"dict.{language}.txt").read_bytes() == (data / f"dict.{language}.txt").read_bytes()

    (output / "hyp.tok.en").write_text("The cat slept .\nThe cat .\n")
    (output / "generate.json").write_text("{}")
    inline.note(output)
    assert json.loads((output / "generate.json").read_text()) == {"glossary": {"wanted": 2, "found": 1, "twice": 1}}
    assert [shown(line) for line in lines_of(output / "inline.de")] == [
        expected, shown(lines_of(data / "text" / "test.bpe.de")[1])
    ]  # fmt: skip


def test_a_second_translation_without_more_terms_is_not_taken(data: Path, tmp_path: Path) -> None:
    (tmp_path / "terms").write_text(TERMS)
    (tmp_path / "seen").mkdir()
    output = tmp_path / "out"
    output.mkdir()
    inline = InlineSources(tmp_path / "terms", data, "test", reverse=False)
    search = searched(["The dog sleeps .", "A dog ."], ["A cat slept ."], tmp_path / "seen")
    assert inline.followed(search(data, output, 2), output, search) == {0: "The dog sleeps .", 1: "A dog ."}
    assert "The dog sleeps" in (output / "nbest.tsv").read_text()
    # Where all terms are there, nothing is searched again.
    search = searched(["The cat sleeps .", "A dog ."], [], tmp_path / "seen")
    assert inline.followed(search(data, output, 2), output, search)[0] == "The cat sleeps ."
    assert inline.second.twice == []


def test_generate_searches_twice(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "terms").write_text(TERMS)
    calls: list[Sequence[str]] = []

    def search(words: Sequence[str], log: Path, total: int) -> dict[int, str]:
        calls.append(words)
        with log.open("a") as file:
            file.write(f"{total} sentences\n")
        return {0: "The dog sleeps .", 1: "A dog ."} if len(calls) == 1 else {0: "The cat sleeps ."}

    monkeypatch.setattr(subset_search, "search", search)
    sizes = (len(read_types(data / f"dict.{language}.txt")) for language in ("de", "en"))
    shapes = zip(("encoder", "decoder"), sizes)
    state = {
        "model": {f"{stack}.embed_tokens.weight": torch.ones(size, 2) for stack, size in shapes},
        "cfg": {"task": {"source_lang": "de", "target_lang": "en"}, "model": {"_name": "transformer"}},
        "extra_state": {},
        "optimizer_history": [{}],
    }
    words = [str(tmp_path / "a.pt"), str(data), str(tmp_path / "out"), "--glossary", str(tmp_path / "terms")]
    torch.save(state, tmp_path / "a.pt")
    with pytest.raises(UserError, match=r"a\.pt: --glossary needs a model trained with inline targets"):
        generate.main(words)
    assert not calls
    torch.save({**state, "task_state": {STATE: True}}, tmp_path / "a.pt")
    generate.main([*words, "--beam", "3"])
    assert calls[0][0] == str(data)
    assert calls[1][0].endswith("/read")
    assert calls[0][1:] == calls[1][1:]
    assert calls[0][-2:] == ["--beam", "3"]
    output = tmp_path / "out"
    assert lines_of(output / "hyp.tok.en") == ["The cat sleeps .", "A dog ."]
    assert (output / "generate.log").read_text() == "2 sentences\n1 sentences\n"
    record = json.loads((output / "generate.json").read_text())
    assert record["glossary"] == {"wanted": 2, "found": 2, "twice": 1}
    assert not (output / "read").exists()


def test_the_other_direction(data: Path, tmp_path: Path) -> None:
    (tmp_path / "terms").write_text("dog\tHund\n")
    (tmp_path / "seen").mkdir()
    inline = InlineSources(tmp_path / "terms", data, "test", reverse=True)
    assert shown(inline.second.read(0)) == "The [ dog = Hund ] sleeps ."
    (tmp_path / "nbest.tsv").write_text("0\t1\tDie Katze .\tmodel=-1\n")
    again = searched(["Der Hund ."], [], tmp_path / "seen")
    assert inline.followed({0: "Die Katze .", 1: "x"}, tmp_path, again)[0] == "Der Hund ."
    assert (tmp_path / "seen" / "0" / "test.de-en.en.idx").is_file()


@pytest.mark.parametrize(
    ("terms", "fault"),
    [
        ("Hund\tdog\nHund\tcat\n", "{0}:2: 'Hund' must have one translation, but has 'dog' and 'cat'"),
        ("Hund dog\n", "{0}:1: must be a term and its translation, with a tab between them, but is 'Hund dog'"),
        ("Hund\t\n", "{0}:1: must be a term and its translation, with a tab between them, but is 'Hund'"),
        ("\n", "{0}: contains no terms"),
        ("Hund\t狗\n", "{0}: '狗' must be of types of the dictionary, but has '狗'"),
    ],
)
def test_faulty_glossaries(data: Path, tmp_path: Path, terms: str, fault: str) -> None:
    path = tmp_path / "terms"
    path.write_text(terms, encoding="utf-8")
    with pytest.raises(UserError, match="^" + fault.format(path).replace("(", r"\(") + "$"):
        InlineSources(path, data, "test", reverse=False)
    with pytest.raises(UserError, match=f"^--glossary must be a file of terms, but there is no '{path}x'$"):
        InlineSources(Path(f"{path}x"), data, "test", reverse=False)


def test_data_without_inline_targets_are_refused(data: Path, tmp_path: Path) -> None:
    other = tmp_path / "data"
    shutil.copytree(data, other)
    record = json.loads((other / "preprocess.json").read_text())
    del record["glossary"]
    (other / "preprocess.json").write_text(json.dumps(record))
    (tmp_path / "terms").write_text(TERMS)
    with pytest.raises(UserError, match=r"^--glossary needs a model trained with inline targets \(deepnmt preprocess"):
        InlineSources(tmp_path / "terms", other, "test", reverse=False)


def test_placeholders_come_from_the_source_alone(data: Path) -> None:
    pipeline = TextPipeline.of(TextPipeline.read(data).settings, data / "codes.de")
    object.__setattr__(pipeline.settings, "placeholders", "numbers")
    types = set(read_types(data / "dict.de.txt"))
    for terms in ({"Hund 3": "dog"}, {"Hund": "dog 3"}):
        with pytest.raises(
            UserError, match=r"^glossary: '.* 3' has numbers of --placeholders, which come from the source$"
        ):
            pipeline.glossary(terms, types)


def test_mixed_data_keep_the_pairs(data: Path, tmp_path: Path) -> None:
    check_like(data)
    assert settings_record(data)["glossary"] is True
    assert "glossary_training" not in settings_record(data)
    folder = tmp_path / "mixed"
    assert in_process("mix", folder, data, data, "--upsample", 2).returncode == 0
    record = json.loads((folder / "preprocess.json").read_text())
    assert record["glossary_training"] == 1
    for name in ("train1.de-en.de.bin", "train1.en-de.de.idx", "text/train1.de-en.bpe.de"):
        assert (folder / name).read_bytes() == (data / name).read_bytes()


@pytest.mark.parametrize("share", ["0", "1.5", "x"])
def test_a_share_that_is_none(tmp_path: Path, share: str) -> None:
    fault = refused(tmp_path, corpus(tmp_path / "raw"), "--glossary-training", share)
    assert "--glossary-training must be" in fault
    assert share in fault


def test_copies_are_refused(tmp_path: Path) -> None:
    more = ("--glossary-training", "0.5", "--bpe-dropout", "0.1", "--copies", "2")
    fault = "--glossary-training cannot be combined with --copies; train with --bpe-dropout instead"
    assert refused(tmp_path, corpus(tmp_path / "raw"), *more).endswith(fault)
