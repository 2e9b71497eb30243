"""Exports with shortlists: how the lists are made, what the check says, and what is refused."""

from __future__ import annotations

import json
import re
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from support.checkpoints import run_main
from support.slow import slow_but
from support.translation_models import write_checkpoint, write_data

from deepnmt.cli import align as align_command
from deepnmt.cli import export as export_command
from deepnmt.engines.engine import SearchSettings
from deepnmt.engines.model_folder import ModelFolder
from deepnmt.errors import UserError
from deepnmt.export import shortlists as module
from deepnmt.export.exporter import Export, export
from deepnmt.export.parity import Coverage, Result
from deepnmt.export.shortlists import by_name, shortlists
from deepnmt.text.dictionary import read_types
from deepnmt.text.record import SHORTLIST
from deepnmt.translator import Translator

SEARCH = SearchSettings(beam=3, max_len_b=12)
LINES = ["Der Hund schläft.", "Die Katze, „Mia“, frißt mehr.", "Ein Haus ☃ und ein Hund."]
HEADER = "source\ttarget\tprobability\n"
PLAIN = {"encoder_groups": "none", "decoder_groups": "none"}
LANGUAGES = ("de", "en")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_data(tmp_path_factory.mktemp("lists") / "data")
    # The rarest type of both sides together is the most frequent one of the target's.
    rare = " ".join(read_types(folder / "dict.en.txt")[-1:] * 40)
    for language, line in zip(LANGUAGES, ("M", rare)):
        text = (folder / "text" / f"valid.bpe.{language}").read_text("utf-8")
        (folder / "text" / f"train.bpe.{language}").write_text(text * 2 + line + "\n", "utf-8")
    return folder


@pytest.fixture(scope="module")
def checkpoint(data: Path) -> Path:
    return write_checkpoint(data.parent / "checkpoint.pt", data)


@pytest.fixture(scope="module")
def lexicon(data: Path) -> Path:
    run_main(align_command.main, "deepnmt align", data, data.parent / "aligned", "--subwords", "--lexicon")
    return data.parent / "aligned" / "lexicon.forward.tsv"


def frequent_of(data: Path, number: int) -> set[str]:
    counts = Counter((data / "text" / "train.bpe.en").read_text("utf-8").split())
    order = read_types(data / "dict.en.txt")
    return set(sorted(counts, key=lambda word: (-counts[word], order.index(word)))[:number])


def lines_of(lexicon: Path) -> list[list[str]]:
    return [line.split("\t") for line in lexicon.read_text("utf-8").splitlines()[1:]]


SPECIAL = {"<s>", "<pad>", "</s>", "<unk>"}


@pytest.mark.parametrize("most", [50, 2])
def test_a_list_has_frequent_types_names_and_candidates(
    most: int, data: Path, lexicon: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CANDIDATES", most)
    types = set(read_types(data / "dict.en.txt"))
    for given in (lexicon, None):
        lists = shortlists(data, LANGUAGES, 5, given)
        listed = by_name(lists, data / "dict.de.txt", data / "dict.en.txt")
        for sentence in ((data / "text" / "valid.bpe.de").read_text("utf-8").splitlines())[:3]:
            wanted = SPECIAL | frequent_of(data, 5)
            for word in sentence.split():
                best = sorted(
                    (-float(p), read_types(data / "dict.en.txt").index(y)) for x, y, p in lines_of(lexicon) if x == word
                )
                wanted |= {read_types(data / "dict.en.txt")[place] for _, place in best[:most]}
                wanted |= {word} & types
            assert listed(sentence.split()) == wanted
            assert SPECIAL < wanted < types
    assert by_name(lists, data / "dict.de.txt", data / "dict.en.txt")(["never seen"]) == SPECIAL | frequent_of(data, 5)


def test_words_that_are_no_types_are_left_out(data: Path, tmp_path: Path) -> None:
    path = tmp_path / "lexicon.tsv"
    types = [name for name in read_types(data / "dict.en.txt") if name not in SPECIAL][:4]
    path.write_text(
        HEADER + f"{types[0]}\t{types[1]}\t0.5\n{types[0]}\tunheard\t0.9\nunheard\t{types[2]}\t1\n", "utf-8"
    )
    lists = shortlists(data, LANGUAGES, 1, path)
    listed = by_name(lists, data / "dict.de.txt", data / "dict.en.txt")([types[0]])
    assert listed == SPECIAL | frequent_of(data, 1) | {types[0], types[1]}


def test_padding_has_no_candidates(data: Path, tmp_path: Path) -> None:
    """Otherwise the list of a short sentence would have more types beside a long one."""
    path = tmp_path / "lexicon.tsv"
    types = [name for name in read_types(data / "dict.en.txt") if name not in SPECIAL]
    path.write_text(HEADER + "".join(f"{name}\t{types[-1]}\t0.5\n" for name in ("<pad>", "<unk>", types[0])), "utf-8")
    lists = shortlists(data, LANGUAGES, 1, path)
    place = read_types(data / "dict.en.txt").index(types[-1])
    assert [place in row for row in lists.candidates[:4].tolist()] == [False] * 4
    assert place in lists.candidates[read_types(data / "dict.de.txt").index(types[0])]


@pytest.mark.parametrize("engine", ["torch", "onnx"])
def test_a_model_folder_translates_with_its_lists(
    engine: str, data: Path, checkpoint: Path, lexicon: Path, tmp_path: Path
) -> None:
    task = Export([checkpoint], data, engine, allow_loss=True, search=SEARCH, shortlist=3, lexicon=lexicon)
    result = export(task, tmp_path / "model")
    assert result is not None
    assert result.coverage is not None
    assert result.difference < 1e-5
    record = json.loads((tmp_path / "model" / "model.json").read_text("utf-8"))
    assert record["format"] == 4
    assert SHORTLIST in record["files"]
    assert record["check"]["shortlists"].keys() == {"types", "subwords", "sentences"}
    translator = Translator(tmp_path / "model", threads=1)
    together = translator.nbest(LINES, 3)
    plain = Translator.from_checkpoint(checkpoint, data).nbest(LINES, 3, beam=3, max_len_b=12)
    lists = ModelFolder.open(tmp_path / "model").shortlist()
    assert lists is not None
    listed = by_name(lists, data / "dict.de.txt", data / "dict.en.txt")
    changed = 0
    for line, found, before in zip(LINES, together, plain, strict=True):
        on = listed(translator.pipeline.encode(line).split())
        assert {token for each in found for token in each.tokens} <= on
        changed += not {token for each in before for token in each.tokens} <= on
        (alone,) = translator.nbest([line], 3)
        assert [each.tokens for each in alone] == [each.tokens for each in found]
        assert [each.score for each in alone] == pytest.approx([each.score for each in found], abs=1e-5)
    assert changed
    # An option of the torch engine alone, with the torch weights of the folder.
    more = translator.nbest(LINES, 3, length_penalty="gnmt")
    for line, found in zip(LINES, more, strict=True):
        assert {token for each in found for token in each.tokens} <= listed(translator.pipeline.encode(line).split())
    with pytest.raises(UserError, match=r"--datastore cannot be combined with the shortlists of the model"):
        translator.translate(LINES, datastore="x")


def test_both_engines_and_fairseqs_modules_agree(data: Path, checkpoint: Path, lexicon: Path, tmp_path: Path) -> None:
    found = []
    for engine, more in (("torch", {}), ("torch", {"beam_stop": "all", "prune_gap": 1e9}), ("onnx", {})):
        task = Export([checkpoint], data, engine, check=0, search=SEARCH, shortlist=4, lexicon=lexicon)
        export(task, tmp_path / "model")
        found.append(Translator(tmp_path / "model").nbest(LINES, 3, **more))
    for other in found[1:]:
        for one, two in zip(found[0], other, strict=True):
            assert [each.tokens for each in one] == [each.tokens for each in two]
            assert [each.score for each in one] == pytest.approx([each.score for each in two], abs=2e-5)


def test_reranking_has_the_log_probabilities_of_the_search(
    data: Path, checkpoint: Path, lexicon: Path, tmp_path: Path
) -> None:
    """And not of all types, by every engine."""
    found = []
    for engine in ("torch", "onnx"):
        export(Export([checkpoint], data, engine, check=0, search=SEARCH, shortlist=3, lexicon=lexicon), tmp_path / "m")
        found.append([each[0] for each in Translator(tmp_path / "m").nbest(LINES, 1, rerank="model=1,length=0.3")])
    assert [each.tokens for each in found[0]] == [each.tokens for each in found[1]]
    assert [each.score for each in found[0]] == pytest.approx([each.score for each in found[1]], abs=1e-4)


def test_the_command(
    data: Path, checkpoint: Path, lexicon: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = (checkpoint, data, tmp_path / "model", "--allow-loss", "--check", 4, "--beam", 2)
    run_main(export_command.main, "deepnmt export", *words, "--shortlist", 3, "--lexicon", lexicon)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("--engine auto: onnx; not ctranslate2: has no shortlist for each sentence; use")
    pattern = (
        r"check of 4 pairs: .*; shortlists have \d+ types, and cover [\d.]+% of the checkpoints' subwords, [\d.]+% of"
    )
    assert re.match(pattern, lines[1])
    run_main(export_command.main, "deepnmt export", *words, "--shortlist", 3)
    assert capsys.readouterr().out.splitlines() == lines


def test_a_given_lexicon_is_used(data: Path, checkpoint: Path, tmp_path: Path) -> None:
    """The candidates come from it alone: nothing is learnt beside it."""
    source, target = (
        [name for name in read_types(data / f"dict.{each}.txt") if name not in SPECIAL] for each in LANGUAGES
    )
    rare = next(name for name in reversed(target) if name not in frequent_of(data, 3) and name != source[0])
    (tmp_path / "lexicon.tsv").write_text(f"{HEADER}{source[0]}\t{rare}\t0.5\n", "utf-8")
    words = (checkpoint, data, tmp_path / "model", "--engine", "torch", "--check", 0, "--shortlist", 3)
    run_main(export_command.main, "deepnmt export", *words, "--lexicon", tmp_path / "lexicon.tsv")
    lists = ModelFolder.open(tmp_path / "model").shortlist()
    assert lists is not None
    listed = by_name(lists, data / "dict.de.txt", data / "dict.en.txt")
    for word in source[:5]:
        assert listed([word]) == SPECIAL | frequent_of(data, 3) | {word} | ({rare} if word == source[0] else set())


def test_coverage_and_what_may_change() -> None:
    lists = [{"a", "b"}, {"a", "b", "c", "d"}, {"a"}]
    coverage = Coverage.of(lists, [["a", "a", "c"], ["d"], []])
    assert (coverage.types, coverage.subwords, coverage.sentences) == (7 / 3, 3 / 4, 2 / 3)
    for result, faults in (
        (Result(9, 1e-5, 0.5, 40.0, 40.9, coverage), 0),
        (Result(9, 1e-5, 0.5, 39.0, 40.9, coverage), 1),
        (Result(9, 2e-4, 0.5, 40.0, 40.9, coverage), 1),
        (Result(9, 1e-5, 0.5, 40.0, 40.9), 1),
    ):
        assert len(list(result.faults(exact=True))) == faults
    assert not list(Result(9, 1e-5, 0.5, 39.0, 40.9, coverage).faults(exact=True, allow_loss=True))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r":1: must be the header of lexicon\.forward\.tsv of deepnmt align, but is ''$"),
        ("target\tsource\tprobability\n", r":1: must be the header of lexicon\.forward\.tsv .* but is 'target\t"),
        (HEADER, r": must have entries after its header$"),
        (HEADER + "a\tb\n", r":2: must be a word, its translation and a probability, with tabs between$"),
        (HEADER + "a\tb\t0.5\nc\td\te\tf\n", r":3: must be a word, its translation and a probability"),
        (HEADER + "a\tb\tmuch\n", r":2: must be a word, its translation and a probability"),
        (HEADER + "a\tb\tnan\n", r":2: must be a word, its translation and a probability"),
        (HEADER + "a\tb\t1.5\n", r":2: must be a word, its translation and a probability"),
        (HEADER + "a\tb\t0\n", r":2: must be a word, its translation and a probability"),
        (
            HEADER + "unheard\tunseen\t0.5\n",
            r": must have the subwords of DATA .*, but the dictionary lacks 1 of its 1 ",
        ),
    ],
)
def test_a_faulty_lexicon(text: str, message: str, data: Path, tmp_path: Path) -> None:
    path = tmp_path / "lexicon.tsv"
    path.write_text(text, "utf-8")
    with pytest.raises(UserError, match=f"^{re.escape(str(path))}{message}") as error:
        shortlists(data, LANGUAGES, 3, path)
    assert len(str(error.value).splitlines()) == 1


def test_what_is_refused(data: Path, checkpoint: Path, lexicon: Path, tmp_path: Path) -> None:
    adaptive = write_checkpoint(
        tmp_path / "adaptive.pt", data, adaptive_softmax_cutoff=[8, 16], share_decoder_input_output_embed=False
    )
    lists = ["--shortlist", 3, "--lexicon", lexicon]
    cases: list[tuple[Path, list[Any], str]] = [
        (checkpoint, ["--shortlist", 0], r"^--shortlist must be at least 1 and at most 2147483647, but is 0$"),
        (checkpoint, ["--lexicon", lexicon], r"^--lexicon needs --shortlist$"),
        (
            checkpoint,
            [*lists, "--engine", "ctranslate2"],
            r"^--engine ctranslate2: has no shortlist for each sentence; use",
        ),
        (
            checkpoint,
            [*lists, "--engine", "transformers"],
            r"^--engine transformers: has no shortlist for each sentence",
        ),
        (checkpoint, ["--shortlist", 3, "--lexicon", tmp_path / "no"], r"^--lexicon .*/no: no such file$"),
        (adaptive, [*lists, "--engine", "torch"], r"^--shortlist cannot be used: the output layer is not a linear map"),
        (adaptive, [*lists, "--engine", "onnx"], r"adaptive"),
    ]
    for path, more, message in cases:
        with pytest.raises(UserError, match=message) as error:
            run_main(export_command.main, "deepnmt export", path, data, tmp_path / "model", *more)
        assert len(str(error.value).splitlines()) == 1
        assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("engine", "options", "message"),
    [
        ("torch", {"adaptive_softmax_cutoff": [8, 16]}, r"^--shortlist cannot be used: the output layer is not a lin"),
        ("onnx", {"adaptive_softmax_cutoff": [8, 16]}, r"^--adaptive-softmax-cutoff"),
        ("auto", {"adaptive_softmax_cutoff": [8, 16]}, r"^--shortlist cannot be used: the output layer is not a lin"),
    ],
)
def test_a_model_is_refused_before_a_lexicon_is_learnt(
    engine: str, options: dict[str, Any], message: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("deepnmt.export.exporter.shortlists")
    path = write_checkpoint(tmp_path / "model.pt", data, share_decoder_input_output_embed=False, **options)
    with pytest.raises(UserError, match=message):
        export(Export([path], data, engine, search=SEARCH, shortlist=3), tmp_path / "model")
    # Tests of a process that imports little may have taken it out of its package.
    writer = import_module("deepnmt.engines.torch.writer")
    monkeypatch.setattr(writer, "obstacle", lambda *_: "needs another processor")
    plain = write_checkpoint(tmp_path / "plain.pt", data)
    with pytest.raises(UserError, match=r"^--weights bfloat16: needs another processor$"):
        export(Export([plain], data, "torch", "bfloat16", search=SEARCH, shortlist=3), tmp_path / "model")


def test_training_text_is_needed(data: Path, lexicon: Path, tmp_path: Path) -> None:
    path = data / "text" / "train.bpe.en"
    hidden = path.rename(tmp_path / "hidden")
    try:
        with pytest.raises(UserError, match=rf"^{path}: no such file, but --shortlist needs it$"):
            shortlists(data, LANGUAGES, 3, lexicon)
    finally:
        hidden.rename(path)


def test_the_other_direction_needs_the_other_lexicon(data: Path, lexicon: Path) -> None:
    """A checkpoint that translates in the opposite direction to its data folder."""
    languages = LANGUAGES[::-1]
    reverse = lexicon.with_name("lexicon.reverse.tsv")
    lists = shortlists(data, languages, 3, reverse, reverse=True)
    word, other, _ = lines_of(reverse)[0]
    assert other in by_name(lists, data / "dict.en.txt", data / "dict.de.txt")([word])
    with pytest.raises(UserError, match=r"tsv:1: must be the header of lexicon\.reverse\.tsv of deepnmt align, but is"):
        shortlists(data, languages, 3, lexicon, reverse=True)


@pytest.mark.parametrize("engine", slow_but(["onnx"], ["torch", "onnx"]))
def test_a_folder_whose_lists_are_faulty(
    engine: str, data: Path, checkpoint: Path, lexicon: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    export(Export([checkpoint], data, engine, check=0, search=SEARCH, shortlist=3, lexicon=lexicon), folder)
    path, record = folder / SHORTLIST, json.loads((folder / "model.json").read_text("utf-8"))
    whole = path.read_bytes()
    path.write_bytes(whole[:-9])
    with pytest.raises(UserError, match=rf"^{path}: was altered since the export; export the model again$"):
        Translator(folder)
    path.unlink()
    with pytest.raises(UserError, match=rf"^{path}: not found, although .*model\.json lists it$"):
        Translator(folder)
    # Nor where the record does not name it.
    del record["files"][SHORTLIST]
    (folder / "model.json").write_text(json.dumps(record), "utf-8")
    path.write_bytes(whole[:-9])
    with pytest.raises(UserError, match=rf"^{path}: must be a shortlist, but cannot be read; export the model again$"):
        Translator(folder)
    if engine == "onnx":
        path.unlink()
        with pytest.raises(
            UserError, match=r"step\.onnx and shortlist\.npz must be of one export; export the model again$"
        ):
            Translator(folder)
