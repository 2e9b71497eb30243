"""`--mono`: which sentence stands beside which pair, and what is refused."""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.substitution import SOURCE, TARGET, monolingual, sentences, substitution_data, write_lines

import deepnmt
from deepnmt.data.companions import MONO, Companions
from deepnmt.errors import UserError


class Pairs(list[dict[str, Any]]):
    """In place of fairseq's data set."""

    can_reuse_epoch_itr_across_epochs = True

    def __init__(self, lengths: list[int]) -> None:
        super().__init__({"id": number} for number in range(len(lengths)))

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def collater(self, samples: list[dict[str, Any]]) -> dict[str, Any]:
        return {"id": torch.tensor([each["id"] for each in samples])} if samples else {}


class Text:
    def __init__(self, sizes: list[int]) -> None:
        self.sizes = np.array(sizes)

    def __getitem__(self, number: int) -> torch.Tensor:
        return torch.full((int(self.sizes[number]),), 10 + number)


def companions(pairs: list[int], text: list[int], seed: int = 1) -> Companions:
    return Companions(Pairs(pairs), {"target": Text(text)}, {"target": np.array(pairs)}, 1, seed)


@pytest.mark.parametrize(("pairs", "text"), [(7, 7), (7, 20), (7, 3), (5, 15)])
def test_each_sentence_has_its_turn_beside_a_pair_of_its_length(pairs: int, text: int) -> None:
    draw = np.random.default_rng(5)
    lengths, sizes = (draw.integers(1, 30, number).tolist() for number in (pairs, text))
    made = companions(lengths, sizes)
    epochs = math.ceil(text / pairs)
    seen: set[int] = set()
    by_length = sorted(sizes)
    for epoch in range(1, epochs + 1):
        made.set_epoch(epoch)
        assert made.dataset.epoch == epoch
        chosen = [made.companion("target", pair) for pair in range(pairs)]
        seen.update(chosen)
        for rank, pair in enumerate(sorted(range(pairs), key=lambda pair: made.ranks["target"][pair])):
            assert sizes[chosen[pair]] == by_length[min(rank * text // pairs + epoch - 1, text - 1)]
        # From short to long, as the pairs are.
        assert [sizes[each] for each in sorted(chosen, key=lambda each: sizes[each])] == sorted(
            sizes[c] for c in chosen
        )
    assert seen == set(range(text))
    made.set_epoch(epochs + 1)
    again = [made.companion("target", pair) for pair in range(pairs)]
    made.set_epoch(1)
    assert again == [made.companion("target", pair) for pair in range(pairs)]


def test_the_order_among_equal_lengths_is_the_seeds() -> None:
    def chosen(seed: int) -> list[int]:
        made = companions([4] * 12, [6] * 12, seed)
        return [made.companion("target", pair) for pair in range(12)]

    assert chosen(1) == chosen(1) != chosen(2)
    assert sorted(chosen(2)) == list(range(12))


def test_batches_have_the_companions_of_their_pairs() -> None:
    made = companions([1, 2, 3], [5, 2, 3])
    batch = made.collater([made[2], made[0]])
    assert batch["id"].tolist() == [2, 0]
    assert batch[MONO]["target"].tolist() == [[10] * 5, [11] * 2 + [1] * 3]
    assert made.collater([]) == {}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """Data, and text in each of its languages."""
    folder = tmp_path_factory.mktemp("mono")
    data = substitution_data(folder / "data")
    lines = sentences(90, seed=8)
    return data, monolingual(folder, data, SOURCE, lines, []), monolingual(folder, data, TARGET, lines, [])


def task(data: Path, mono: str) -> Any:
    deepnmt.register()
    from deepnmt.translation_task import DeepTranslationConfig, DeepTranslationTask

    config = DeepTranslationConfig(
        data=str(data),
        source_lang=SOURCE,
        target_lang=TARGET,
        train_subset="train",
        dataset_impl="mmap",
        required_seq_len_multiple=1,
        mono=mono,
        seed=1,
    )
    return DeepTranslationTask.setup_task(config)


def test_text_of_the_target_is_read(folders: tuple[Path, Path, Path]) -> None:
    data, of_source, of_target = folders
    with pytest.raises(UserError, match=rf"^--mono must have text in {TARGET}, but has {SOURCE}, {TARGET}$"):
        task(data, f"{of_source}:{of_target}").load_dataset("train", combine=True)
    made = task(data, str(of_target))
    made.load_dataset("train", combine=True)
    made.load_dataset("valid", combine=False)
    dataset = made.dataset("train")
    assert not hasattr(made.dataset("valid"), "texts")
    assert list(dataset.texts) == ["target"]
    lines = [line.split() for line in (of_target / "text" / f"mono.bpe.{TARGET}").read_text("utf-8").splitlines()]
    longest = int(max(dataset.dataset.src_sizes.max(), dataset.dataset.tgt_sizes.max()))
    kept = [line for line in lines if len(line) + 1 <= longest]
    text = dataset.texts["target"]
    assert 0 < len(text) == len(kept) < len(lines)
    for number, line in enumerate(kept):
        assert made.tgt_dict.string(text[number]).split() == line
    dataset.set_epoch(1)
    batch = dataset.collater([dataset[number] for number in (3, 9)])
    assert batch[MONO]["target"].shape[0] == 2
    assert batch["net_input"]["src_tokens"].shape[0] == 2


def test_faulty_text_is_refused(folders: tuple[Path, Path, Path], tmp_path: Path) -> None:
    data, of_source, of_target = folders
    other = shutil.copytree(of_target, tmp_path / "other")
    lines = (other / f"dict.{TARGET}.txt").read_text("utf-8").splitlines()
    write_lines(other / f"dict.{TARGET}.txt", lines[::-1])
    long = shutil.copytree(of_target, tmp_path / "long")
    for ending in ("idx", "bin"):
        for path in long.glob(f"mono.*.{ending}"):
            path.unlink()
    (tmp_path / "empty").mkdir()
    for mono, message in (
        (tmp_path / "none", r"^--mono: data folder '.*none' not found$"),
        (tmp_path / "empty", r"^--mono: .*empty has no text such as mono\.de-en\.en\.idx \(deepnmt binarise --mono\)$"),
        (long, r"^--mono: .*long has no text such as"),
        (f"{of_target}:{of_target}", r"^--mono: must have one text of a language, but has several of en$"),
        (of_source, r"^--mono must have text in en, but has de$"),
        (other, r"other/dict\.en\.txt: must be the dictionary of .*data, but is another; use deepnmt binarise --like"),
    ):
        with pytest.raises(UserError, match=message):
            task(data, str(mono)).load_dataset("train", combine=True)
    made = task(data, str(of_target))
    made.cfg.max_source_positions = 2
    with pytest.raises(UserError, match=r"mono\.de-en\.en: must have a sentence of at most 2 tokens, the longest of"):
        made.load_dataset("train", combine=True)
