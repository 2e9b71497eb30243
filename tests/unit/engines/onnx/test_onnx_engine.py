"""The onnx engine beside its search: batches, threads, and files that are no graphs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from support.models import PRE_NORM, dictionary
from support.onnx_models import engine_of, onnx_engine, options
from support.searched_models import FEW, SENTENCES, model

from deepnmt.engines.engine import SearchSettings
from deepnmt.engines.model_folder import ModelFolder
from deepnmt.engines.onnx.engine import ENCODER, STEP, load, session
from deepnmt.engines.onnx.graph import FLOAT, Graph
from deepnmt.engines.onnx.writer import write_model
from deepnmt.errors import UserError
from deepnmt.text.settings import TextSettings

SOURCES = [[FEW[number] for number in sentence] for sentence in SENTENCES]
SETTINGS = SearchSettings(max_len_b=30, nbest=5)


@pytest.mark.parametrize("weights", ["float32", "int8"])
def test_a_translation_does_not_depend_on_its_batch(weights: str) -> None:
    engine = onnx_engine(model(PRE_NORM), PRE_NORM, FEW, weights)
    together = engine.search(SOURCES, SETTINGS)
    for source, found in zip(SOURCES, together, strict=True):
        (alone,) = engine.search([source], SETTINGS)
        assert [hypothesis.tokens for hypothesis in alone] == [hypothesis.tokens for hypothesis in found]
        scores = [hypothesis.score for hypothesis in found]
        assert [hypothesis.score for hypothesis in alone] == pytest.approx(scores, abs=1e-5)


def test_threads_share_an_engine() -> None:
    engine = onnx_engine(model(PRE_NORM), PRE_NORM)
    expected = engine.search(SOURCES, SETTINGS)
    assert [len(found) for found in expected] == [5] * len(SOURCES)
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda _: engine.search(SOURCES, SETTINGS), range(12)))
    assert all(each == expected for each in found)


@pytest.mark.parametrize("settings", [SETTINGS, SearchSettings(max_len_a=0.5, max_len_b=2, nbest=2)])
def test_threads_search_shares_of_a_batch(settings: SearchSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = onnx_engine(model(PRE_NORM), PRE_NORM)
    sources = [["w1"] * (1 + number % 9) for number in range(14)]
    expected = engine.search(sources, settings)
    shares: list[int] = []
    searched = engine._searched

    def noted(share: Any, limits: Any) -> Any:
        shares.append(len(share))
        return searched(share, limits)

    monkeypatch.setattr(engine, "_searched", noted)
    engine.threads = 8
    found = engine.search(sources, settings)
    # At least four sentences each.
    assert sorted(shares) == [4, 5, 5]
    for ours, theirs in zip(found, expected, strict=True):
        assert [each.tokens for each in ours] == [each.tokens for each in theirs]
        assert [each.score for each in ours] == pytest.approx([each.score for each in theirs], abs=1e-5)


@pytest.mark.parametrize(("width", "searching", "computing"), [(256, 3, 1), (264, 1, 3)])
def test_threads_share_a_batch_of_narrow_models_and_a_product_of_wide_ones(
    width: int, searching: int, computing: int, tmp_path: Path
) -> None:
    given = {**PRE_NORM, "encoder_embed_dim": width, "decoder_embed_dim": width}
    write_model(model(given), options(given), tmp_path, "float32")
    folder = ModelFolder(tmp_path, TextSettings("de", "en"), "onnx", "float32")
    for language in ("de", "en"):
        FEW.save(str(folder.dictionary(language)))
    engine = load(folder, 3)
    used = [each.get_session_options().intra_op_num_threads for each in (engine.encoder, engine.step)]
    assert (engine.threads, used) == (searching, [computing] * 2)
    assert engine.search(SOURCES, SETTINGS)


def test_nothing_to_do_and_unknown_words() -> None:
    engine = onnx_engine(model(PRE_NORM), PRE_NORM)
    assert engine.search([], SETTINGS) == []
    assert engine.score([], []) == []
    assert engine.search([["never seen", "w1"]], SETTINGS) == engine.search([["<unk>", "w1"]], SETTINGS)
    assert engine.score([["w1"]], [["never seen"]]) == engine.score([["w1"]], [["<unk>"]])
    assert [len(row) for row in engine.score([["w1"], ["w2"]], [[], ["w3", "w4"]])] == [1, 3]


def test_positions() -> None:
    given = {**PRE_NORM, "max_source_positions": 8, "max_target_positions": 12}
    engine = onnx_engine(model(given), given)
    assert engine.longest == 7
    assert engine.search([["w1"] * 7], SETTINGS)[0]
    assert engine.score([["w1"] * 7], [["w2"] * 11])


@pytest.mark.parametrize("name", [ENCODER, STEP])
def test_a_file_that_is_no_graph(name: str, tmp_path: Path) -> None:
    write_model(model({}), options({}), tmp_path, "float32")
    (tmp_path / name).write_bytes(b"no graph")
    with pytest.raises(UserError, match=rf"{name}: must be a graph that ONNX Runtime reads, but is not: \S") as error:
        engine_of(tmp_path)
    assert len(str(error.value).splitlines()) == 1


@pytest.mark.parametrize(("name", "other"), [(ENCODER, STEP), (STEP, ENCODER)])
def test_a_graph_in_the_place_of_the_other(name: str, other: str, tmp_path: Path) -> None:
    write_model(model({}), options({}), tmp_path, "float32")
    for language in ("de", "en"):
        dictionary().save(str(tmp_path / f"dict.{language}.txt"))
    (tmp_path / name).write_bytes((tmp_path / other).read_bytes())
    message = rf"^{tmp_path}/{name}: must be the graph that deepnmt export names so, but is another$"
    with pytest.raises(UserError, match=message):
        load(ModelFolder(tmp_path, TextSettings("de", "en"), "onnx", "float32"), 1)
    (tmp_path / name).unlink()
    with pytest.raises(UserError, match=rf"^{tmp_path}/{name}: no such file$"):
        load(ModelFolder(tmp_path, TextSettings("de", "en"), "onnx", "float32"), 1)


@pytest.mark.parametrize(("language", "types"), [("de", 3), ("en", -2)])
def test_a_dictionary_of_another_number_of_types(language: str, types: int, tmp_path: Path) -> None:
    write_model(model({}), options({}), tmp_path, "float32")
    folder = ModelFolder(tmp_path, TextSettings("de", "en"), "onnx", "float32")
    own = dictionary()
    for name in ("de", "en"):
        own.save(str(folder.dictionary(name)))
    assert load(folder, 1).longest > 0
    path = folder.dictionary(language)
    lines = [*path.read_text("utf-8").splitlines(), "x 1", "y 1", "z 1"]
    path.write_text("".join(f"{line}\n" for line in lines[: len(own) - own.nspecial + types]), encoding="utf-8")
    with pytest.raises(
        UserError, match=f"^{path}: must have the {len(own)} types of the model, but has {len(own) + types}$"
    ):
        load(folder, 1)


def test_waiting_threads_do_not_spin(tmp_path: Path) -> None:
    graph = Graph()
    graph.output("y", FLOAT, graph.op("Neg", graph.input("x", FLOAT, 1)), 1)
    (tmp_path / "graph.onnx").write_bytes(graph.model({}).SerializeToString())
    options = session(tmp_path / "graph.onnx", threads=2).get_session_options()
    assert options.get_session_config_entry("session.intra_op.allow_spinning") == "0"
    assert options.intra_op_num_threads == 2
