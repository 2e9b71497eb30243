"""Nearest neighbours in the search: the formula, by brute force in float64, the options, and `deepnmt datastore`."""

from __future__ import annotations

import json
import math
import shutil
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fairseq import checkpoint_utils
from support.models import batch, build, dictionary
from support.restarts import train_until
from support.substitution import substitution_data
from torch import Tensor

import deepnmt
from deepnmt.cli import datastore
from deepnmt.engines.engine import SearchSettings
from deepnmt.engines.torch.fairseq_engine import load_checkpoints
from deepnmt.errors import UserError
from deepnmt.search import neighbours
from deepnmt.search.generator import BeamGenerator
from deepnmt.search.neighbours import Neighbours, fingerprints
from deepnmt.translation_task import DeepTranslationConfig, DeepTranslationTask

deepnmt.register()
TYPES = dictionary()
INPUTS = batch([[5, 6, 7, 8, 9], [10, 11], [12, 13, 14]], [[5]] * 3)
del INPUTS["prev_output_tokens"]
CHANNELS = 16


def formula(log_probs: Tensor, states: Tensor, store: tuple[Tensor, Tensor], k: int, share: float, t: float) -> Tensor:
    """(44), an entry at a time."""
    keys, types = store
    result = log_probs.double().exp() * (1 - share)
    for row, state in enumerate(states.double()):
        distances = [(float(((state - key) ** 2).sum()), place) for place, key in enumerate(keys.double())]
        nearest = sorted(distances)[:k]
        weights = [math.exp(-(distance - nearest[0][0]) / t) for distance, _ in nearest]
        for weight, (_, place) in zip(weights, nearest):
            result[row, int(types[place])] += share * weight / sum(weights)
    return result.log()


@pytest.mark.parametrize(("entries", "k"), [(1, 1), (64, 7), (300, 16), (300, 300)])
@pytest.mark.parametrize("scores", [2**25, 700])
def test_the_formula(entries: int, k: int, scores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "SCORES", scores)
    draw = torch.Generator().manual_seed(entries + k)
    keys, types = torch.randn(entries, 6, generator=draw), torch.randint(0, 9, (entries,), generator=draw)
    states = torch.randn(5, 6, generator=draw)
    log_probs = torch.randn(5, 12, generator=draw).log_softmax(1)
    log_probs[:, 10:] = -math.inf
    log_probs[0, 3] = -math.inf  # which its neighbours may well have
    expected = formula(log_probs, states, (keys, types), k, 0.3, 2.5)
    found = Neighbours(keys, types, k, 0.3, 2.5)(log_probs.clone(), states)
    torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-4)
    assert found[:, 10:].eq(-math.inf).all()


def test_a_weight_of_0_changes_nothing_and_far_neighbours_are_numbers() -> None:
    log_probs = torch.randn(2, 5).log_softmax(1)
    keys, types = torch.full((3, 4), 100.0), torch.tensor([1, 1, 2])
    assert torch.equal(Neighbours(keys, types, 2, 0.0, 1.0)(log_probs.clone(), torch.zeros(2, 4)), log_probs)
    found = Neighbours(keys, types, 3, 0.5, 1e-3)(log_probs.clone(), -keys[:2])
    assert found.exp().sum(1).tolist() == pytest.approx([1, 1])


def write(folder: Path, model: Any, keys: Tensor, types: Tensor) -> str:
    folder.mkdir()
    np.save(folder / "keys.npy", keys.half().numpy())
    np.save(folder / "types.npy", types.int().numpy())
    (folder / "datastore.json").write_text(json.dumps({"model": fingerprints(model)}))
    return str(folder)


def stores(tmp_path: Path, models: list[Any], entries: int = 200) -> tuple[str, list[tuple[Tensor, Tensor]]]:
    draw = torch.Generator().manual_seed(3)
    made = []
    for _ in models:
        keys = torch.randn(entries, CHANNELS, generator=draw).half().float()
        made.append((keys, torch.randint(4, len(TYPES), (entries,), generator=draw)))
    paths = [write(tmp_path / str(n), model, *store) for n, (model, store) in enumerate(zip(models, made))]
    return ":".join(paths), made


def generator(models: list[Any], **options: Any) -> BeamGenerator:
    task = DeepTranslationTask(DeepTranslationConfig(**options), TYPES, TYPES)
    built: BeamGenerator = task.build_generator(models, Namespace(beam=4, max_len_b=9))
    return built


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_scores_of_a_search_are_those_of_the_mixture(tmp_path: Path, number: int, norm: str) -> None:
    models = [build({"decoder_norm": norm}, seed=seed).float() for seed in range(number)]
    paths, made = stores(tmp_path, models)
    mixed = generator(models, datastore=paths, neighbours=5, neighbour_weight=0.4, neighbour_temperature=3.0)
    with torch.no_grad():
        found = mixed.generate([], {"net_input": INPUTS})
    plain = generator(models, ensemble_weights=",".join(["1", *["0"] * (number - 1)]))
    with torch.no_grad():
        without = plain.generate([], {"net_input": INPUTS})
    assert [one[0]["tokens"].tolist() for one in found] != [one[0]["tokens"].tolist() for one in without]
    for sentence, hypotheses in enumerate(found):
        for hypothesis in hypotheses:
            tokens = hypothesis["tokens"]
            inputs = {name: values[sentence : sentence + 1] for name, values in INPUTS.items()}
            inputs["prev_output_tokens"] = torch.cat([torch.tensor([2]), tokens[:-1]]).unsqueeze(0)
            each = []
            for model, store in zip(models, made):
                with torch.no_grad():
                    states = model(**inputs, features_only=True)[0][0]
                    log_probs = model.get_normalized_probs(model(**inputs), log_probs=True)[0]
                each.append(formula(log_probs, states, store, 5, 0.4, 3.0).exp())
            expected = torch.stack(each).mean(0).log().gather(1, tokens.unsqueeze(1)).squeeze(1)
            torch.testing.assert_close(hypothesis["positional_scores"].double(), expected, rtol=1e-3, atol=1e-3)


def test_a_model_in_half_precision_knows_its_datastore() -> None:
    model = build().float()
    kept = fingerprints(model)
    for kind, name in ((torch.float16, "float16"), (torch.bfloat16, "bfloat16")):
        assert fingerprints(build().to(kind))[name] == fingerprints(build().float().to(kind))[name]
        assert kept[name] == fingerprints(build().float().to(kind))[name]


@pytest.mark.parametrize("part", ["encoder", "decoder"])
def test_a_model_that_differs_in_one_layer_is_another(part: str) -> None:
    model = build().float()
    kept = fingerprints(model)
    with torch.no_grad():
        next(getattr(model, part).layers[1].parameters())[0] += 1
    assert not {*fingerprints(model).values()} & {*kept.values()}


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    models = [build().float()]
    path, _ = stores(tmp_path, models)
    two = [*models, build(seed=2).float()]
    for built, options, message in [
        (models, {"neighbours": 3}, r"^--neighbours needs --datastore$"),
        (models, {"neighbour_weight": 0.1}, r"^--neighbour-weight needs --datastore$"),
        (two, {"datastore": path}, rf"^--datastore: must be as many folders as models, 2, but is {path}$"),
        (models, {"datastore": "none"}, r"^--datastore: 'none' is not a folder of deepnmt datastore$"),
        (models, {"datastore": path, "neighbours": 0}, r"^--neighbours must be at least 1 and at most .*, but is 0$"),
        (models, {"datastore": path, "neighbours": 201}, r"^--neighbours: must be at most the entries of .*, 200, but"),
        (models, {"datastore": path, "neighbour_weight": 1.0}, r"^--neighbour-weight must .* below 1, but is 1\.0$"),
        (
            models,
            {"datastore": path, "neighbour_temperature": 0.0},
            r"^--neighbour-temperature .* above 0, but",
        ),
        (two[1:], {"datastore": path}, rf"^{path}: must be made with the model that it is used with, but is of ano"),
    ]:
        with pytest.raises(UserError, match=message):
            generator(built, **options)


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("keys", np.zeros((200, CHANNELS, 1), np.float16), "must have a key for each type, but has"),
        ("keys", np.zeros((200, CHANNELS), np.int32), "must have a key for each type, but has"),
        ("keys", np.zeros((0, CHANNELS), np.float16), "must have a key for each type, but has"),
        ("keys", np.full((200, CHANNELS), np.inf, np.float16), r"keys\.npy: must be finite, but is not"),
        ("types", np.zeros(199, np.int32), "must have a key for each type, but has"),
        ("types", np.full(200, len(TYPES), np.int32), "must be types of the dictionary, below 24, but are others"),
        ("types", np.full(200, -1, np.int32), "must be types of the dictionary, below 24, but are others"),
        ("types", np.zeros(200, np.float32), "must be types of the dictionary, below 24, but are others"),
        ("types", np.array([object()]), r"types\.npy: must be an array of numbers, but is not: Object arrays"),
        ("types", None, r"types\.npy: must be an array of numbers, but is not: "),
    ],
)
def test_a_damaged_datastore_is_refused(tmp_path: Path, name: str, array: Any, message: str) -> None:
    models = [build().float()]
    path, _ = stores(tmp_path, models)
    if array is None:
        (Path(path) / f"{name}.npy").write_bytes(b"")
    else:
        np.save(Path(path) / f"{name}.npy", array, allow_pickle=True)
    with pytest.raises(UserError, match=message):
        generator(models, datastore=path)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Data, and a model that was trained for an update."""
    folder = tmp_path_factory.mktemp("datastore")
    data = substitution_data(folder / "data")
    options = ["--task=deep_translation", "--criterion=cross_entropy", "--max-tokens=200", "--max-update=1"]
    options += ["--disable-validation", "--no-epoch-checkpoints", "--bpe-dropout=0.5", "--share-all-embeddings"]
    with pytest.MonkeyPatch.context() as monkeypatch:
        train_until(monkeypatch, [str(data), *options], folder / "save")
    return {"data": data, "model": folder / "save" / "checkpoint_last.pt"}


def make(monkeypatch: pytest.MonkeyPatch, *words: str | Path) -> None:
    datastore.main([*map(str, words)])


def test_entries_are_the_states_before_each_token(
    trained: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    for tokens in (50, 8192):
        make(monkeypatch, trained["model"], trained["data"], out, f"--max-tokens={tokens}")
    keys, types = np.load(out / "keys.npy"), np.load(out / "types.npy")
    assert f"{out} is ready: {len(keys)} entries" in capsys.readouterr().out
    (model,), _, task = checkpoint_utils.load_model_ensemble_and_task([str(trained["model"])])
    model.eval()
    task.cfg.bpe_dropout = 0.0
    task.load_dataset("train")
    dataset, expected = task.dataset("train"), []
    for number in range(len(dataset)):
        sample = dataset.collater([dataset[number]])
        with torch.no_grad():
            states = model(**sample["net_input"], features_only=True)[0][0]
        expected += zip(sample["target"][0].tolist(), states.tolist())
    assert keys.dtype == np.float16
    # In whatever order.
    expected.sort()
    found = sorted(zip(types.tolist(), keys.astype(np.float32).tolist()))
    assert [token for token, _ in found] == [token for token, _ in expected]
    for token in {*types.tolist()}:
        mine = np.array([key for each, key in found if each == token]).mean(0)
        theirs = np.array([key for each, key in expected if each == token]).mean(0)
        np.testing.assert_allclose(mine, theirs, atol=2e-3)
    record = json.loads((out / "datastore.json").read_text())
    assert (record["entries"], record["left_out"], record["subset"]) == (len(keys), 0, "train")
    assert record["model"] == fingerprints(model)
    assert sorted(path.name for path in out.iterdir()) == ["datastore.json", "keys.npy", "types.npy"]


def test_what_the_command_refuses(trained: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, data, out = trained["model"], trained["data"], tmp_path / "out"
    other = shutil.copytree(data, tmp_path / "other")
    for language in ("de", "en"):
        with (other / f"dict.{language}.txt").open("a") as file:
            file.write("more 1\n")
    full = tmp_path / "full"
    full.mkdir()
    (full / "text").touch()
    for words, message in [
        ((tmp_path / "none.pt", data, out), "no such checkpoint"),
        ((model, data, out, "--subset=dev"), "the subset must be one of"),
        ((model, data, out, "--max-tokens=0"), "^--max-tokens must be at least 1, but is 0$"),
        ((model, other, out), "it was trained on other data"),
        ((model, data, full), "full exists, and was not made by deepnmt datastore; remove it or choose another OUT$"),
    ]:
        with pytest.raises(UserError, match=message):
            make(monkeypatch, *words)
        assert not out.exists()


def test_pairs_that_are_too_long_are_left_out_and_counted(
    trained: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    state = torch.load(trained["model"], weights_only=False)
    state["cfg"]["model"]["max_source_positions"] = 6
    torch.save(state, tmp_path / "short.pt")
    text = (trained["data"] / "text" / "train.bpe.de").read_text("utf-8").splitlines()
    longer = [len(line.split()) + 1 > 6 for line in text]
    assert 0 < sum(longer) < len(text)
    make(monkeypatch, tmp_path / "short.pt", trained["data"], tmp_path / "out")
    assert capsys.readouterr().out.endswith(f", {sum(longer)} pairs left out\n")
    kept = (trained["data"] / "text" / "train.bpe.en").read_text("utf-8").splitlines()
    tokens = sum(len(line.split()) + 1 for line, left in zip(kept, longer) if not left)
    assert len(np.load(tmp_path / "out" / "types.npy")) == tokens


def test_the_torch_engine_takes_a_datastore(
    trained: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(monkeypatch, trained["model"], trained["data"], tmp_path / "out")
    engine = load_checkpoints([trained["model"]], trained["data"], ("de", "en"), device="cpu")
    words = (trained["data"] / "text" / "train.bpe.de").read_text("utf-8").splitlines()[0].split()
    found = []
    for weight in (0.0, 0.9):
        more = {"datastore": str(tmp_path / "out"), "neighbour_weight": weight, "neighbour_temperature": 0.1}
        (hypotheses,) = engine.search([words], SearchSettings(beam=2, more=more))
        found.append(hypotheses[0].log_prob)
    (plain,) = engine.search([words], SearchSettings(beam=2))
    assert found[0] == pytest.approx(plain[0].log_prob, abs=1e-5)
    assert found[1] != pytest.approx(found[0], abs=0.1)
    with pytest.raises(UserError, match=r"^--datastore: 'none' is not a folder of deepnmt datastore$"):
        engine.check(SearchSettings(more={"datastore": "none"}))
