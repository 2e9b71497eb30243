"""The rounds: which command comes next, for every state of the folders, and which recipes are refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.models import ROOT

from deepnmt.errors import UserError
from deepnmt.recipe import read_recipe
from deepnmt.synthetic.rounds import Rounds, Step

CONFIGS = ROOT / "configs" / "synthetic"
PLACES = {"data": "DATA", "save": "SAVE"}
BOTH = {"mono-source": "MONO_DE", "mono-target": "MONO_EN"}


def read(folder: Path, **keys: str) -> Rounds:
    path = folder / "recipe.yaml"
    path.write_text("".join(f"{key.replace('_', '-')}: {value}\n" for key, value in keys.items()), encoding="utf-8")
    return Rounds.read(path, read_recipe(path), {})


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "preprocess.json").write_text('{"source_lang": "de", "target_lang": "en"}')
    return tmp_path / "data"


def back(tmp_path: Path, data: Path, **more: str) -> Rounds:
    keys = {"kind": "back", "data": str(data), "save": str(tmp_path / "s"), "train": "tiny.yaml", **more}
    return read(tmp_path, mono_source="MDE", mono_target="MEN", **keys)


def distil(tmp_path: Path, data: Path, **more: str) -> Rounds:
    keys = {"kind": "distil", "data": str(data), "save": str(tmp_path / "s"), "train": "tiny.yaml", **more}
    return read(tmp_path, **{"students": "2", **keys})


def do(step: Step, bleu: float) -> None:
    """What a command leaves when it has ended well."""
    step.result.parent.mkdir(parents=True, exist_ok=True)
    if step.result.name == "trained":
        for epoch in (1, 2, 3):
            (step.result.parent / f"checkpoint{epoch}.pt").touch()
        (step.result.parent / "checkpoint_best.pt").touch()
    if step.result.name == "scores.json":
        step.result.write_text(json.dumps({"tokenised BLEU": {"score": 1}, "BLEU": {"score": bleu}}))
    else:
        step.result.touch()


def commands(rounds: Rounds, bleu: dict[tuple[int, str], float]) -> list[str]:
    """All commands to the end, each decided by the folders that the ones before have left."""
    said = []
    while (step := rounds.next_step()) is not None:
        assert len(said) < 100
        assert rounds.next_step() == step
        words = [word.replace(str(rounds.save), "S").replace(str(rounds.data), "D") for word in step.command]
        said.append(" ".join(Path(word).name if "tiny" in word else word for word in words))
        folder = step.result.parent.parent.name
        do(step, bleu.get((step.round, folder if folder in ("forward", "reverse") else "ensemble"), 0))
    return said


ZERO = [
    f"train tiny.yaml D S/round-0/{folder} --lr 1{languages}"
    f"|average S/round-0/{folder} S/round-0/{folder}/model.pt --last 2"
    f"|generate S/round-0/{folder}/model.pt D S/round-0/{folder}/valid --subset valid{reverse} --beam 2"
    f"|score S/round-0/{folder}/valid"
    for folder, languages, reverse in (
        ("forward", "", ""),
        ("reverse", " --source-lang en --target-lang de", " --reverse"),
    )
]


def one(number: int, folder: str, other: str, mono: str, reverse: str, languages: str) -> str:
    here = f"S/round-{number}/{folder}"
    return (
        f"synthesise back S/{other}/model.pt D {mono} {here}/pairs --method greedy{reverse}"
        f"|mix {here}/data D {here}/pairs --upsample 3"
        f"|train tiny.yaml {here}/data {here} --lr 1{languages}"
        f"|average {here} {here}/model.pt --last 2"
        f"|generate {here}/model.pt D {here}/valid --subset valid{reverse} --beam 2"
        f"|score {here}/valid"
    )


def round_of(number: int) -> list[str]:
    swapped = " --source-lang en --target-lang de"
    return [
        one(number, "forward", f"round-{number - 1}/reverse", "MEN", "", ""),
        one(number, "reverse", f"round-{number}/forward", "MDE", " --reverse", swapped),
    ]


OWN = {"options": "--lr 1", "average": "2", "synthesis": "--method greedy", "translate": "--beam 2", "upsample": "3"}


@pytest.mark.parametrize(
    ("bleu", "last"),
    [
        ({(1, "forward"): 5, (2, "forward"): 6, (3, "forward"): 7}, 3),
        ({(1, "forward"): 5, (1, "reverse"): 4, (2, "forward"): 4, (2, "reverse"): 4.1, (3, "reverse"): 4.1}, 3),
        ({(1, "forward"): 5, (1, "reverse"): 4, (2, "forward"): 5.09, (2, "reverse"): 4}, 2),
        ({}, 1),
    ],
)
def test_back_translation_in_rounds(
    tmp_path: Path, data: Path, bleu: dict[tuple[int, str], float], last: int
) -> None:  # fmt: skip
    rounds = back(tmp_path, data, rounds="3", min_gain="0.1", **OWN)
    expected = [*ZERO, *(each for number in range(1, last + 1) for each in round_of(number))]
    assert commands(rounds, bleu) == "|".join(expected).split("|")
    assert rounds.finished() == list(range(last + 1))


def test_a_killed_command_is_run_again(tmp_path: Path, data: Path) -> None:
    rounds = back(tmp_path, data, **OWN)
    step = rounds.next_step()
    assert step is not None
    assert step.mark
    # What a training leaves that has been killed, and a search.
    folder = step.result.parent
    folder.mkdir(parents=True)
    (folder / "checkpoint1.pt").touch()
    assert rounds.next_step() == step
    do(step, 0)
    average = rounds.next_step()
    assert average is not None
    assert not average.mark
    (folder / "model.pt.tmp.7").touch()
    assert rounds.next_step() == average
    do(average, 0)
    (folder / "valid.tmp.9").mkdir()
    search = rounds.next_step()
    assert search is not None
    assert search.result == folder / "valid" / "generate.json"
    assert rounds.finished() == []


def test_a_short_training_averages_what_there_is(tmp_path: Path, data: Path) -> None:
    rounds = back(tmp_path, data, average="10")
    step = rounds.next_step()
    assert step is not None
    step.result.parent.mkdir(parents=True)
    step.result.touch()
    for name in ("checkpoint_best.pt", "checkpoint_last.pt"):
        (step.result.parent / name).touch()
    for number in (1, 2):
        average = rounds.next_step()
        assert average is not None
        assert average.command[-1] == str(number)
        (step.result.parent / "checkpoint1.pt").touch()
        (step.result.parent / "checkpoint_2_90.pt").touch()


def test_more_rounds_resume_where_the_last_has_gained_enough(tmp_path: Path, data: Path) -> None:
    bleu = {(number, "forward"): float(number) for number in range(5)}
    assert len(commands(back(tmp_path, data, rounds="1", **OWN), bleu)) == 8 + 12
    assert commands(back(tmp_path, data, rounds="2", **OWN), bleu) == "|".join(round_of(2)).split("|")
    assert back(tmp_path, data, rounds="2", **OWN).identity() == back(tmp_path, data, rounds="1", **OWN).identity()


def test_distillation_in_rounds(tmp_path: Path, data: Path) -> None:
    rounds = distil(tmp_path, data, rounds="2", synthesis="--keep-real")

    def round_of_students(number: int, text: str) -> list[str]:
        here = f"S/round-{number}"
        models = [f"{here}/student-{seed}" for seed in (1, 2)]
        return [
            *(
                command
                for seed, model in enumerate(models, start=1)
                for command in (
                    f"train tiny.yaml {text} {model} --seed {seed}",
                    f"average {model} {model}/model.pt --last 1",
                )
            ),
            f"generate {models[0]}/model.pt:{models[1]}/model.pt D {here}/valid --subset valid",
            f"score {here}/valid",
        ]

    def distilled(number: int) -> str:
        models = ":".join(f"S/round-{number - 1}/student-{seed}/model.pt" for seed in (1, 2))
        return f"synthesise distil {models} D S/round-{number}/pairs --keep-real"

    expected = round_of_students(0, "D")
    for number in (1, 2):
        expected += [distilled(number), *round_of_students(number, f"S/round-{number}/pairs")]
    assert commands(rounds, {(1, "ensemble"): 1, (2, "ensemble"): 2}) == expected


def test_a_given_teacher_is_round_zero(tmp_path: Path, data: Path) -> None:
    said = commands(distil(tmp_path, data, teacher="A.pt:B.pt", rounds="1"), {(0, "ensemble"): 3})
    assert said[:3] == [
        "generate A.pt:B.pt D S/round-0/valid --subset valid",
        "score S/round-0/valid",
        "synthesise distil A.pt:B.pt D S/round-1/pairs",
    ]


@pytest.mark.parametrize(
    ("keys", "fault"),
    [
        (
            {"kind": "back", "mono_target": "M"},
            "mono-source must be given, as mono-target is: each direction needs text of its target",
        ),
        (
            {"kind": "back", "mono_source": "M"},
            "mono-target must be given, as mono-source is: each direction needs text of its target",
        ),
        ({"kind": "distil", "students": "1"}, "recipe.yaml:2: students must be a whole number of at least 2, but is 1"),
        ({"kind": "distil"}, "students must be given"),
        (
            {"kind": "distil", "students": "2", "mono_source": "M"},
            "mono-source is for kind back, but the kind is distil",
        ),
        ({"kind": "other"}, "recipe.yaml:1: kind must be back or distil, but is other"),
        ({}, "kind must be back or distil, but is not given"),
        ({"kind": "distil", "students": "2", "min_gain": "-1"}, "min-gain must be a number of BLEU from 0 to 100"),
        ({"kind": "distil", "students": "2", "rounds": "0"}, "rounds must be a whole number of at least 1, but is 0"),
        ({"kind": "distil", "students": "2", "dada": "x"}, "must be one of kind, data,"),
    ],
)
def test_refused(tmp_path: Path, keys: dict[str, str], fault: str) -> None:
    with pytest.raises(UserError, match=fault):
        read(tmp_path, **keys, data="D", save="S", train="tiny.yaml")


def test_the_command_line_wins(tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text("kind: distil\ndata: D\nsave: S\ntrain: ../tiny.yaml\nstudents: 3\nrounds: 9\n", encoding="utf-8")
    given = {"rounds": "2", "min-gain": "0.5", "data": "E"}
    rounds = Rounds.read(path, read_recipe(path), given)
    assert (rounds.rounds, rounds.min_gain, rounds.data, rounds.students) == (2, 0.5, Path("E"), 3)
    assert rounds.train == tmp_path / ".." / "tiny.yaml"
    with pytest.raises(UserError, match="--students: students must be a whole number of at least 2, but is 1"):
        Rounds.read(path, read_recipe(path), {"students": "1"})


@pytest.mark.parametrize("name", ["iterative", "iterated_distillation"])
def test_recipes(name: str) -> None:
    path = CONFIGS / f"{name}.yaml"
    text = path.read_text("utf-8")
    assert f"deepnmt iterate synthetic/{name} " in text
    options = read_recipe(path)
    given = {"data": "D", "save": "S", **({"mono-source": "A", "mono-target": "B"} if name == "iterative" else {})}
    rounds = Rounds.read(path, options, given)
    train = {"iterative": "transformer_tiny", "iterated_distillation": "short"}[name]
    assert rounds.train.resolve() == ROOT / "configs" / "multi30k" / f"{train}.yaml"
    assert all("  # " in line or " # " in line for line in text.splitlines() if line[:1].isalpha())
