"""`--competence`: equation (54), which pairs each epoch has and in which batches, and what is refused."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.distributed_runs import run, write_corpus
from support.restarts import train_until
from support.trainings import binarised_text

from deepnmt.data.curriculum import Curriculum
from deepnmt.data.difficulty import difficulties, ranks
from deepnmt.errors import UserError
from deepnmt.translation_task import DeepTranslationConfig, DeepTranslationTask

PAIRS = 40
OPTIONS = {"competence": "sqrt", "competence_updates": 10, "competence_every": 2, "competence_start": 0.3}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return binarised_text(tmp_path_factory.mktemp("text"))


def task(data: Path | str, **more: Any) -> DeepTranslationTask:
    fixed = {"dataset_impl": "mmap", "required_seq_len_multiple": 1, "seed": 1, "update_freq": [1], "data": str(data)}
    return DeepTranslationTask.setup_task(DeepTranslationConfig(**{**fixed, **OPTIONS, **more}))


def batches(
    made: DeepTranslationTask, epoch: int, shards: tuple[int, int] = (1, 0), max_tokens: int = 40
) -> list[list[int]]:
    """The numbers of the pairs in the batches of an epoch, in order."""
    if "train" not in made.datasets:
        made.load_dataset("train", combine=True)
    iterator = made.get_batch_iterator(
        made.dataset("train"), max_tokens=max_tokens, seed=1, epoch=epoch, num_shards=shards[0], shard_id=shards[1]
    )
    return [batch["id"].tolist() for batch in iterator.next_epoch_itr() if batch]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        # T = 100 and c0 = 0.2, at 0, 25, 50, 99 and 100 updates.
        ("sqrt", [0.2, math.sqrt(0.28), math.sqrt(0.52), math.sqrt(0.9904), 1.0]),
        ("linear", [0.2, 0.4, 0.6, 0.992, 1.0]),
    ],
)
def test_equation_54(kind: str, expected: list[float]) -> None:
    curriculum = Curriculum(kind, updates=100, start=0.2, every=25)
    assert [curriculum.competence(update) for update in (0, 25, 50, 99, 100)] == pytest.approx(expected)
    assert curriculum.competence(10_000) == 1
    assert [curriculum.in_epoch(epoch) for epoch in (1, 2, 3)] == pytest.approx(expected[:3])
    assert [curriculum.in_epoch(epoch) for epoch in (5, 6, 99)] == [1, 1, 1]


def lines(data: Path) -> list[list[str]]:
    return [line.split() for line in (data.parent / "train.a").read_text().splitlines()]


def test_difficulties_are_ranks_of_length_rarity_or_a_file(data: Path, tmp_path: Path) -> None:
    made = task(data)
    made.load_dataset("train", combine=True)
    pairs = made.dataset("train").dataset
    counts = Counter(word for line in lines(data) for word in line)
    surprise = {word: -math.log(count / sum(counts.values())) for word, count in counts.items()}
    numbers = np.random.default_rng(3).normal(size=PAIRS)
    (tmp_path / "numbers").write_text("score\n" + "".join(f"{number}\n" for number in numbers))
    for kind, scores in (
        ("length", [len(line) for line in lines(data)]),
        ("rarity", [sum(sorted(surprise[word] for word in line)) for line in lines(data)]),
        (str(tmp_path / "numbers"), list(numbers)),
    ):
        expected = [sum(other <= score + 1e-9 for other in scores) / PAIRS for score in scores]
        assert difficulties(kind, pairs).tolist() == pytest.approx(expected)
    assert ranks([3, 1, 3, 2]).tolist() == [1, 0.25, 1, 0.5]


@pytest.mark.parametrize("kind", ["sqrt", "linear"])
def test_batches_have_easy_pairs_alone_and_epochs_a_fixed_number_of_updates(kind: str, data: Path) -> None:
    made = task(data, competence=kind)
    lengths = [len(line) for line in lines(data)]
    hardness = [sum(other <= length for other in lengths) / PAIRS for length in lengths]
    for epoch in range(1, 8):
        found = batches(made, epoch)
        share = (epoch - 1) * 2 / 10
        competence = math.sqrt(share * (1 - 0.09) + 0.09) if kind == "sqrt" else share * 0.7 + 0.3
        easy = {number for number in range(PAIRS) if hardness[number] <= min(1.0, competence)}
        seen = [number for batch in found for number in batch]
        assert set(seen) <= easy
        if epoch <= 5:
            assert len(found) == 2
        else:
            assert sorted(seen) == sorted(easy) == list(range(PAIRS))
    # Of few easy pairs, each occurs again only after all others.
    longer = Counter(number for batch in batches(task(data, competence_every=30), 1) for number in batch)
    assert longer.keys() == {number for number in range(PAIRS) if hardness[number] <= 0.3}
    assert max(longer.values()) - min(longer.values()) <= 1


def test_batches_are_the_same_after_a_restart_and_for_1_2_and_4_processes(data: Path) -> None:
    made = task(data, update_freq=[4])
    plain = [batches(made, epoch) for epoch in (1, 2, 3, 7)]
    assert [batches(task(data, update_freq=[4]), epoch) for epoch in (1, 2, 3, 7)] == plain
    assert [len(each) for each in plain[:3]] == [8, 8, 8]
    for processes in (2, 4):
        for epoch, whole in zip((1, 2, 3, 7), plain):
            shards = [task(data, update_freq=[4 // processes]) for _ in range(processes)]
            parts = [batches(each, epoch, (processes, rank)) for rank, each in enumerate(shards)]
            # fairseq deals the batches out in turn.
            assert [part[n // processes] for n in range(len(whole)) for part in [parts[n % processes]]] == whole


def test_update_freq_of_later_epochs_counts(data: Path) -> None:
    made = task(data, update_freq=[1, 3])
    assert [len(batches(made, epoch)) for epoch in (1, 2, 3)] == [2, 6, 6]


def test_by_default_a_curriculum_has_twenty_epochs(data: Path) -> None:
    made = task(data, competence_updates=61, competence_every=None)
    assert [len(batches(made, epoch)) for epoch in (1, 15, 16)] == [4, 4, 4]
    assert len(batches(made, 17)) > 4


REFUSED = [
    ({"competence_updates": 0}, "--competence-updates must be at least 1 and at most 2147483647, but is 0"),
    ({"competence_updates": None}, "--competence-updates must be given with --competence, but is not"),
    ({"competence_start": 0.0}, "--competence-start must be above 0 and below 1, but is 0.0"),
    ({"competence_start": 1.0}, "--competence-start must be above 0 and below 1, but is 1.0"),
    ({"competence_every": 0}, "--competence-every must be at least 1 and at most 2147483647, but is 0"),
    ({"batch_order": "random"}, "--competence cannot be combined with --batch-order"),
    ({"sample_share": 0.5}, "--competence cannot be combined with --sample-share"),
    (
        {"competence": "none", "competence_start": 0.01, "difficulty": "rarity"},
        "--competence-updates needs --competence\n--competence-every needs --competence\n--difficulty needs",
    ),
    ({"competence": "none", "competence_start": 0.3}, "--competence-start needs --competence"),
]


@pytest.mark.parametrize(("options", "message"), REFUSED)
def test_options_that_do_not_fit_are_refused(data: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        task(data, **options)


def test_all_faults_are_told_at_once_before_anything_is_built(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ["--task=deep_translation", "--competence=linear", "--competence-start=2", "--curriculum=1"]
    options += ["--skip-remainder-batch", "--max-tokens=40", "--max-update=1"]
    with pytest.raises(UserError, match=r"^--competence-start must be above 0") as error:
        train_until(monkeypatch, [str(data)], tmp_path / "save", *options)
    assert str(error.value).splitlines() == [
        "--competence-start must be above 0 and below 1, but is 2.0",
        "--competence-updates must be given with --competence, but is not",
        "--competence cannot be combined with --curriculum",
        "--competence cannot be combined with --skip-remainder-batch",
    ]


def test_files_and_shares_that_do_not_fit_are_refused(data: Path, tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    with pytest.raises(UserError, match=r"^--difficulty must be length, rarity or a file, but is '.*numbers'$"):
        task(data, difficulty=str(path))
    path.write_text("1\n" * 39)
    with pytest.raises(UserError, match=r"numbers: must have a number for each of the 40 training pairs, but has 39$"):
        batches(task(data, difficulty=str(path)), 1)
    path.write_text("1\nnan\n" * 20)
    with pytest.raises(UserError, match=r"numbers:2: must be a finite number, but is 'nan'$"):
        batches(task(data, difficulty=str(path)), 1)
    with pytest.raises(UserError, match=r"^--difficulty must be length or rarity with several data folders, but is a"):
        batches(task(f"{data}:{data}", difficulty=str(path)), 1)
    for start, left in ((0.01, 0), (0.3, 7)):
        message = rf"^--competence-start must leave enough .* but is {start}, which leaves {left} of 40 in epoch 1$"
        with pytest.raises(UserError, match=message):
            batches(task(data, competence_start=start), 1, max_tokens=1000)


def test_a_training_killed_within_an_epoch_of_the_curriculum_resumes_bit_for_bit(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[int, list[int]] = {}
    step = DeepTranslationTask.train_step

    def train_step(self: Any, sample: Any, *others: Any, update_num: int, **more: Any) -> Any:
        numbers = sample["id"].tolist()
        assert seen.setdefault(update_num, numbers) == numbers
        return step(self, sample, *others, update_num=update_num, **more)

    monkeypatch.setattr(DeepTranslationTask, "train_step", train_step)
    options = ["--task=deep_translation", "--competence=sqrt", "--competence-updates=8", "--competence-every=4"]
    options += ["--competence-start=0.3", "--difficulty=rarity", "--max-tokens=40", "--max-update=11"]
    options += ["--save-interval-updates=2", "--disable-validation", "--share-all-embeddings"]
    whole = train_until(monkeypatch, [str(data)], tmp_path / "whole", *options)
    train_until(monkeypatch, [str(data)], tmp_path / "parts", *options, killed_at=7)
    rest = train_until(monkeypatch, [str(data)], tmp_path / "parts", *options)
    # The checkpoint after six updates is in the middle of the second epoch.
    assert (whole, rest) == (list(range(11)), list(range(6, 11)))
    models = [
        torch.load(tmp_path / name / "checkpoint_last.pt", weights_only=False)["model"] for name in ("whole", "parts")
    ]
    assert all(torch.equal(values, models[1][name]) for name, values in models[0].items())


@pytest.mark.slow
def test_trainings_on_1_2_and_4_processes_agree(tmp_path: Path) -> None:
    data = write_corpus(tmp_path / "data")
    options = ["--task", "deep_translation", "--competence", "sqrt", "--competence-updates", "8"]
    options += ["--competence-every", "2", "--competence-start", "0.5", "--max-update", "12"]
    trained = [run(options, processes, data, tmp_path / str(processes), batches=4) for processes in (1, 2, 4)]
    for other in trained[1:]:
        for name, values in trained[0].items():
            torch.testing.assert_close(values, other[name], rtol=1e-4, atol=1e-5)
