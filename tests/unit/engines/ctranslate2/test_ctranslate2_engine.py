"""CTranslate2's search, as the engine calls it, beside fairseq's own generator on a model that has learned a little."""

from __future__ import annotations

import random
import shutil
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import ctranslate2
import pytest
import torch
import torch.nn.functional as F
from fairseq.data.data_utils import collate_tokens
from fairseq.sequence_generator import SequenceGenerator
from support.models import PLAIN, SIZE, dictionary, task

from deepnmt.engines.ctranslate2 import engine as ctranslate2_engine
from deepnmt.engines.ctranslate2.engine import CTranslate2Engine, load
from deepnmt.engines.ctranslate2.writer import save, specification
from deepnmt.engines.engine import SearchSettings
from deepnmt.engines.model_folder import ModelFolder
from deepnmt.errors import UserError
from deepnmt.model.config import DLCLTransformerConfig
from deepnmt.model.transformer import DLCLTransformerModel
from deepnmt.text.settings import TextSettings

WORDS, EOS, PAD = 40, 2, 1
TYPES = dictionary(WORDS)
Found = list[list[tuple[list[str], float]]]


class Learned(NamedTuple):
    model: Any
    folder: Path
    engine: CTranslate2Engine
    sentences: list[list[str]]


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Learned:
    """A model that has begun to learn to say a sentence backwards, and new sentences."""
    torch.manual_seed(1)
    options = {**SIZE, **PLAIN, "encoder_norm": "post", "decoder_norm": "pre", "dropout": 0.0}
    model: Any = DLCLTransformerModel.build_model(DLCLTransformerConfig(**options), task(TYPES))
    optimizer = torch.optim.Adam(model.parameters(), 5e-3)
    end = torch.full((32, 1), EOS)
    for update in range(60):
        source = torch.randint(4, 4 + WORDS, (32, 2 + update % 6))
        target = source.flip(1)
        lengths = torch.full((32,), source.size(1) + 1)
        logits = model(torch.cat([source, end], 1), lengths, torch.cat([end, target], 1))[0]
        expected = torch.cat([target, end], 1).flatten()
        loss = F.cross_entropy(logits.flatten(0, 1), expected, label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    folder = tmp_path_factory.mktemp("learned") / "ctranslate2"
    save(specification(model.eval(), TYPES, TYPES), folder)
    draw = random.Random(1)
    sentences = [[f"w{draw.randrange(WORDS)}" for _ in range(draw.randint(1, 12))] for _ in range(40)]
    return Learned(model, folder, CTranslate2Engine(folder, threads=1), sentences)


def by_fairseq(learned: Learned, settings: SearchSettings) -> Found:
    generator = SequenceGenerator(
        [learned.model],
        TYPES,
        beam_size=settings.beam,
        max_len_a=settings.max_len_a,
        max_len_b=settings.max_len_b,
        len_penalty=settings.lenpen,
    )
    numbers = [torch.tensor([*map(TYPES.index, sentence), EOS]) for sentence in learned.sentences]
    tokens = collate_tokens(numbers, PAD, left_pad=True)
    lengths = torch.tensor([len(each) for each in numbers])
    results = generator.forward({"net_input": {"src_tokens": tokens, "src_lengths": lengths}})
    return [[(printed(best["tokens"].tolist()), float(best["score"])) for best in each] for each in results]


def printed(numbers: list[int]) -> list[str]:
    """As fairseq-generate prints them."""
    return [TYPES[number] for number in numbers if number not in (TYPES.bos(), EOS)]


def search(engine: CTranslate2Engine, learned: Learned, settings: SearchSettings) -> Found:
    return [[(each.tokens, each.score) for each in found] for found in engine.search(learned.sentences, settings)]


@pytest.mark.parametrize(
    "settings",
    [
        SearchSettings(max_len_b=30),
        SearchSettings(max_len_b=30, nbest=5),
        SearchSettings(max_len_b=30, lenpen=0.0, nbest=3),
        SearchSettings(max_len_a=0.5, max_len_b=3, lenpen=0.6),
        SearchSettings(max_len_b=12, beam=2),
        SearchSettings(max_len_b=12, beam=1),
    ],
)
def test_the_search_is_that_of_fairseq(learned: Learned, settings: SearchSettings) -> None:
    found, expected = search(learned.engine, learned, settings), by_fairseq(learned, settings)
    for sentence, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        assert [tokens for tokens, _ in ours] == [tokens for tokens, _ in theirs[: settings.nbest]], sentence
        assert [score for _, score in ours] == pytest.approx([score for _, score in theirs[: settings.nbest]], abs=1e-5)


def test_some_sentences_are_searched_twice(learned: Learned, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above would not see what CTranslate2 does otherwise if no hypothesis were empty or endless."""
    settings = SearchSettings(max_len_b=30)
    first = learned.engine._found(learned.sentences, settings, 30, 1)
    assert any(found.tokens == ["</s>"] for each in first for found in each)
    monkeypatch.setattr(CTranslate2Engine, "_is_usable", lambda self, found: True)
    endless = by_fairseq(learned, SearchSettings(max_len_b=3))
    assert search(learned.engine, learned, settings) != by_fairseq(learned, settings)
    assert any(len(tokens) == 3 for (tokens, _), *_ in endless)


def test_a_sentence_is_translated_alike_alone_and_in_a_batch(learned: Learned) -> None:
    settings = SearchSettings(max_len_b=30)
    together = learned.engine.search(learned.sentences, settings)
    alone = [learned.engine.search([sentence], settings)[0] for sentence in learned.sentences[:10]]
    assert [found[0].tokens for found in alone] == [found[0].tokens for found in together[:10]]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The options of each translator that is made, and of each batch that is translated."""
    made, found = ctranslate2.Translator, list[dict[str, Any]]()

    def noted(call: Any) -> Any:
        def with_note(*given: Any, **options: Any) -> Any:
            found.append(options)
            return call(*given, **options)

        return with_note

    def translator(*given: Any, **options: Any) -> Any:
        own = noted(made)(*given, **options)
        return SimpleNamespace(translate_batch=noted(own.translate_batch), score_batch=own.score_batch)

    monkeypatch.setattr(ctranslate2, "Translator", translator)
    return found


@pytest.mark.parametrize("beam", [1, 5])
def test_threads_search_shares_of_a_batch(learned: Learned, beam: int, calls: list[dict[str, Any]]) -> None:
    settings = SearchSettings(max_len_b=30, beam=beam)
    engine = CTranslate2Engine(learned.folder, threads=3)
    expected = search(learned.engine, learned, settings)
    for found, alone in zip(search(engine, learned, settings), expected, strict=True):
        assert [tokens for tokens, _ in found] == [tokens for tokens, _ in alone]
        assert [score for _, score in found] == pytest.approx([score for _, score in alone], abs=1e-5)
    engine.search(learned.sentences[:5], settings)
    made, first, *_ = calls
    assert (made["inter_threads"], made["intra_threads"], first["max_batch_size"]) == (3, 1, 14)
    # At least four sentences each.
    assert calls[-1]["max_batch_size"] == 4


@pytest.mark.parametrize(
    ("weights", "width", "searching"),
    [("float32", 128, 3), ("float32", 256, 1), ("float32", None, 1), ("int8", 256, 3)],
)
def test_threads_share_a_product_of_wide_models_in_float32(
    weights: str,
    width: int | None,
    searching: int,
    learned: Learned,
    calls: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ctranslate2_engine, "sums_int8_exactly", lambda: True)
    monkeypatch.setattr(ctranslate2_engine, "cores", lambda: 3)
    models = [] if width is None else [{"decoder_embed_dim": width}]
    text, files = TextSettings("de", "en"), learned.folder.parent
    for language in ("de", "en"):
        TYPES.save(str(files / f"dict.{language}.txt"))
    folder = ModelFolder(files, text, "ctranslate2", weights, architecture={"models": models})
    assert load(folder, None).search([["w1"]] * 12, SearchSettings())
    made, batch, *_ = calls
    assert (made["inter_threads"], made["intra_threads"]) == (searching, 3 // searching)
    assert batch["max_batch_size"] == 12 // searching


def test_scores_are_those_of_given_targets(learned: Learned) -> None:
    settings = SearchSettings(max_len_b=30)
    best = [found[0] for found in learned.engine.search(learned.sentences, settings)]
    scores = learned.engine.score(learned.sentences, [each.tokens for each in best])
    assert [len(row) for row in scores] == [len(each.tokens) + 1 for each in best]
    assert [sum(row) / len(row) for row in scores] == pytest.approx([each.score for each in best], abs=1e-5)


def test_two_threads_share_an_engine(learned: Learned) -> None:
    settings, results = SearchSettings(max_len_b=30), {}
    threads = [
        threading.Thread(
            target=lambda number=number: results.update({number: search(learned.engine, learned, settings)})
        )
        for number in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results[0] == results[1] == search(learned.engine, learned, settings)


def test_nothing_gives_nothing(learned: Learned) -> None:
    assert learned.engine.search([], SearchSettings()) == learned.engine.score([], []) == []


def test_options_of_the_torch_engine_are_refused(learned: Learned) -> None:
    settings = SearchSettings(more={"length_penalty": "gnmt"})
    match = r"^--length-penalty cannot be combined with --engine ctranslate2; use --engine torch$"
    with pytest.raises(UserError, match=match):
        learned.engine.search(learned.sentences, settings)


def test_positions_bound_both_sides(tmp_path: Path) -> None:
    torch.manual_seed(1)
    options = {**SIZE, **PLAIN, "max_source_positions": 7, "max_target_positions": 5}
    model = DLCLTransformerModel.build_model(DLCLTransformerConfig(**options), task(TYPES))
    save(specification(model.eval(), TYPES, TYPES), tmp_path / "model")
    engine = CTranslate2Engine(tmp_path / "model", threads=1)
    assert engine.longest == 6
    longest = engine.search([["w1"] * 6], SearchSettings())[0][0]
    assert len(longest.tokens) <= 4


def test_a_folder_is_loaded_with_its_weights(learned: Learned, monkeypatch: pytest.MonkeyPatch) -> None:
    text = TextSettings("de", "en")
    folder = ModelFolder(learned.folder.parent, text, "ctranslate2", "float32")
    for language in ("de", "en"):
        TYPES.save(str(folder.dictionary(language)))
    assert load(folder, 1).search([["w1"]], SearchSettings())[0][0].score < 0
    monkeypatch.setattr(ctranslate2, "get_supported_compute_types", lambda device: {"float32"})
    with pytest.raises(UserError, match=r"^--weights int8: ctranslate2 cannot compute with them on this processor"):
        load(ModelFolder(learned.folder.parent, text, "ctranslate2", "int8"), 1)


@pytest.mark.parametrize("language", ["de", "en"])
@pytest.mark.parametrize("change", ["more", "fewer", "order"])
def test_a_dictionary_of_other_types_than_the_model(
    change: str, language: str, learned: Learned, tmp_path: Path
) -> None:
    files = shutil.copytree(learned.folder, tmp_path / "ctranslate2")
    for name in ("de", "en"):
        TYPES.save(str(tmp_path / f"dict.{name}.txt"))
    path = tmp_path / f"dict.{language}.txt"
    lines = path.read_text("utf-8").splitlines(keepends=True)
    changed = {"more": [*lines, "new 1\n"], "fewer": lines[:-1], "order": lines[::-1]}[change]
    path.write_text("".join(changed), encoding="utf-8")
    with pytest.raises(UserError, match=rf"^{path}: must have the types of {files}, in their order, but has others$"):
        load(ModelFolder(tmp_path, TextSettings("de", "en"), "ctranslate2", "float32"), 1)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"[]", b"{}"], ids=["empty", "no-text", "a-list", "no-keys"])
@pytest.mark.parametrize("name", ["config.json", "model.bin", "shared_vocabulary.json"])
def test_a_file_that_ctranslate2_cannot_read(name: str, content: bytes, learned: Learned, tmp_path: Path) -> None:
    files = shutil.copytree(learned.folder, tmp_path / "ctranslate2")
    (files / name).write_bytes(content)
    with pytest.raises(
        UserError, match=rf"^{files}: must be a model that CTranslate2 can read, but is not: \S"
    ) as error:
        load(ModelFolder(tmp_path, TextSettings("de", "en"), "ctranslate2", "float32"), 1)
    assert len(str(error.value).splitlines()) == 1
