"""Corpora of German and English pairs, and what `deepnmt clean` makes of them."""

from pathlib import Path

from deepnmt.cli.clean import main
from deepnmt.corpus.cleaning.breaking import Pair

GOOD = [("Das ist ein Haus", "This is a house"), ("Der Hund", "The dog"), ("Das kostet 20 Euro", "It costs 20 euros")]


def write(prefix: Path, pairs: list[Pair]) -> Path:
    for side, language in enumerate(("de", "en")):
        Path(f"{prefix}.{language}").write_bytes("".join(f"{pair[side]}\n" for pair in pairs).encode())
    return prefix


def read(prefix: Path) -> list[Pair]:
    sides = [Path(f"{prefix}.{language}").read_bytes().decode().split("\n")[:-1] for language in ("de", "en")]
    return list(zip(*sides))


def cleaned(prefix: Path, output: Path, *words: str, workers: int = 1) -> list[Pair]:
    languages = ["--source-lang", "de", "--target-lang", "en"]
    main(["--input", str(prefix), "--output", str(output), *languages, *words, "--workers", str(workers)])
    return read(output)


def table_of(path: Path) -> dict[str, list[float]]:
    header, *lines = (line.split("\t") for line in path.read_text("utf-8").splitlines())
    return {name: [float(line[place]) for line in lines] for place, name in enumerate(header)}
