"""`deepnmt rerank` from lists to a folder of translations: tuning, weights, consensus, oracle, refusals, resuming."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.checkpoints import run_main
from support.nbest_folders import (
    TEXTS,
    nbest_folder,
    number_folder,
    plain_lists,
    save_model,
    select_on,
    text_folder,
)

from deepnmt.cli import rerank
from deepnmt.errors import UserError
from deepnmt.reranking import model_scores, reranked_lists
from deepnmt.reranking.merged_lists import read_lists
from deepnmt.reranking.model_scores import Kind, ModelFeature
from deepnmt.reranking.weights_file import as_option, weights_for
from deepnmt.search.options import SearchOptions
from deepnmt.text.nbest import read_nbest

GOOD = TEXTS["en"]
# The reference is worst by the model, and longest.
LISTS = plain_lists(["w7", "w7 w8 w9", GOOD[0]], ["w11 w12", GOOD[1]], ["w15 w9", "w15 w7 w8", GOOD[2]])
FOLDER = {"hyp.en", "hyp.tok.en", "ref.en", "ref.tok.en", "src.de", "generate.json", "nbest.tsv", "rerank.json"}


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    """Data, a list of valid, one of test."""
    text_folder(tmp_path / "data")
    nbest_folder(tmp_path / "valid", LISTS)
    nbest_folder(tmp_path / "test", LISTS, "test")
    return tmp_path


def call(folder: Path, *words: object) -> None:
    """The command on lists of `folder`."""
    lists, *rest = words
    paths = [folder / name for name in str(lists).split()]
    run_main(rerank.main, "deepnmt rerank", "--nbest", *paths, "--data", folder / "data", *rest)


def report(folder: Path) -> dict[str, Any]:
    result: dict[str, Any] = json.loads((folder / "rerank.json").read_text())
    return result


def test_tuning_on_valid_and_choosing_on_test(folders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call(folders, "valid", "--tune", "--oracle", "--starts", 3, folders / "tuned")
    assert {path.name for path in (folders / "tuned").iterdir()} == FOLDER | {"weights.json"}
    assert (folders / "tuned" / "hyp.tok.en").read_text().splitlines() == GOOD
    found = report(folders / "tuned")
    assert found["bleu"]["chosen"] == found["bleu"]["oracle"] == 100
    assert found["bleu"]["first"][0] < 50
    assert "BLEU of the chosen translations: 100.0" in capsys.readouterr().out
    saved = json.loads((folders / "tuned" / "weights.json").read_text())
    assert saved["weights"] == found["weights"]
    assert (saved["tuned"]["subset"], saved["models"]) == ("valid", {})
    call(folders, "test", "--weights", folders / "tuned" / "weights.json", folders / "out")
    assert (folders / "out" / "hyp.en").read_text().splitlines() == ["w7 w8 w9 w10.", *GOOD[1:]]
    assert json.loads((folders / "out" / "generate.json").read_text())["subset"] == "test"
    ranks = [line.subwords for line in read_nbest(folders / "out" / "nbest.tsv") if line.rank == 1]
    assert ranks == GOOD
    # A second time, the same; and the result can be reranked.
    call(folders, "valid", "--tune", "--oracle", "--starts", 3, folders / "again")
    for name in FOLDER - {"rerank.json"} | {"weights.json"}:
        assert (folders / "again" / name).read_bytes() == (folders / "tuned" / name).read_bytes()
    call(folders, "out", "--weights", folders / "tuned" / "weights.json", folders / "twice")
    assert (folders / "twice" / "nbest.tsv").read_text() == (folders / "out" / "nbest.tsv").read_text()


def test_the_record_says_which_texts_training_pairs_were_like(folders: Path) -> None:
    of_list, of_model = ({"file": name, "sha256": name * 64} for name in "ab")
    model = save_model(folders / "a.pt")
    call(folders, "valid", "--score", f"a={model}", "--tune", "--starts", 1, folders / "tuned")
    assert "selected_on" not in json.loads((folders / "tuned" / "generate.json").read_text())
    select_on(folders / "test", of_list)
    select_on(model, of_model)
    call(folders, "test", "--consensus", "bleu", folders / "consensus")
    assert json.loads((folders / "consensus" / "generate.json").read_text())["selected_on"] == [of_list]
    weights = ("--weights", folders / "tuned" / "weights.json")
    for run in ("first", "again, with scores that are kept"):
        call(folders, "test", "--score", f"a={model}", *weights, folders / "out")
        assert json.loads((folders / "out" / "generate.json").read_text())["selected_on"] == [of_list, of_model], run


@pytest.mark.parametrize("raw", [True, False])
def test_tags_are_compared_as_the_numbers_of_their_sentence(raw: bool, tmp_path: Path) -> None:
    data = number_folder(tmp_path / "data")
    same = "w7 <num> w9 w10 ."
    nbest_folder(tmp_path / "valid", plain_lists(["w7 w9 w10 .", same], [GOOD[1]], ["w7 w8 w9 w10 .", same]))
    (tmp_path / "valid" / "src.de").write_text((data / "text" / "valid.raw.de").read_text())
    if not raw:
        for language in ("de", "en"):
            (data / "text" / f"valid.raw.{language}").unlink()
    call(tmp_path, "valid", "--tune", "--oracle", "--starts", 3, tmp_path / "tuned")
    assert (tmp_path / "tuned" / "hyp.tok.en").read_text().splitlines() == ["w7 17 w9 w10 .", GOOD[1], "w7 18 w9 w10 ."]
    found = report(tmp_path / "tuned")["bleu"]
    assert found["chosen"] == found["oracle"] == 100
    call(tmp_path, "valid", "--consensus", "chrf", tmp_path / "out")
    call(tmp_path, "tuned", "--consensus", "bleu", tmp_path / "twice")
    assert report(tmp_path / "twice")["bleu"]["first"] == [100]


def test_models_are_features_and_their_scores_are_kept(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbest_folder(folders / "other", plain_lists(["w8"], ["w9"], ["w15 w9"]))
    paths = {name: save_model(folders / f"{name}.pt", seed) for seed, name in enumerate(("fwd", "more"), start=1)}
    back = save_model(folders / "back.pt", 3, ("en", "de"))
    models = ["--score", f"fwd={paths['fwd']}", "--score", f"both={paths['fwd']}:{paths['more']}", "--reverse"]
    models += [f"back={back}", "--starts", "1"]
    out = folders / "out"
    call(folders, "valid other", *models, "--tune", out)
    weights = json.loads((out / "weights.json").read_text())
    assert list(weights["weights"]) == ["length", "fwd", "both", "back"]
    assert weights["models"]["both"] == {
        "option": "--score",
        "checkpoints": [str(paths["fwd"]), str(paths["more"])],
    }
    assert {path.name for path in (out / "scores").iterdir()} == {"fwd.json", "both.json", "back.json"}
    assert {len(line.features) for line in read_nbest(out / "nbest.tsv")} == {4}
    # With other weights, no model is needed again; a score file that is cut off is not taken.
    scored: list[str] = []
    stock = model_scores.Scorer.__init__
    monkeypatch.setattr(
        model_scores.Scorer,
        "__init__",
        lambda self, feature, *rest: (scored.append(feature.name), stock(self, feature, *rest))[1],
    )
    before = (out / "nbest.tsv").read_bytes()
    (out / "scores" / "both.json").write_text((out / "scores" / "both.json").read_text()[:50])
    call(folders, "valid other", *models, "--tune", out)
    assert scored == ["both"]
    assert (out / "nbest.tsv").read_bytes() == before
    save_model(paths["more"], 7)
    call(folders, "valid other", *models, "--tune", out)
    assert scored == ["both", "both"]
    assert (out / "nbest.tsv").read_bytes() != before


def test_log_probabilities_per_token(folders: Path) -> None:
    """1/t log P(y | x) + w/s log P(x | y), by tokens that are counted here."""
    sources = [f"{line} end".split() for line in (folders / "data" / "text" / "valid.bpe.de").read_text().splitlines()]
    assert len({len(source) for source in sources}) > 1
    model = ["--score", f"fwd={save_model(folders / 'fwd.pt', 1)}"]
    model += ["--reverse", f"back={save_model(folders / 'back.pt', 2, ('en', 'de'))}"]
    weights = {"model": 0.3, "length": -0.01, "fwd": 1.0, "back": 0.5}

    def ranked(per_token: bool, value: Callable[[dict[str, float], int, int], float]) -> list[list[str]]:
        """Check the order of the command, and return it."""
        path, out = folders / f"{per_token}.json", folders / f"out-{per_token}"
        path.write_text(json.dumps({"weights": weights, "per_token": per_token}))
        call(folders, "valid", *model, "--weights", path, out)
        assert report(out)["per_token"] is per_token
        lines = read_nbest(out / "nbest.tsv")
        found: list[list[str]] = [[] for _ in sources]
        for number, source in enumerate(sources):
            of_it = [line for line in lines if line.sentence == number]
            scores = [value(line.features, len(line.subwords.split()) + 1, len(source)) for line in of_it]
            assert scores == sorted(scores, reverse=True)
            assert len(set(scores)) > 1
            found[number] = [line.subwords for line in of_it]
        return found

    per_token = ranked(
        True, lambda f, t, s: (0.3 * f["model"] + f["fwd"]) / t - 0.01 * f["length"] + 0.5 * f["back"] / s
    )
    sums = ranked(False, lambda f, t, s: 0.3 * f["model"] + f["fwd"] - 0.01 * f["length"] + 0.5 * f["back"])
    # Sums prefer the shorter ones.
    assert per_token != sums
    call(folders, "valid", *model, "--tune", "--per-token", "--starts", 1, folders / "tuned")
    tuned = folders / "tuned" / "weights.json"
    assert json.loads(tuned.read_text())["per_token"] is True
    call(folders, "test", *model, "--weights", tuned, folders / "chosen")
    assert report(folders / "chosen")["per_token"] is True
    with pytest.raises(UserError, match=r"weights\.json: must be weights of sums here, but is of --per-token; tune"):
        as_option(tuned, ["model"])
    with pytest.raises(UserError, match=r"weights\.json: must be weights of sums here, but is of --per-token; tune"):
        weights_for(tuned, list(weights))


def test_weights_of_an_ensemble(folders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Translations are in the order of sum_k g_k 1/t log P_k, and the search gets these g_k."""
    models = [f"{name}={save_model(folders / f'{name}.pt', seed)}" for seed, name in enumerate("ab", start=1)]
    call(folders, "valid", *(word for model in models for word in ("--score", model)), "--tune", "--ensemble",
         "--starts", 2, folders / "tuned")  # fmt: skip
    weights = report(folders / "tuned")["weights"]
    assert list(weights) == ["a", "b"]
    assert min(weights.values()) >= 0
    assert sum(weights.values()) == pytest.approx(1, abs=1e-9)
    options = f"--ensemble-rule log-linear --ensemble-weights {weights['a']:.6g},{weights['b']:.6g}"
    assert report(folders / "tuned")["search"] == options
    assert f"for deepnmt generate and translate: {options}" in capsys.readouterr().out
    lines = read_nbest(folders / "tuned" / "nbest.tsv")
    for number in range(3):
        found = [line for line in lines if line.sentence == number]
        means = [
            sum(weight * line.features[name] for name, weight in weights.items()) / (len(line.subwords.split()) + 1)
            for line in found
        ]
        assert means == sorted(means, reverse=True)


@pytest.mark.parametrize("models", [2, 3, 7])
def test_rounded_weights_of_an_ensemble_sum_to_1(models: int) -> None:
    """As the search requires it; three thirds alone would not."""
    draw = np.random.default_rng(models)
    for weights in (np.full(models, 1 / models), *draw.dirichlet(np.ones(models), 20)):
        given = reranked_lists.search_options(reranked_lists.of_ensemble(weights)).split()[-1]
        options = SearchOptions(ensemble_rule="log-linear", ensemble_weights=given)
        assert sum(options.weights() or []) == pytest.approx(1, abs=1e-9)
        assert options.weights() == pytest.approx(weights.tolist(), abs=5e-6)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--consensus", "bleu"], "--ensemble needs --tune$"),
        (["--tune", "--score", "a=a.pt"], "--score must name two models or more with --ensemble, but names 1"),
        (
            ["--tune", "--score", "a=a.pt", "--score", "b=b.pt:c.pt", "--per-token", "--lm", "l=l.pt"],
            "--lm cannot be combined with --ensemble\n--per-token cannot be combined with --ensemble\n"
            "--score b must be one checkpoint with --ensemble",
        ),
        (["--tune", "--score", "a={0}/a.pt", "--score", "b={0}/a.pt"], "--ensemble: must have lists of several"),
    ],
)
def test_ensembles_that_cannot_be_tuned(folders: Path, words: list[str], message: str) -> None:
    save_model(folders / "a.pt")
    nbest_folder(folders / "single", plain_lists(["w1"], ["w2"], []))
    with pytest.raises(UserError, match=f"^{message}"):
        call(folders, "single", "--ensemble", *(word.format(folders) for word in words), folders / "out")


def test_weights_are_for_models_of_the_same_kind(folders: Path) -> None:
    model = save_model(folders / "a.pt")
    back = save_model(folders / "back.pt", 2, ("en", "de"))
    given = ["--score", f"a={model}", "--reverse", f"b={back}"]
    swapped = ["--score", f"b={model}", "--reverse", f"a={back}"]
    call(folders, "valid", *given, "--tune", "--starts", 1, folders / "tuned")
    weights = folders / "tuned" / "weights.json"
    with pytest.raises(UserError, match=r"the weight of '[ab]' must be for --\w+ [ab]=\.\.\., but is for --"):
        call(folders, "test", *swapped, "--weights", weights, folders / "out")
    call(folders, "test", *given, "--weights", weights, folders / "out")
    # An earlier version did not say so, and the file may be a user's.
    record = json.loads(weights.read_text())
    del record["models"]
    weights.write_text(json.dumps(record))
    call(folders, "test", *swapped, "--weights", weights, folders / "out")


def test_which_features_are_per_token_of_what(folders: Path) -> None:
    lists = read_lists([folders / "valid"], folders / "data")
    kinds = {"fwd": Kind.TRANSLATION, "back": Kind.REVERSE, "lm": Kind.LANGUAGE}
    features = [ModelFeature(name, kind, ()) for name, kind in kinds.items()]
    for candidate in (each for found in lists.candidates for each in found):
        candidate.features |= {"fwd": -60.0, "back": -120.0, "lm": -180.0}
    found = reranked_lists.values(lists, features, folders / "data", True)
    # The sources have 2, 1 and 3 words; of the last, the translations have 2, 3 and 4.
    assert [each["back"] for (each, *_) in found] == [-40.0, -60.0, -30.0]
    assert [each["lm"] for (each, *_) in found] == [-60.0, -90.0, -45.0]
    assert [each["fwd"] for each in found[2]] == [-20.0, -15.0, -12.0]
    assert [each["model"] for each in found[2]] == [-1 / 3, -2 / 4, -3 / 5]
    assert [each["length"] for each in found[2]] == [3.0, 4.0, 5.0]
    assert reranked_lists.values(lists, features, folders / "data", False)[2][0]["fwd"] == -60.0


def test_a_faulty_model_leaves_nothing(folders: Path) -> None:
    save_model(folders / "a.pt")
    state = torch.load(folders / "a.pt", weights_only=False)
    del state["model"]["decoder.layers.0.fc1.weight"]
    torch.save(state, folders / "a.pt")
    with pytest.raises(UserError, match=r"a\.pt: .*decoder\.layers\.0\.fc1\.weight"):
        call(folders, "valid", "--score", f"a={folders / 'a.pt'}", "--tune", folders / "out")
    assert not (folders / "out").exists()
    # The right one then has the place.
    save_model(folders / "a.pt")
    call(folders, "valid", "--score", f"a={folders / 'a.pt'}", "--tune", "--starts", 1, folders / "out")
    assert (folders / "out" / "weights.json").exists()


def test_a_scoring_that_is_stopped_resumes_with_the_next_model(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_model(folders / "a.pt")
    words = ["--score", f"a={folders / 'a.pt'}", "--score", f"b={folders / 'a.pt'}", "--tune", "--starts", 1]
    stock = model_scores.Scorer.__call__

    def interrupted(self: Any, *rest: Any) -> Any:
        if self.feature.name == "b":
            raise KeyboardInterrupt("scoring b")
        return stock(self, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(model_scores.Scorer, "__call__", interrupted)
        with pytest.raises(KeyboardInterrupt, match="scoring b"):
            call(folders, "valid", *words, folders / "out")
    assert [path.name for path in (folders / "out").rglob("*")] == ["scores", "a.json"]
    with monkeypatch.context() as patch:
        patch.setattr(
            model_scores.Scorer, "__call__", lambda self, *rest: stock(self, *rest) * (self.feature.name == "b")
        )
        call(folders, "valid", *words, folders / "out")
    lines = read_nbest(folders / "out" / "nbest.tsv")
    assert all(line.features["a"] == line.features["b"] for line in lines)


def test_some_features_alone(folders: Path) -> None:
    call(folders, "valid", "--features", "length", "--tune", "--starts", 1, folders / "out")
    assert list(report(folders / "out")["weights"]) == ["length"]
    with pytest.raises(UserError, match=r"--features: must be among model, length, but unk is not"):
        call(folders, "valid", "--features", "length,unk", "--tune", folders / "other")
    with pytest.raises(UserError, match=r"--features: must be names that differ, but is model,length,model$"):
        call(folders, "valid", "--features", "model,length,model", "--tune", folders / "other")


def test_consensus(folders: Path) -> None:
    alike = plain_lists(["w1 w2 w3 w4", "w7 w8 w9 w10", "w7 w8 w9 w10 .", "w7 w8 w9 ."], [], ["w3"])
    nbest_folder(folders / "alike", alike)
    call(folders, "alike", "--consensus", "chrf", "--posterior", "share", folders / "out")
    assert (folders / "out" / "hyp.tok.en").read_text().splitlines() == ["w7 w8 w9 w10 .", "", "w3"]
    first, *others = read_nbest(folders / "out" / "nbest.tsv")
    assert list(first.features) == ["model", "length", "consensus"]
    assert first.features["consensus"] > others[0].features["consensus"]
    assert json.loads((folders / "out" / "generate.json").read_text())["untranslated"] == 1
    # By the search's scores, nearly all of the probability is with the first.
    for number, found in enumerate(alike[0]):
        found[1]["model"] = -9.0 * number  # type: ignore[index]
    nbest_folder(folders / "sure", alike)
    call(folders, "sure", "--consensus", "bleu", folders / "out")
    assert (folders / "out" / "hyp.tok.en").read_text().splitlines()[0] == "w1 w2 w3 w4"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["test", "--tune"], r"--tune: must not be on test sentences, but the lists are of test; tune on lists"),
        (["valid"], r"one of the arguments --tune --weights --consensus is required \(see --help\)"),
        (["single", "--consensus", "chrf"], r"--consensus: must have lists of several translations, but no"),
        (["valid", "--tune", "--posterior", "share"], r"--posterior needs --consensus"),
        (["valid", "--per-token", "--consensus", "bleu"], r"^--per-token needs --tune$"),
        (["valid", "--weights", "w", "--seed=1", "--starts", "2"], r"^--seed needs --tune\n--starts needs --tune$"),
        (["valid", "--tune", "--max-tokens", "9"], r"^--max-tokens needs --score or --reverse or --lm$"),
        (["valid", "--tune", "--score", "a"], r"argument --score: must be NAME=CHECKPOINT, but is 'a'"),
        (["valid", "--tune", "--score", "length=a.pt"], r"--score: the name must be new, but 'length' belongs"),
        (["valid", "--consensus", "bleu", "--lm", "a=a.pt"], r"--score, --reverse, --lm cannot be combined with"),
        (["valid", "--tune", "--score", "a=nowhere.pt"], r"nowhere\.pt: no such checkpoint"),
        (["valid", "--tune", "--seed", "-1"], r"^--seed must be from 0 to 4294967295, but is -1$"),
        (["valid", "--tune", "--starts", "0"], r"argument --starts: must be a whole number from 1 on, but is 0"),
        (["other", "--consensus", "bleu"], r"other/nbest\.tsv: must have the feature model, by .* has a, length"),
        (["valid", "--weights", "{0}/weights.json"], r"must have a weight for each of model, length, but lacks "),
    ],
)  # fmt: skip
def test_refusals(folders: Path, words: list[str], message: str) -> None:
    nbest_folder(folders / "single", plain_lists(["w1"], ["w2"], []))
    nbest_folder(folders / "other", [[("w1", {"a": -1.0, "length": 2.0}), ("w2", {"a": -2.0, "length": 2.0})]])
    (folders / "weights.json").write_text('{"weights": {"length": 1}}')
    before = set(folders.iterdir())
    with pytest.raises(UserError, match=message):
        call(folders, *(word.format(folders) for word in words), folders / "out")
    assert set(folders.iterdir()) == before


def test_out_must_be_its_own(folders: Path) -> None:
    (folders / "codes").write_text("")
    for foreign in ("data", "codes"):
        with pytest.raises(UserError, match=rf"/{foreign} exists, and was not made by deepnmt rerank; .* another OUT$"):
            call(folders, "valid", "--tune", folders / foreign)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"weights": {}}', "no weights found"),
        ('{"weights": {"a": "x"}}', "the weight of 'a' must be a finite number, but is x"),
        ('{"weights": {"a": 1, "b": NaN}}', "the weight of 'b' must be a finite number, but is nan"),
        ('{"weights": {"a": 1}, "per_token": 1}', "per_token must be true or false, but is 1"),
        (
            '{"weights": {"a": 1, "b": 2}}',
            "must have weights for a alone, but has one for b, which no list and no --score",
        ),
        ('{"tuned": 1}', "must have the key 'weights', but does not"),
    ],
)
def test_faulty_weights(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "weights.json").write_text(text)
    with pytest.raises(UserError, match=rf"weights\.json:.*{message}"):
        weights_for(tmp_path / "weights.json", ["a"])
