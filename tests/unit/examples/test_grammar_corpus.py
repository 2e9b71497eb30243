"""The demo corpus as a whole: sizes, splits, how often a phenomenon occurs, and the command that makes it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from grammar import (
    corpus,
)
from grammar.entries import parse_noun
from grammar.generate import ExhaustedError, sample_pairs
from grammar.lexicon import ADJECTIVES, NOUN, NOUNS, VERB, VERBS
from grammar.meaning import Clause, NounPhrase, Sentence, Tense

_SCRIPT = Path(__file__).resolve().parents[3] / "examples" / "demo" / "grammar" / "generate.py"
_READ = Clause(VERB["lesen", 1], NounPhrase(NOUN["Mann"]), Tense.PAST, (NounPhrase(NOUN["Buch"]),))


def test_size_of_lexicon() -> None:
    assert len(NOUNS) >= 60
    assert len({verb.lemma for verb in VERBS}) >= 50
    assert len({verb.lemma for verb in VERBS if verb.prefix}) >= 10
    assert len(ADJECTIVES) >= 25


def test_no_two_nouns_share_a_translation() -> None:
    assert len({noun.english for noun in NOUNS}) == len(NOUNS)
    assert len({entry.english for entry in ADJECTIVES}) == len(ADJECTIVES)


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["Bus m", "Busses", "Busse", "bus", "transport"], "buses"),
        (["Küche f", "Küche", "Küchen", "kitchen", "room"], "kitchens"),
        (["Frau f", "Frau", "Frauen", "woman/women", "person"], "women"),
        (["Stadt f", "Stadt", "Städte", "city", "place"], "cities"),
    ],
)
def test_english_plural(cells: list[str], expected: str) -> None:
    assert parse_noun(cells).english_plural == expected


# 'das Buch, das das Kind las', 'ob sie sie sieht', 'did you try on on Friday', 'um fünf nach zwei zwei Hüte'.
_DOUBLED = "der die das dem den sie on zwei drei vier fünf sechs sieben acht neun zehn".split()  # noqa: SIM905
_SIZES = {"train": 24000, "valid": 500, "test": 500}


def _generate(*arguments: str, hash_seed: str = "0") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONIOENCODING": "utf-8"}
    command = [sys.executable, str(_SCRIPT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


@pytest.fixture(scope="module")
def splits(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The corpus at its default size, by file name."""
    directory = tmp_path_factory.mktemp("grammar") / "corpus"
    result = _generate(str(directory))
    assert (result.returncode, result.stderr) == (0, "")
    names = sorted(path.name for path in directory.iterdir())
    assert names == ["test.de", "test.en", "train.de", "train.en", "valid.de", "valid.en"]
    return {name: (directory / name).read_text(encoding="utf-8").splitlines() for name in names}


@pytest.mark.parametrize("language", ["de", "en"])
def test_splits_are_distinct_and_disjoint(splits: dict[str, list[str]], language: str) -> None:
    sentences = [line for name in _SIZES for line in splits[f"{name}.{language}"]]
    assert {name: len(splits[f"{name}.{language}"]) for name in _SIZES} == _SIZES
    assert len(set(sentences)) == sum(_SIZES.values())


@pytest.mark.parametrize("language", ["de", "en"])
def test_sentences_are_clean(splits: dict[str, list[str]], language: str) -> None:
    clean = re.compile(r"[A-ZÄÖÜ][A-Za-zÄÖÜäöüß0-9,.' -]*[a-zäöüß][.?]")
    for line in splits[f"train.{language}"]:
        assert clean.fullmatch(line), line
        assert not re.search(r"  | ,|,,|,\S|\bNone\b| [.?]", line), line
        assert 4 <= len(line.split()) <= 25, line
        doubled = re.search(r"\b(\w+) \1\b", line)
        assert not doubled or doubled[1] in _DOUBLED, line


def test_lengths_are_mixed(splits: dict[str, list[str]]) -> None:
    lengths = [len(line.split()) for line in splits["train.de"]]
    assert min(lengths) <= 4
    assert max(lengths) >= 18
    assert 7 <= sum(lengths) / len(lengths) <= 12


_ARTICLE = "(?:der|die|das|den|dem)"
_PHENOMENA = [
    ("de", r"^(?:Gestern|Morgen|Am|Um|Letzt|Nächst|Jed)\w* .*", 0.10),
    ("de", r", (?:weil|dass|obwohl|wenn|nachdem|bevor|während|als|ob) ", 0.12),
    ("de", r"^(?:Weil|Obwohl|Wenn|Nachdem|Bevor|Während|Als) ", 0.05),
    ("de", rf", (?:\w+ )?(?:{_ARTICLE}|denen|dessen|deren) [^,]*(?:hat|habe|haben|ist|sind|wohnt)\b", 0.08),
    ("de", r"\b(?:ab|an|auf|aus|ein|mit|vor|weg|zu|zurück)(?:ge)\w+(?:t|en)\b", 0.05),
    ("de", r" (?:ab|an|auf|aus|ein|fern|mit|vor|weg|zu|zurück)[.?,]", 0.03),
    ("de", r"\bge\w+(?:t|en)\b.*\.$", 0.15),
    ("de", r"\b(?:ist|sind|bin|bist) .*\bge\w+(?:en|t)\b", 0.02),
    ("de", r"\b(?:nicht|kein\w*)\b", 0.08),
    ("de", r"\?$", 0.05),
    ("de", r"\b(?:kann|muss|will|darf|soll|möchte|können|müssen|wollen|dürfen|konnte|musste)", 0.05),
    ("de", r"\b(?:wird|werden|werde|wirst)\b", 0.10),
    ("de", r" um (?:\w+ )*(?:halb|Viertel|Uhr)|\bUm ", 0.05),
    ("de", r"\b[aA]m (?:\d+\.|\w+ten) [A-ZM]", 0.02),
    ("de", r"und(?:zwanzig|dreißig|vierzig|fünfzig|sechzig|siebzig|achtzig|neunzig)", 0.02),
    ("de", r", (?:um )?[^,]*(?:\bzu|zu)\w* ?\w+en\.$", 0.03),
    ("de", r"\b(?:mein|dein|sein|ihr|unser)(?:e|en|em|er|es)?\b", 0.10),
    ("de", r"\b(?:mich|dich|sich|uns) ", 0.02),
    ("en", r"\b(?:was|were|be) \w+ (?:\w+ )?by ", 0.01),
    ("en", r"\b(?:is|are|am|was|were) (?:not )?(?:\w+ )*?\w+ing\b", 0.05),
    ("en", r"\b(?:did|does|do) (?:not|\w+)\b", 0.08),
    ("en", r"\b(?:who|that|whose) ", 0.08),
]  # fmt: skip


@pytest.mark.parametrize(("language", "pattern", "share"), _PHENOMENA)
def test_phenomenon_is_frequent(splits: dict[str, list[str]], language: str, pattern: str, share: float) -> None:
    lines = splits[f"train.{language}"]
    found = sum(bool(re.search(pattern, line)) for line in lines)
    assert share <= found / len(lines) < 0.9


def test_subordinate_commas(splits: dict[str, list[str]]) -> None:
    for line in splits["train.de"]:
        assert not re.search(r"[^,] (?:weil|obwohl|dass|nachdem|bevor|aber) ", line), line


def test_same_files_whatever_the_hash_seed(tmp_path: Path) -> None:
    sizes = ("--train", "300", "--valid", "20", "--test", "20", "--seed", "7")
    contents = []
    for hash_seed in ("1", "2"):
        directory = tmp_path / hash_seed
        assert _generate(str(directory), *sizes, hash_seed=hash_seed).returncode == 0
        contents.append({path.name: path.read_bytes() for path in directory.iterdir()})
    assert contents[0] == contents[1]


def test_seed_matters() -> None:
    assert sample_pairs(20, 1) == sample_pairs(20, 1)
    assert sample_pairs(20, 1) != sample_pairs(20, 2)


def test_sample_pairs_rejects_negative_count() -> None:
    with pytest.raises(ValueError, match="count must be at least 0, but is -1"):
        sample_pairs(-1, 1)


def test_exhausted_grammar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "sentence", lambda rng: Sentence(_READ))
    with pytest.raises(ExhaustedError, match="found only 1 distinct pairs"):
        sample_pairs(2, 1)


def test_exhausted_grammar_on_the_command_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from grammar.generate import main

    monkeypatch.setattr(corpus, "sentence", lambda rng: Sentence(_READ))
    with pytest.raises(SystemExit, match="2"):
        main([str(tmp_path / "out")])
    message = "--train + --valid + --test must be at most 1, the number of distinct pairs found"
    assert capsys.readouterr().err == f"generate.py: {message}, but is 25000\n"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--train", "0"], "--train must be at least 1, but is 0"),
        (["--valid", "-3"], "--valid must be at least 1, but is -3"),
        (["--test", "0", "--seed", "-1"],
         "--test must be at least 1, but is 0; --seed must be at least 0, but is -1"),
        (["--train", "many"], "argument --train: invalid int value: 'many'"),
        (["--train", "1000000"],
         "--train + --valid + --test must be at most 1000000, but is 1001000"),
        (["--size", "3"], "unrecognized arguments: --size 3"),
    ],
)  # fmt: skip
def test_bad_arguments(tmp_path: Path, arguments: list[str], message: str) -> None:
    result = _generate(str(tmp_path / "out"), *arguments)
    assert result.returncode == 2
    assert result.stderr == f"generate.py: {message}\n"
    assert not (tmp_path / "out").exists()


def test_output_must_not_be_a_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("mine", encoding="utf-8")
    result = _generate(str(path))
    assert result.returncode == 2
    assert result.stderr == f"generate.py: OUT_DIR must be a directory, but {path} is a file\n"
    assert path.read_text(encoding="utf-8") == "mine"


def test_help_names_every_option() -> None:
    result = _generate("--help")
    assert result.returncode == 0
    for option in ("OUT_DIR", "--train", "--valid", "--test", "--seed", "24000", "500"):
        assert option in result.stdout
