"""`batches-per-update`: as many sentences an update, whatever the number of devices."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from deepnmt.errors import UserError
from deepnmt.recipe import Option
from deepnmt.recipe.__main__ import main
from deepnmt.recipe.own_keys import share

Printed = Callable[..., list[str]]
ALIASES = {"--max-sentences": "--batch-size"}
EIGHT = "batches-per-update: 8\nmax-tokens: 4096\n"


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


@pytest.fixture
def printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Printed:
    """What `python -m deepnmt.recipe` prints of an update's size."""

    def command(devices: int, text: str, *words: str) -> list[str]:
        path = tmp_path / "r.yaml"
        path.write_text(f"task: translation\narch: transformer\noptimizer: adam\n{text}", "utf-8")
        monkeypatch.setattr("sys.argv", ["recipe.py", str(path), f"--devices={devices}", "--lines", *words])
        main()
        options = {}
        words = tuple(capsys.readouterr().out.split())
        for word, following in zip(words, [*words[1:], ""]):
            name, equals, value = word.partition("=")
            if name.startswith("--"):
                options[ALIASES.get(name, name)] = value if equals else following
        return [options.get(name, "") for name in ("--update-freq", "--max-tokens", "--batch-size")]

    return command


@pytest.mark.parametrize(
    ("devices", "text", "words", "expected"),
    [
        (8, EIGHT, ("--max-tokens", "1000"), ["1", "1000", ""]),
        (16, EIGHT, ("--max-tokens", "1000"), ["1", "500", ""]),
        (32, EIGHT, ("--max-tokens=77", "--max-tokens=1000"), ["1", "250", ""]),
        (16, EIGHT + "batch-size: 64\n", (), ["1", "2048", "32"]),
        (16, EIGHT + "max-sentences: 64\n", (), ["1", "2048", "32"]),
        (8, EIGHT + "batch-size: 63\n", (), ["1", "4096", "63"]),
        (16, EIGHT, ("--max-sentences", "64"), ["1", "2048", "32"]),
        (16, EIGHT + "batch-size: 64\n", ("--max-sentences", "6"), ["1", "2048", "3"]),
        # What is not in force need not be even, nor be there.
        (16, EIGHT.replace("4096", "4097"), ("--max-tokens", "1000"), ["1", "500", ""]),
        (16, "batches-per-update: 8\nbatch-size: false\n", ("--max-tokens", "1000"), ["1", "500", ""]),
        (16, "batches-per-update: 8\nbatch-size: 64\n", (), ["1", "", "32"]),
        (16, EIGHT, ("--update-freq", "1", "--max-tokens", "1000"), ["1", "1000", ""]),
        (3, "max-tokens: 4096\n", ("--max-tokens", "1000"), ["", "1000", ""]),
    ],
)
def test_every_bound_in_force_is_dealt_out(
    devices: int, text: str, words: tuple[str, ...], expected: list[str], printed: Printed
) -> None:
    assert printed(devices, text, *words) == expected


def test_bounds_that_are_not_even_and_no_devices(printed: Printed) -> None:
    with pytest.raises(UserError, match="the 8 batches of 4096 tokens and 63 sentences of an update must be dealt"):
        printed(16, EIGHT + "batch-size: 63\n")
    with pytest.raises(
        UserError, match="the 8 batches of 1001 tokens of an update must be dealt out evenly, but there"
    ):
        printed(16, EIGHT, "--max-tokens=1001")
    for text in (EIGHT, "max-tokens: 100\n"):
        with pytest.raises(UserError, match=r"^--devices must be at least 1, but is 0$"):
            printed(0, text)


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
