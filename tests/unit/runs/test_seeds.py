"""`deepnmt seeds`: steps that are done once, the paired bootstrap of means over seeds, and the table."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sacrebleu
from sacrebleu.significance import PairedTest

from deepnmt import cli
from deepnmt.checkpoints.averaging import LAST
from deepnmt.cli import seeds as command
from deepnmt.errors import UserError
from deepnmt.runs import seeds
from deepnmt.text.lines import whole_text

WORDS = ["the", "of", "a", "house", "red", "small", "runs", "fast", "today", "and"]


def corpus(seed: int, share: float, lines: int = 60) -> tuple[list[str], list[str]]:
    """References, and translations that have another word in a share of places."""
    draw = random.Random(1)
    references = [" ".join(draw.choices(WORDS, k=draw.randint(5, 12))) for _ in range(lines)]
    draw = random.Random(seed)
    worse = [
        " ".join(draw.choice(WORDS) if draw.random() < share else word for word in line.split()) for line in references
    ]
    return worse, references


def translated(
    folder: Path, texts: tuple[Sequence[str], Sequence[str]], *, raw: bool = True, score: float = 0.0
) -> Path:
    """A folder of translations, scored, of a training of an hour and a half in two starts."""
    folder.mkdir(parents=True)
    for kind in ("hyp", "ref"):
        lines = "".join(f"{line}\n" for line in texts[kind == "ref"])
        for name in (f"{kind}.tok.en", *([f"{kind}.en"] if raw else [])):
            (folder / name).write_text(lines, encoding="utf-8")
    (folder / "generate.json").write_text(json.dumps({"target_lang": "en", "lowercase": False}), encoding="utf-8")
    scores = {"tokenised BLEU": {"score": 1.0}, **({"BLEU": {"score": score}} if raw else {})}
    (folder / "scores.json").write_text(json.dumps(scores), encoding="utf-8")
    (folder.parent / "core_seconds").write_text("3600.0\n1800.0\n", encoding="utf-8")
    return folder


def test_with_one_seed_the_bootstrap_is_sacrebleus(tmp_path: Path) -> None:
    first, references = corpus(2, 0.35)
    second, _ = corpus(3, 0.25)
    names = [("first", first), ("second", second)]
    _, found = PairedTest(names, {"BLEU": sacrebleu.BLEU()}, [references], test_type="bs", n_samples=1000)()
    right = found["BLEU"][1]
    folders = [translated(tmp_path / name / "test", (text, references)) for name, text in names]
    statistics = [seeds.statistics_of(folder)[None] for folder in folders]
    difference, p = seeds.bootstrap(*statistics)
    assert difference == pytest.approx(right.score - found["BLEU"][0].score, abs=1e-6)
    assert p == right.p_value
    assert 0.01 < p < 0.3


def test_the_bootstrap_compares_means_over_seeds() -> None:
    def statistics(*texts: tuple[list[str], list[str]]) -> np.ndarray:
        counted = seeds.BleuStatistics("13a", False)
        return np.array([[counted(*pair) for pair in zip(*text)] for text in texts])

    worse = [corpus(seed, 0.5) for seed in (2, 3)]
    better = [corpus(seed, 0.2) for seed in (4, 5, 6)]
    means = [
        np.mean([sacrebleu.corpus_bleu(text, [references]).score for text, references in side])
        for side in (worse, better)
    ]
    difference, p = seeds.bootstrap(statistics(*worse), statistics(*better), samples=99)
    assert difference == pytest.approx(means[1] - means[0], abs=1e-6)
    assert p == pytest.approx(1 / 100)
    assert seeds.bootstrap(statistics(*worse), statistics(*worse), samples=9) == (0.0, pytest.approx(0.1))
    with pytest.raises(UserError, match=r"^translations must be of the same sentences, but are of 60 and 50$"):
        seeds.bootstrap(statistics(*worse), statistics(corpus(2, 0.5, 50)))


def test_tokens_are_compared_where_there_is_no_other_text(tmp_path: Path) -> None:
    texts = corpus(2, 0.3)
    plain, tokens = (translated(tmp_path / str(raw) / "test", texts, raw=raw, score=7.5) for raw in (True, False))
    # Words alone, so that both tokenisations agree.
    assert seeds.statistics_of(plain).tolist() == seeds.statistics_of(tokens).tolist()
    assert (seeds.score_of(plain), seeds.score_of(tokens)) == (7.5, 1.0)


def test_the_table_has_mean_deviation_and_core_hours(tmp_path: Path) -> None:
    texts, better = corpus(2, 0.4), corpus(3, 0.1)
    results = {
        "one": [
            translated(tmp_path / f"a{n}" / "test", texts, score=score) for n, score in enumerate((30.0, 32.0, 31.0))
        ],
        "two": [translated(tmp_path / "b" / "test", better, score=40.0)],
    }
    table = seeds.rows(results)
    head, first, second = (line.split() for line in seeds.shown(table).splitlines())
    assert head[:3] == ["recipe", "seeds", "mean"]
    # Variance ((-1)^2 + 1^2 + 0) / 2 = 1; three trainings of one and a half hours.
    assert first == ["one", "3", "31.00", "1.00", "-", "-", "4.50", "30.00", "32.00", "31.00"]
    assert second[:4] == ["two", "1", "40.00", "-"]
    assert float(second[4]) > 20
    assert second[5:] == ["0.001", "1.50", "40.00"]
    seeds.write(table, tmp_path / "test.json")
    assert json.loads((tmp_path / "test.json").read_text("utf-8"))["one"]["mean"] == 31.0


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The steps that are run; an average is its options and the last checkpoint."""
    done: list[str] = []

    def run_step(name: str, *words: Any) -> None:
        done.append(" ".join([name, *map(str, words)]))
        if name == "train":
            last = words[2] / LAST
            last.parent.mkdir(parents=True, exist_ok=True)
            if not last.exists():
                last.write_text("trained", encoding="utf-8")
        elif name == "average":
            words[1].write_text(f"{words[3]} {whole_text(words[0] / LAST)}", encoding="utf-8")
        elif name == "generate":
            shutil.rmtree(words[2], ignore_errors=True)
            words[2].mkdir()

    monkeypatch.setattr(seeds, "run_process", lambda line: 0)
    monkeypatch.setattr(seeds, "run_step", run_step)
    monkeypatch.setattr(seeds, "find_checkpoints", lambda folder: {1: folder / "checkpoint1.pt", 2: folder / LAST})
    return done


def test_what_was_translated_is_left_as_it_is(steps: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "my" / "seed2"
    folder.mkdir(parents=True)
    save = folder / "checkpoints"
    # There are two alone.
    begin = [f"train my.yaml data {save} --seed 2 --lr 1", f"average {save} {save}/average.pt --last 2"]

    def made(subset: str, last: int = 5) -> list[str]:
        del steps[:]
        found = seeds.train_and_translate(Path("my.yaml"), Path("data"), folder, 2, last, subset, ["--lr", "1"])
        assert found == folder / subset
        return steps[:]

    def translated(subset: str) -> list[str]:
        return [f"generate {save}/average.pt data {folder}/{subset} --subset {subset}", f"score {folder}/{subset}"]

    assert made("valid") == [*begin, *translated("valid")]
    assert made("valid") == begin
    assert made("test") == [*begin, *translated("test")]
    # Another average, and a training that went on.
    assert made("valid", 1)[1:] == [f"average {save} {save}/average.pt --last 1", *translated("valid")]
    assert made("valid", 1)[2:] == []
    (save / LAST).write_text("trained further", encoding="utf-8")
    assert made("valid", 1)[2:] == translated("valid")
    # Killed before the score.
    (folder / "valid" / "average.json").unlink()
    assert made("valid", 1)[2:] == translated("valid")
    assert len((folder / "core_seconds").read_text("utf-8").split()) == 7


def test_another_training_in_the_folder_ends_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seeds, "run_process", lambda line: 2)
    with pytest.raises(SystemExit, match=r"^2$"):
        seeds.train_and_translate(Path("my.yaml"), Path("data"), tmp_path, 1, 5, "test", [])


def test_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "my.yaml").touch()
    asked: list[tuple[object, ...]] = []

    def train(*given: object) -> Path:
        asked.append(given)
        name = f"{given[0].stem}{given[3]}"  # type: ignore[attr-defined]
        return translated(tmp_path / "made" / name / "valid", corpus(2, 0.3), score=12.0)

    monkeypatch.setattr(seeds, "train_and_translate", train)
    (tmp_path / "out").mkdir()
    words = [f"tiny,{tmp_path}/my.yaml", "data", f"{tmp_path}/out", "--seeds", "3,1", "--last=2", "--subset", "valid"]
    cli.call("seeds", [*words, "--max-update", "5"])
    out = tmp_path / "out"
    assert [given[1:] for given in asked] == [
        (Path("data"), out / name / f"seed{seed}", seed, 2, "valid", ["--max-update", "5"])
        for name in ("tiny", "my")
        for seed in (3, 1)
    ]
    assert (out / "valid.json").is_file()
    assert capsys.readouterr().out.splitlines()[2].split()[:3] == ["my", "2", "12.00"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tiny", "data", "out", "--seeds", "1,x"], "--seeds must be a whole number from 1 to 2147483647, but is 'x'"),
        (["tiny", "data", "out", "--seeds", "1,1"], "--seeds must be different numbers, but is '1,1'"),
        (["tiny,tiny", "data", "out"], "recipes must have different names, but 'tiny' stands 2 times"),
        (["tiny", "data", "out", "--seed=2"], "--seed cannot be used here: --seeds replaces it"),
        (["tiny", "data", "out", "--last", "0"], "--last must be a whole number from 1 to 1000000, but is '0'"),
    ],
)
def test_faulty_command_lines(words: list[str], message: str) -> None:
    with pytest.raises(UserError, match=f"^{message}$"):
        command.parse(words)
