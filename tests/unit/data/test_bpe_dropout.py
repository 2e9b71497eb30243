"""`--bpe-dropout`: which text each epoch has, in which batches, and what is refused."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from subword_nmt.apply_bpe import BPE
from support.cut_data import cut_folder
from support.restarts import train_until

from deepnmt.data.merge_walks import MergeWalks
from deepnmt.data.recut_text import RecutText
from deepnmt.errors import UserError
from deepnmt.translation_task import DeepTranslationConfig, DeepTranslationTask

Batches = list[tuple[list[int], list[list[int]], list[list[int]]]]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return cut_folder(tmp_path_factory.mktemp("cut") / "data")


def task(data: Path, rate: float, **more: Any) -> DeepTranslationTask:
    options = {"source_lang": "de", "target_lang": "en", "dataset_impl": "mmap", "required_seq_len_multiple": 1, **more}
    return DeepTranslationTask.setup_task(DeepTranslationConfig(data=str(data), bpe_dropout=rate, seed=1, **options))


def batches(made: DeepTranslationTask, epoch: int, shards: tuple[int, int] = (1, 0), workers: int = 0) -> Batches:
    """What a process is given in an epoch: numbers, sources and targets of each batch."""
    if "train" not in made.datasets:
        made.load_dataset("train", combine=True)
    iterator = made.get_batch_iterator(
        made.dataset("train"), max_tokens=60, seed=1, epoch=epoch, num_workers=workers,
        num_shards=shards[0], shard_id=shards[1],
    )  # fmt: skip
    found = iterator.next_epoch_itr()
    made_batches = [
        (batch["id"].tolist(), batch["net_input"]["src_tokens"].tolist(), batch["target"].tolist())
        for batch in found
        if batch
    ]
    if workers:
        # Collected as garbage, each would be waited for for five seconds.
        found._itr._shutdown_workers()
    return made_batches


def by_number(made: Batches) -> list[list[list[int]]]:
    """The sources of batches and the targets, in the order of the text and without padding."""
    pairs = sorted((number, *pair) for ids, *sides in made for number, *pair in zip(ids, *sides))
    return [[[token for token in side if token != 1] for side in sides] for sides in list(zip(*pairs))[1:]]


def sizes_in(made: DeepTranslationTask, epoch: int) -> Any:
    """Pieces of the sources and targets in an epoch."""
    if "train" not in made.datasets:
        made.load_dataset("train", combine=True)
    made.dataset("train").set_epoch(epoch)
    return made.dataset("train").sizes


def words(made: DeepTranslationTask, tokens: list[int]) -> str:
    return str(made.src_dict.string([token for token in tokens if token != made.src_dict.pad()], "@@ "))


def test_each_epoch_has_other_cuts_of_the_same_words(data: Path) -> None:
    plain, cut = task(data, 0), task(data, 0.3)
    stock = {number: source for ids, sources, _ in batches(plain, 1) for number, source in zip(ids, sources)}
    seen = []
    for epoch in (1, 2, 3):
        made = batches(cut, epoch)
        assert sorted(number for ids, _, _ in made for number in ids) == list(range(60))
        for ids, *sides in made:
            assert len(ids) * max(len(side[0]) for side in sides) <= 60
        for ids, sources, _ in made:
            for number, source in zip(ids, sources):
                assert words(cut, source) == words(plain, stock[number])
        seen.append(by_number(made))
    for number in range(2):
        same = [one == other for side in zip(*seen[number : number + 2]) for one, other in zip(*side)]
        assert len(same) == 120
        assert 0 < sum(same) < 60
    sizes = cut.dataset("train").sizes
    assert sizes.sum() > plain.dataset("train").sizes.sum()
    assert sizes.tolist() == [[len(pair["source"]), len(pair["target"])] for pair in cut.dataset("train").dataset]


@pytest.mark.parametrize("side", [0, 1])
def test_one_side_alone(data: Path, side: int) -> None:
    made, whole = task(data, 0.3, bpe_dropout_side=("source", "target")[side]), task(data, 0.3)
    plain = by_number(batches(task(data, 0), 1))
    for epoch in (1, 2):
        both = by_number(batches(whole, epoch))
        found = by_number(batches(made, epoch))
        # This side is cut as in both, the other as the text comes.
        assert found[side] == both[side] != plain[side]
        assert found[1 - side] == plain[1 - side] != both[1 - side]
    pairs = made.dataset("train").dataset
    assert made.dataset("train").sizes.tolist() == [[len(pair["source"]), len(pair["target"])] for pair in pairs]


@pytest.mark.parametrize("rate", [0.05, 0.3])
def test_text_is_cut_as_often_as_subword_nmt_cuts_it(data: Path, rate: float, monkeypatch: pytest.MonkeyPatch) -> None:
    made = task(data, rate)
    whole = [line for side in by_number(batches(task(data, 0), 1)) for line in side]
    with (data / "codes").open(encoding="utf-8") as codes:
        bpe = BPE(codes)
    monkeypatch.setattr("random.random", random.Random(5).random)
    texts = [made.src_dict.string(line, "@@ ") for line in whole]
    pieces = sum(len(line) - 1 for line in whole)
    # Pieces that an epoch has more; with end symbols in the sizes.
    expected = sum(len(bpe.segment(text, dropout=rate).split()) for text in texts for _ in range(40)) / 40 - pieces
    found = sum(int(sizes_in(made, epoch).sum()) - len(whole) for epoch in range(1, 41)) / 40 - pieces
    assert found == pytest.approx(expected, rel=0.1)


def test_rate_0_is_the_plain_task(data: Path) -> None:
    made = task(data, 0)
    first, third = batches(made, 1), batches(made, 3)
    assert type(made.dataset("train")).__name__ == "LanguagePairDataset"
    assert sorted(map(str, first)) == sorted(map(str, third))


def test_batches_are_the_same_in_other_processes(data: Path) -> None:
    whole = batches(task(data, 0.2), 2)
    # As after a restart: epoch 2 is the first that the process sees.
    for workers in (1, 2, 4):
        assert batches(task(data, 0.2), 2, workers=workers) == whole
    resumed = task(data, 0.2)
    batches(resumed, 1)
    assert batches(resumed, 2) == whole
    parts = [batches(task(data, 0.2), 2, (2, rank)) for rank in (0, 1)]
    assert sorted(map(str, [*parts[0], *parts[1]])) == sorted(map(str, whole))


def test_a_killed_training_sees_the_same_text(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[int, Any] = {}
    step = DeepTranslationTask.train_step

    def train_step(self: Any, sample: Any, *others: Any, update_num: int, **more: Any) -> Any:
        tokens = sample["net_input"]["src_tokens"].tolist(), sample["target"].tolist()
        assert seen.setdefault(update_num, tokens) == tokens
        return step(self, sample, *others, update_num=update_num, **more)

    monkeypatch.setattr(DeepTranslationTask, "train_step", train_step)
    options = ["--task=deep_translation", "--bpe-dropout=0.2", "--max-tokens=150", "--max-update=12"]
    options += ["--save-interval-updates=5", "--disable-validation", "--share-all-embeddings"]
    whole = train_until(monkeypatch, [str(data)], tmp_path / "whole", *options)
    first = train_until(monkeypatch, [str(data)], tmp_path / "parts", *options, killed_at=11)
    rest = train_until(monkeypatch, [str(data)], tmp_path / "parts", *options)
    assert (whole[-1], first[-1], rest[0], rest[-1]) == (11, 10, 10, 11)
    assert len(set(map(str, seen.values()))) == 12


def walks(ranks: dict[tuple[str, str], int], types: list[str], rate: float) -> MergeWalks:
    return MergeWalks(ranks, {name: number for number, name in enumerate(types)}, rate)


def test_words_that_must_keep_their_cut() -> None:
    types = ["<s>", "<pad>", "</s>", "<unk>", "ab", "a@@", "b", "<BT>", "b@@", "c"]
    ranks = {("a", "b</w>"): 0, ("b", "c</w>"): 1, ("<", "B"): 2}
    # `bc` would leave `bc`, which the dictionary lacks; `a@@ b` was cut by other merges.
    lines = [[7, 4, 2], [3, 4, 2], [8, 9, 2], [5, 6, 2], *[[4, 4, 4, 2]] * 20]
    text = RecutText(lines, types, walks(ranks, types, 0.999), 4)
    assert [text[line].tolist() for line in range(len(lines))] == lines
    text.cut((1,))
    assert [text[line].tolist() for line in (0, 1)] == [[7, 5, 6, 2], [3, 5, 6, 2]]
    assert [text[line].tolist() for line in (2, 3)] == [[8, 9, 2], [5, 6, 2]]
    # Six pieces would be more than the four that a sentence may have.
    assert all(text[line].tolist() == [4, 4, 4, 2] for line in range(4, 24))
    assert text.kept == 0


def test_a_piece_that_the_dictionary_lacks_is_not_left() -> None:
    types = ["<s>", "<pad>", "</s>", "<unk>", "abc", "a@@", "b@@", "c"]
    text = RecutText([[4, 2]] * 400, types, walks({("a", "b"): 0, ("ab", "c</w>"): 1}, types, 0.5), 99)
    text.cut((3,))
    cuts = [tuple(text[line]) for line in range(400)]
    assert set(cuts) == {(4, 2), (5, 6, 7, 2)}
    # `ab@@ c` is left with probability 1/2 * 1/2, and the word is then kept whole.
    assert abs(text.kept - 100) < 40
    assert abs(cuts.count((4, 2)) - 200) < 50


def test_states_are_forgotten_without_a_trace(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def texts() -> list[Any]:
        made = task(data, 0.3)
        return [batches(made, epoch) for epoch in (1, 2)]

    whole = texts()
    monkeypatch.setattr("deepnmt.data.recut_text.MOST_STATES", 10)
    monkeypatch.setattr("deepnmt.data.recut_text.BLOCK", 7)
    assert texts() == whole


@pytest.mark.parametrize("rate", [-0.1, 1.0, float("nan")])
def test_rates_out_of_range_are_refused(data: Path, rate: float) -> None:
    with pytest.raises(UserError, match=f"^--bpe-dropout must be at least 0 and below 1, but is {rate}$"):
        task(data, rate)


def test_a_side_without_a_rate_is_refused(data: Path) -> None:
    with pytest.raises(UserError, match=r"^--bpe-dropout-side needs --bpe-dropout or --unigram-sampling$"):
        task(data, 0, bpe_dropout_side="source")


@pytest.mark.parametrize("option", ["truncate_source", "load_alignments"])
def test_options_that_need_one_cut_are_refused(data: Path, option: str) -> None:
    with pytest.raises(UserError, match=f"--{option.replace('_', '-')} cannot be combined with --bpe-dropout"):
        task(data, 0.1, **{option: True})


def test_faulty_data_are_refused(tmp_path: Path) -> None:
    data = cut_folder(tmp_path / "data")

    def load() -> None:
        task(data, 0.1).load_dataset("train", combine=True)

    (data / "preprocess.json").write_text(json.dumps({"copies": 3, "bpe_dropout": 0.1}))
    with pytest.raises(
        UserError, match=r"cannot be combined with .*data, which was made by deepnmt preprocess --copies"
    ):
        load()
    (data / "preprocess.json").unlink()
    codes = (data / "codes").read_text().splitlines()
    (data / "codes").write_text("\n".join([codes[0], "x y"]) + "\n")
    with pytest.raises(UserError, match=r"codes of DATA must match its training text, but \d\d% of its words are"):
        load()
    (data / "codes").unlink()
    with pytest.raises(UserError, match=r"--bpe-dropout: .*data lacks the file codes of deepnmt preprocess"):
        load()
    # Of a side that is not cut, nothing is needed.
    codes = [f"{word}\n" for word in codes]
    (data / "codes.de").write_text("".join(codes))
    task(data, 0.1, bpe_dropout_side="source").load_dataset("train", combine=True)
    with pytest.raises(UserError, match=r"--bpe-dropout: .*data lacks the file codes of deepnmt preprocess"):
        task(data, 0.1, bpe_dropout_side="target").load_dataset("train", combine=True)
    # Of several folders all, before those of later epochs are read.
    with pytest.raises(UserError, match=r"--bpe-dropout: .*data lacks the file codes of deepnmt preprocess"):
        task(f"{cut_folder(tmp_path / 'sound')}:{data}", 0.1).load_dataset("train", combine=True)
    # Only training text is cut anew.
    task(data, 0.1).load_dataset("valid")
