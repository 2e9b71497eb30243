"""`batches-per-update`: as many sentences an update, whatever the number of devices."""

from __future__ import annotations

from pathlib import Path

import pytest

from deepnmt.errors import UserError
from deepnmt.recipe import Option
from deepnmt.recipe.__main__ import main
from deepnmt.recipe.global_batch import share


def options(**values: str) -> dict[str, Option]:
    names = [name.replace("_", "-") for name in values]
    return {
        name: Option(value, Path("r.yaml"), line) for line, (name, value) in enumerate(zip(names, values.values()), 1)
    }


def shared(devices: int, **values: str) -> dict[str, str]:
    return {name: option.value for name, option in share(options(**values), devices).items()}


@pytest.mark.parametrize("devices", [1, 2, 4, 8, 16, 64])
@pytest.mark.parametrize("batches", [1, 2, 8, 64])
def test_tokens_of_an_update_stay_the_same(batches: int, devices: int) -> None:
    result = shared(devices, lr="1", batches_per_update=str(batches), max_tokens="4096")
    assert result["lr"] == "1"
    assert result.keys() == {"lr", "max-tokens", "update-freq"}
    assert int(result["update-freq"]) * devices * int(result["max-tokens"]) == batches * 4096
    assert (int(result["max-tokens"]) == 4096) == (devices <= batches)


def test_update_freq_of_the_command_line_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "r.yaml"
    options = ("task: translation", "arch: transformer", "optimizer: adam", "batches-per-update: 8", "max-tokens: 100")
    path.write_text("\n".join(options), "utf-8")
    monkeypatch.setattr("sys.argv", ["recipe.py", str(path), "--devices", "3", "--lines"])
    with pytest.raises(UserError, match="must be dealt out evenly, but there are 3 devices"):
        main()
    monkeypatch.setattr("sys.argv", ["recipe.py", str(path), "--devices", "3", "--lines", "--update-freq=2"])
    main()
    assert capsys.readouterr().out.splitlines() == [
        "--task=translation",
        "--arch=transformer",
        "--optimizer=adam",
        "--max-tokens=100",
        "--update-freq=2",
    ]


def test_other_recipes_are_left_alone() -> None:
    assert shared(3, max_tokens="100", update_freq="7") == {"max-tokens": "100", "update-freq": "7"}


def test_batches_of_sentences_are_dealt_out_too() -> None:
    assert shared(2, batches_per_update="6", batch_size="10") == {"batch-size": "10", "update-freq": "3"}


@pytest.mark.parametrize(
    ("devices", "values", "message"),
    [
        (
            3,
            {"batches_per_update": "8", "max_tokens": "4096"},
            "r.yaml:1: the 8 batches of 4096 tokens .* are 3 devices",
        ),
        (
            16,
            {"batches_per_update": "8"},
            "the 8 batches of an update must be dealt out evenly, but there are 16 devices",
        ),
        (4, {"batches_per_update": "1", "max_tokens": "10"}, "the 1 batches of 10 tokens .* there are 4 devices"),
        (1, {"batches_per_update": "0"}, "r.yaml:1: batches-per-update must be a positive whole number, but is '0'"),
        (1, {"batches_per_update": "-2"}, "must be a positive whole number, but is '-2'"),
        (
            4,
            {"max_tokens": "x", "batches_per_update": "2"},
            "r.yaml:1: max-tokens must be a positive whole number, but is",
        ),
        (
            1,
            {"batches_per_update": "2", "update_freq": "2"},
            "r.yaml:2: update-freq must not stand beside batches-per-up",
        ),
    ],
)
def test_what_cannot_be_shared_is_refused(devices: int, values: dict[str, str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        share(options(**values), devices)
