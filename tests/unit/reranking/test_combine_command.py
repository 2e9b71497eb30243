"""`deepnmt combine`: from lists to new translations, by models that score prefixes as a whole forward pass does."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from support.checkpoints import run_main
from support.nbest_folders import nbest_folder, number_folder, plain_lists, save_model, select_on, text_folder

from deepnmt.cli import combine
from deepnmt.errors import UserError
from deepnmt.reranking import combined_lists
from deepnmt.reranking.confusion_network import Slot
from deepnmt.reranking.model_scores import Kind, ModelFeature, Scorer, load_models
from deepnmt.reranking.prefix_scores import PrefixScorer
from deepnmt.text.nbest import read_nbest

LISTS = plain_lists(["w7 w8 w9", "w7 w9@@ w10", "w8 w9"], ["w11 w12", "w11 w13"], ["w15", "w7 w15 w8"])


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    text_folder(tmp_path / "data")
    nbest_folder(tmp_path / "valid", LISTS)
    for seed, name in enumerate("ab", start=1):
        save_model(tmp_path / f"{name}.pt", seed)
    return tmp_path


def call(folder: Path, *words: object) -> None:
    run_main(combine.main, "deepnmt combine", "--nbest", folder / "valid", "--data", folder / "data", *words)


def test_prefixes_have_the_scores_of_whole_passes(folders: Path) -> None:
    both = (folders / "a.pt", folders / "b.pt")
    loaded = load_models(both, folders / "data", ("de", "en"))
    sources = ["w1 w2", "w4 w5 w6 w3"]
    wanted = [(1, ("w7",)), (0, ("w8", "w9", "w10")), (1, ()), (0, ("w11", "w12")), (1, ("w7", "w8"))]
    pairs = [(sources[number], " ".join(prefix)) for number, prefix in wanted]
    expected = Scorer(ModelFeature("x", Kind.TRANSLATION, both), folders / "data", False)(pairs, 100, id)
    # Slots of words; the order does not matter here.
    networks: list[list[Slot]] = [
        [{("w8", "w9"): 0.5, ("w11",): 0.5}, {("w10",): 0.5, ("w12",): 0.5}],
        [{("w7",): 0.5, ("w8",): 0.5}],
    ]
    scorer = PrefixScorer(loaded, sources, networks, 8)
    ended = scorer(wanted, True)
    assert ended == pytest.approx(expected, rel=1e-4)
    open_ended = scorer(wanted, False)
    assert open_ended[2] == 0
    assert all(longer < shorter for longer, shorter in zip(ended, open_ended))
    # What follows a prefix does not change its score.
    alone = PrefixScorer(loaded, sources[:1], networks, 100)([(0, ("w8", "w9"))], False)
    both_words = scorer([(0, ("w8", "w9")), (0, ("w8", "w9", "w10"))], False)
    assert both_words[0] == pytest.approx(alone[0], rel=1e-4)


def test_a_source_without_slots_may_be_longer_than_the_positions(folders: Path) -> None:
    loaded = load_models((folders / "a.pt",), folders / "data", ("de", "en"))
    widths: list[int] = []
    loaded.models[0].encoder.register_forward_pre_hook(lambda encoder, inputs: widths.append(inputs[0].size(1)))
    networks: list[list[Slot]] = [[{("w8",): 1.0}], []]
    alone = PrefixScorer(loaded, ["w1 w2"], networks[:1], 100)([(0, ("w8",))], True)
    beside = PrefixScorer(loaded, ["w1 w2", " ".join(["w3"] * 50)], networks, 100)([(0, ("w8",))], True)
    assert beside == pytest.approx(alone, rel=1e-5)
    assert widths == [3, 3]


def test_a_network_must_fit_the_positions(folders: Path) -> None:
    # Of the longest path, three subwords and the end symbol; of its source, five and the end symbol.
    networks: list[list[Slot]] = [[{("w7",): 0.5, ("w8@@", "w9"): 0.5}, {("w10",): 0.9, (): 0.1}], []]
    sources = ["w1 w2 w3 w4 w5", " ".join(["w3"] * 50)]
    for source, target, message in (
        (6, 4, None),
        (6, 3, "--models: a target must have at most the 3 positions of the model, but one has 4$"),
        (5, 4, "--models: a source must have at most the 5 positions of the model, but one has 6$"),
    ):
        sizes = {"max_source_positions": source, "max_target_positions": target}
        paths = (folders / "a.pt", save_model(folders / "short.pt", **sizes))
        loaded = load_models(paths, folders / "data", ("de", "en"))
        with pytest.raises(UserError, match=message) if message else nullcontext():
            combined_lists.check_lengths(networks, sources, loaded)


def test_combining_resumes_and_its_weights_can_be_tuned(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(combined_lists, "TOGETHER", 2)
    models = ["--models", f"{folders / 'a.pt'}:{folders / 'b.pt'}", "--paths", 3]
    call(folders, *models, folders / "out")
    lines = read_nbest(folders / "out" / "nbest.tsv")
    assert list(lines[0].features) == ["network", "model", "length"]
    best = [line.subwords for line in lines if line.rank == 1]
    assert (folders / "out" / "hyp.tok.en").read_text().splitlines() == [text.replace("@@ ", "") for text in best]
    record = json.loads((folders / "out" / "combine.json").read_text())
    known = [{text for text, _ in found} for found in LISTS]
    assert record["new"] == sum(text not in found for text, found in zip(best, known))
    assert {path.name for path in (folders / "out" / "scores").iterdir()} == {"0.json", "2.json"}
    # Of what is kept, only the part that is missing is made again.
    searched: list[int] = []
    stock = combined_lists.search_all

    def counted(slots: Any, *rest: Any) -> Any:
        searched.append(len(slots))
        return stock(slots, *rest)

    monkeypatch.setattr(combined_lists, "search_all", counted)
    (folders / "out" / "scores" / "2.json").unlink()
    before = (folders / "out" / "nbest.tsv").read_bytes()
    call(folders, *models, folders / "out")
    assert searched == [1]
    assert (folders / "out" / "nbest.tsv").read_bytes() == before
    # With the network alone, and a length that costs, the most probable words.
    (folders / "weights.json").write_text('{"weights": {"network": 1, "model": 0, "length": 0}}')
    call(folders, *models, "--weights", folders / "weights.json", folders / "network")
    first = [line for line in read_nbest(folders / "network" / "nbest.tsv") if line.rank == 1]
    assert first[1].subwords == "w11 w12"
    scores = [line.features["network"] for line in read_nbest(folders / "network" / "nbest.tsv") if line.sentence == 0]
    assert scores == sorted(scores, reverse=True)


def test_the_record_says_which_texts_training_pairs_were_like(folders: Path) -> None:
    of_list, of_model = ({"file": name, "sha256": name * 64} for name in "ab")
    select_on(folders / "valid", of_list)
    select_on(folders / "b.pt", of_model)
    call(folders, "--models", f"{folders / 'a.pt'}:{folders / 'b.pt'}", folders / "out")
    assert json.loads((folders / "out" / "generate.json").read_text())["selected_on"] == [of_list, of_model]


def test_tags_are_compared_as_the_numbers_of_their_sentence(tmp_path: Path) -> None:
    data, right = number_folder(tmp_path / "data"), ["w7 <num> w9 w10 .", "w11 w12 w13 w14", "w7 <num> w9 w10 ."]
    nbest_folder(tmp_path / "valid", plain_lists(*([text] for text in right)))
    (tmp_path / "valid" / "src.de").write_text((data / "text" / "valid.raw.de").read_text())
    call(tmp_path, "--models", save_model(tmp_path / "a.pt"), tmp_path / "out")
    record = json.loads((tmp_path / "out" / "combine.json").read_text())
    assert record["bleu"] == {"first": [100], "combined": 100}
    assert (tmp_path / "out" / "hyp.tok.en").read_text() == (data / "text" / "valid.tok.en").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--models", "{0}/no.pt"], r"no\.pt: no such checkpoint"),
        (["--models", "{0}/back.pt"], r"^--models: .*back\.pt: must translate de to en, but translates en to de$"),
        (["--models", "{0}/r2l.pt"], "--models: must write left to right, as the search of a network does"),
        (["--models", "{0}/a.pt", "--paths", "11"], r"--paths must be at most --beam, 10, but is 11"),
        (["--models", "{0}/a.pt", "--model-weight", "nan"], "--model-weight: must be a finite number, but is nan"),
        (["--models", "{0}/a.pt", "--network-weight", "inf"], "--network-weight: must be a finite number, but is inf"),
        (["--models", "{0}/a.pt", "--length-weight=x"], "--length-weight: must be a finite number, but is x"),
        (
            ["--models", "{0}/short.pt"],
            "--models: a target must have at most the 3 positions of the model, but one has 5$",
        ),
        (["--models", "{0}/a.pt", "--beam", "0"], r"argument --beam: must be a whole number from 1 on, but is 0"),
        (
            ["--models", "{0}/a.pt", "--weights", "{0}/w", "--model-weight", "1"],
            "--model-weight cannot be combined with --weights, which has all of them",
        ),
        (["--models", "{0}/a.pt", "--weights", "{0}/w"], "must have a weight for each of network, model, length"),
        (["--models", "{0}/a.pt", "--weights", "{0}/mean"], "must be weights of sums here, but is of --per-token"),
    ],
)
def test_refusals(folders: Path, words: list[str], message: str) -> None:
    save_model(folders / "back.pt", languages=("en", "de"))
    save_model(folders / "r2l.pt", right_to_left=True)
    save_model(folders / "short.pt", decoder_learned_pos=True, max_target_positions=3)
    (folders / "w").write_text('{"weights": {"model": 1}}')
    (folders / "mean").write_text('{"weights": {"network": 1, "model": 0, "length": 0}, "per_token": true}')
    before = set(folders.iterdir())
    with pytest.raises(UserError, match=message):
        call(folders, *(word.format(folders) for word in words), folders / "out")
    assert set(folders.iterdir()) == before


def test_lists_without_scores_of_a_search(folders: Path) -> None:
    nbest_folder(folders / "merged", [[(text, {"length": 2.0}) for text, _ in found] for found in LISTS])
    (folders / "valid").rename(folders / "searched")
    (folders / "merged").rename(folders / "valid")
    with pytest.raises(UserError, match=r"valid/nbest\.tsv: must have the feature model, by which .*, but has length$"):
        call(folders, "--models", folders / "a.pt", folders / "out")
    assert not (folders / "out").exists()


def test_too_many_translations(folders: Path) -> None:
    texts = [" ".join(["w7"] * length) for length in range(1, 66)]
    nbest_folder(folders / "many", plain_lists(["w1"], texts, ["w2"]))
    (folders / "valid").rename(folders / "few")
    (folders / "many").rename(folders / "valid")
    with pytest.raises(UserError, match="at most 64 different translations, but sentence 1 has 65"):
        call(folders, "--models", folders / "a.pt", folders / "out")
