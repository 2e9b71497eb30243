"""`deepnmt seeds`: steps that are done once, the paired bootstrap of means over seeds, and the table."""

from __future__ import annotations

import json
import math
import random
import shutil
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import sacrebleu
import torch
from sacrebleu.significance import PairedTest
from support.checkpoints import checkpoint
from support.data_folders import change_record, data_folder

from deepnmt import cli
from deepnmt.checkpoints.averaging import LAST
from deepnmt.cli import seeds as command
from deepnmt.errors import UserError
from deepnmt.runs import seeds
from deepnmt.text.corpus_scores import score_result
from deepnmt.text.lines import whole_text

WORDS = ["the", "of", "a", "house", "red", "small", "runs", "fast", "today", "and"]
Texts = tuple[Sequence[str], Sequence[str]]


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
    folder: Path, texts: Texts, *, raw: bool = True, language: str = "en", seconds: float = 5400.0, **record: Any
) -> Path:
    """A folder of translations, scored, of a training of an hour and a half."""
    result = folder / "update7.last2" / "test"
    result.mkdir(parents=True)
    for kind in ("hyp", "ref"):
        lines = "".join(f"{line}\n" for line in texts[kind == "ref"])
        for name in (f"{kind}.tok.{language}", *([f"{kind}.{language}"] if raw else [])):
            (result / name).write_text(lines, encoding="utf-8")
    facts = {"target_lang": language, "lowercase": False, **record}
    (result / "generate.json").write_text(json.dumps(facts), encoding="utf-8")
    score_result(result)
    trained(folder / "checkpoints", {"processor_seconds": seconds})
    return result


def trained(save: Path, more: dict[str, Any], name: str = LAST, updates: int = 7) -> None:
    """A checkpoint of a training."""
    save.mkdir(exist_ok=True)
    state = checkpoint()
    history = [{**state["optimizer_history"][0], "num_updates": updates}]
    torch.save({**state, "optimizer_history": history, "extra_state": {**state["extra_state"], **more}}, save / name)


def test_with_one_seed_the_bootstrap_is_sacrebleus(tmp_path: Path) -> None:
    first, references = corpus(2, 0.35)
    second, _ = corpus(3, 0.25)
    names = [("first", first), ("second", second)]
    _, found = PairedTest(names, {"BLEU": sacrebleu.BLEU()}, [references], test_type="bs", n_samples=1000)()
    right = found["BLEU"][1]
    folders = [translated(tmp_path / name, (text, references)) for name, text in names]
    difference, p = seeds.bootstrap(*(seeds.Scored.of([folder]) for folder in folders))
    assert difference == pytest.approx(right.score - found["BLEU"][0].score, abs=1e-6)
    assert p == right.p_value
    assert 0.01 < p < 0.3


def test_the_bootstrap_compares_means_over_seeds(tmp_path: Path) -> None:
    sides = [[corpus(seed, 0.5) for seed in (2, 3)], [corpus(seed, 0.2) for seed in (4, 5, 6)]]
    means = [np.mean([sacrebleu.corpus_bleu(text, [references]).score for text, references in side]) for side in sides]
    worse, better = (
        seeds.Scored.of([translated(tmp_path / f"{side}{n}", texts) for n, texts in enumerate(corpora)])
        for side, corpora in enumerate(sides)
    )
    difference, p = seeds.bootstrap(worse, better, samples=99)
    assert difference == pytest.approx(means[1] - means[0], abs=1e-6)
    assert p == pytest.approx(1 / 100)
    # No sample tells equal translations apart.
    assert seeds.bootstrap(worse, worse, samples=9) == (0.0, 1.0)


def test_translations_of_other_sentences_are_not_compared(tmp_path: Path) -> None:
    one, other = (translated(tmp_path / str(n), corpus(2, 0.5, n)) for n in (60, 50))
    with pytest.raises(UserError, match=r"^translations of both recipes must have the same references, but have oth"):
        seeds.bootstrap(seeds.Scored.of([one]), seeds.Scored.of([other]))
    with pytest.raises(UserError, match=f"^{other}: must have the references of all other translations, but has "):
        seeds.Scored.of([one, other])


def test_bleu_is_that_of_the_scores_beside_it(tmp_path: Path) -> None:
    """Turkish lower case has two letters i; tokens are not smoothed: without a common 4-gram, their BLEU is 0."""
    turkish = ["ışık var ve iki kişi geldi"], ["Işık var ve İki kişi geldi"]
    cases = {
        "turkish": (translated(tmp_path / "tr", turkish, language="tr", lowercase=True, language_case=True), 100.0),
        "tokens": (translated(tmp_path / "tok", (["a b c x d e f"], ["a b c y d e f"]), raw=False), 0.0),
        "smoothed": (translated(tmp_path / "raw", (["a b c x d e f"], ["a b c y d e f"])), None),
    }
    for folder, score in cases.values():
        scores = json.loads((folder / "scores.json").read_text("utf-8"))
        said = scores.get("BLEU", scores["tokenised BLEU"])["score"]
        assert [round(each, 2) for each in seeds.Scored.of([folder]).bleu()] == [said]
        assert seeds.scores(folder.parents[1]) == {"test": said}
        assert score is None or said == score
    # 6 of 7, 4 of 6, 2 of 5, and half a match of 4.
    smoothed = 100 * (6 / 7 * 4 / 6 * 2 / 5 * 0.5 / 4) ** 0.25
    assert seeds.Scored.of([cases["smoothed"][0]]).bleu() == [pytest.approx(smoothed)]


def test_the_table_has_mean_deviation_and_core_hours(tmp_path: Path) -> None:
    # One word of ten is wrong in a sentence of each: BLEU of 1, 2 and 3 such sentences of 4.
    line, wrong = "a b c d e f g h i j", "a b c d e f g h i x"
    references = [line] * 4
    results = {
        "one": [translated(tmp_path / f"a{n}", ([wrong] * n + [line] * (4 - n), references)) for n in (1, 2, 3)],
        "two": [translated(tmp_path / "b", (references, references))],
    }

    def bleu(n: int) -> float:
        return 100 * math.prod((4 * all_ - n) / (4 * all_) for all_ in (10, 9, 8, 7)) ** 0.25

    scores = [bleu(n) for n in (1, 2, 3)]
    mean = sum(scores) / 3
    deviation = math.sqrt(sum((score - mean) ** 2 for score in scores) / 2)
    table = seeds.rows(results)
    head, first, second = (line.split() for line in seeds.shown(table).splitlines())
    assert head[:3] == ["recipe", "seeds", "mean"]
    # Three trainings of one and a half hours.
    each = [f"{score:.2f}" for score in scores]
    assert first == ["one", "3", f"{mean:.2f}", f"{deviation:.2f}", "-", "-", "4.50", *each]
    assert second[:5] == ["two", "1", "100.00", "-", f"{100 - mean:+.2f}"]
    assert 0 < float(second[5]) < 0.2
    assert second[6:] == ["1.50", "100.00"]
    seeds.write(table, tmp_path / "test.json")
    assert json.loads((tmp_path / "test.json").read_text("utf-8"))["one"]["mean"] == pytest.approx(mean)
    assert seeds.read(tmp_path / "test.json") == table


def test_all_recipes_are_compared_with_the_first(tmp_path: Path) -> None:
    shares = {"one": 0.5, "two": 0.2, "three": 0.2}
    results = {name: [translated(tmp_path / name, corpus(4, share))] for name, share in shares.items()}
    first, second, third = seeds.rows(results)
    assert first.difference is None
    assert second.difference == third.difference == pytest.approx(second.mean - first.mean)
    assert second.difference > 1


def test_hours_are_unknown_where_an_earlier_version_has_trained(tmp_path: Path) -> None:
    folders = [translated(tmp_path / name, corpus(2, 0.3)) for name in ("old", "new")]
    trained(tmp_path / "old" / "checkpoints", {}, "checkpoint1.pt")
    (tmp_path / "old" / "checkpoints" / LAST).unlink()
    table = seeds.rows({"one": folders})
    assert seeds.shown(table).splitlines()[1].split()[6] == "-"
    seeds.write(table, tmp_path / "test.json")
    assert json.loads((tmp_path / "test.json").read_text("utf-8"))["one"]["hours"] is None
    assert math.isnan(seeds.read(tmp_path / "test.json")[0].hours)
    # The newest checkpoint counts.
    trained(tmp_path / "new" / "checkpoints", {"processor_seconds": 7200.0}, "checkpoint_1_9.pt", 9)
    assert seeds.core_hours(tmp_path / "new") == 2.0


@pytest.mark.parametrize(
    "text", ["[]", '{"one": 1}', '{"one": {"scores": [1]}}', '{"one": {"scores": ["x"], "hours": 1}']
)
def test_another_file_is_no_table(text: str, tmp_path: Path) -> None:
    (tmp_path / "test.json").write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=r"test\.json:? (must be|cannot be read)"):
        seeds.read(tmp_path / "test.json")


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The steps that are run."""
    done: list[str] = []

    def run_step(name: str, *words: Any) -> None:
        done.append(" ".join([name, *map(str, words)]))
        if name == "train":
            updates = int(words[-1])
            trained(words[2], {}, f"checkpoint_1_{updates}.pt", updates)
            trained(words[2], {}, LAST, updates)
        elif name == "average":
            words[1].touch()
        elif name == "generate":
            shutil.rmtree(words[2], ignore_errors=True)
            words[2].mkdir()
        else:
            (words[0] / "scores.json").touch()

    monkeypatch.setattr(seeds, "run_step", run_step)
    return done


def recipe(folder: Path) -> Path:
    path = folder / "my.yaml"
    path.write_text("arch: dlcl_transformer_tiny\nmax-tokens: 50\n", encoding="utf-8")
    return path


def test_a_finished_step_is_not_done_again(steps: list[str], tmp_path: Path) -> None:
    data, folder = data_folder(tmp_path / "data"), tmp_path / "seed2"
    save = folder / "checkpoints"

    def made(subset: str, last: int = 5, updates: int = 9) -> list[str]:
        del steps[:]
        run = seeds.SeedRun(recipe(tmp_path), data, folder, 2, ["--max-update", str(updates)])
        place = run.translations(last, subset)
        assert place.relative_to(folder).parts[1:] == (subset,)
        return steps[:]

    def done(place: str, last: int, subset: str, updates: int = 9) -> list[str]:
        average, result = folder / place / "average.pt", folder / place / subset
        translated = [f"generate {average} {data} {result} --subset {subset}", f"score {result}"]
        return [begin(updates), f"average {save} {average} --last {last}", *translated]

    def begin(updates: int = 9) -> str:
        return f"train {tmp_path}/my.yaml {data} {save} --seed 2 --max-update {updates}"

    # There is one checkpoint alone.
    assert made("valid") == done("update9.last1", 1, "valid")
    assert made("valid") == [begin()]
    # The same average.
    first, _, *rest = done("update9.last1", 1, "test")
    assert made("test") == [first, *rest]
    # A training that went on, and another average.
    assert made("valid", updates=12) == done("update12.last2", 2, "valid", 12)
    assert made("valid", 1, updates=12) == done("update12.last1", 1, "valid", 12)
    # Killed before the score.
    (folder / "update12.last1" / "valid" / "scores.json").unlink()
    assert made("valid", 1, updates=12)[1:] == done("update12.last1", 1, "valid", 12)[2:]
    assert whole_text(folder / "seed.json").count("max-update") == 0


def test_other_data_options_and_recipes_are_refused(steps: list[str], tmp_path: Path) -> None:
    data, folder = data_folder(tmp_path / "data"), tmp_path / "out" / "my" / "seed1"
    words = [str(recipe(tmp_path)), str(data), str(tmp_path / "out"), "--seeds=1", "--subset=valid"]

    def refused(what: str, *more: str) -> None:
        del steps[:]
        with pytest.raises(UserError, match=f"^{folder} was begun {what}; remove it or choose another OUT$"):
            cli.call("seeds", [*words, *more, "--max-update", "9"])
        assert not steps

    run = seeds.SeedRun(recipe(tmp_path), data, folder, 1, ["--max-update", "9"])
    run.translations(1, "valid")
    # Translations alone are worth as much.
    shutil.rmtree(folder / "checkpoints")
    refused("without --lr 1", "--lr", "1")
    change_record(data, lowercase=False)
    refused("with another DATA")
    change_record(data, lowercase=True)
    (tmp_path / "my.yaml").write_text("arch: dlcl_transformer_tiny\nmax-tokens: 60\n", encoding="utf-8")
    refused("with --max-tokens 50, not 60")


def test_faults_are_found_before_the_first_training(
    steps: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, out = data_folder(tmp_path / "data"), tmp_path / "out"
    words = [str(recipe(tmp_path)), str(data), str(out), "--max-update", "9"]
    with pytest.raises(UserError, match=r"test7"):
        cli.call("seeds", [*words[:3], "--subset=test7", *words[3:]])
    (out / "test.json").mkdir(parents=True)
    with pytest.raises(UserError, match=f"^{out}/test.json: must be a file, but is a folder$"):
        cli.call("seeds", words)
    (out / "test.json").rmdir()
    # The trainings could not be resumed, and would leave nothing to average.
    second = tmp_path / "second.yaml"
    second.write_text("arch: dlcl_transformer_tiny\nno-save: true\n", encoding="utf-8")
    for names, option in ((str(second), "--no-save"), ("tiny", "--no-last-checkpoints")):
        with pytest.raises(UserError, match=f"^{option} cannot be used here: trainings are resumed, and their check"):
            cli.call("seeds", [f"{words[0]},{names}", *words[1:], *([option] if names == "tiny" else [])])
    # The second recipe would fail once the first one has been trained.
    asked: list[list[str]] = []

    def checked(line: list[str], **_: Any) -> Any:
        asked.append(line[line.index("deepnmt.recipe") :])
        return SimpleNamespace(returncode=2)

    monkeypatch.setattr(seeds.subprocess, "run", checked)
    words[0] = f"tiny,{words[0]}"
    with pytest.raises(SystemExit, match=r"^2$"):
        cli.call("seeds", words)
    assert asked == [["deepnmt.recipe", f"{tmp_path}/my.yaml", "--seed", "1", "--max-update", "9"]]
    assert not steps


def test_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    data, out = data_folder(tmp_path / "data"), tmp_path / "out"
    asked: list[tuple[object, ...]] = []

    def translations(self: seeds.SeedRun, *given: object) -> Path:
        asked.append((self.folder, self.seed, self.options, *given))
        return translated(tmp_path / "made" / f"{len(asked)}", corpus(2, 0.3))

    monkeypatch.setattr(seeds.SeedRun, "translations", translations)
    monkeypatch.setattr(seeds.SeedRun, "check_options", lambda self: None)
    words = [f"tiny,{recipe(tmp_path)}", str(data), str(out), "--seeds", "3,1", "--last=2", "--subset", "valid"]
    cli.call("seeds", [*words, "--max-update", "5"])
    assert asked == [
        (out / name / f"seed{seed}", seed, ["--max-update", "5"], 2, "valid")
        for name in ("tiny", "my")
        for seed in (3, 1)
    ]
    assert (out / "valid.json").is_file()
    assert capsys.readouterr().out.splitlines()[2].split()[:2] == ["my", "2"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tiny", "data", "out", "--seeds", "1,x"], "--seeds must be whole numbers from 1 to 2147483647 with commas "
         "between them, but is '1,x'"),
        (["tiny", "data", "out", "--seeds", "1,1"], "--seeds must be different numbers, but is '1,1'"),
        (["tiny,tiny", "data", "out"], "recipes must have different names, but 'tiny' stands 2 times"),
        (["tiny", "data", "out", "--seed=2"], "--seed cannot be used here: --seeds replaces it"),
        (["tiny", "data", "out", "--last", "0"], "--last must be a whole number from 1 to 1000000, but is '0'"),
    ],
)  # fmt: skip
def test_faulty_command_lines(words: list[str], message: str) -> None:
    with pytest.raises(UserError, match=f"^{message}$"):
        command.parse(words)
