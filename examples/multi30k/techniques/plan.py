"""What is measured: techniques, each with the settings of which validation chooses one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

BASELINE = "beam 5"
LIST = 12
SAMPLES = 50
BEAMS = (1, 2, 5, 10, 20, 50)
EXPONENTS = (0.4, 0.7, 1.0, 1.3, 1.6)


@dataclass(frozen=True)
class Models:
    """The checkpoints at hand.

    Attributes:
        best: the single model that all else is compared with
        more: others of the same direction, for ensembles and reranking
        right_to_left, two_sided, reverse, language: of these kinds, if there are any
    """

    best: Path
    more: tuple[Path, ...] = ()
    right_to_left: Optional[Path] = None
    two_sided: Optional[Path] = None
    reverse: Optional[Path] = None
    language: Optional[Path] = None

    def ensemble(self) -> str:
        """Return all models of the same direction, as fairseq's --path takes them."""
        return ":".join(map(str, (self.best, *self.more)))

    def helpers(self) -> tuple[Optional[Path], ...]:
        """Return the models of other kinds."""
        return self.right_to_left, self.two_sided, self.reverse, self.language


@dataclass(frozen=True)
class Search:
    """One search.

    Attributes:
        name: of its folder
        path: of the models
        options: of generate.sh
        listed: how many translations of each sentence of the validation set are kept
    """

    name: str
    path: str
    options: tuple[str, ...] = ()
    listed: int = 0


@dataclass(frozen=True)
class Technique:
    """A row of the table.

    Attributes:
        name: of the row
        searches: of which validation chooses one
    """

    name: str
    searches: tuple[Search, ...]


def techniques(models: Models) -> Iterator[Technique]:
    """Give the techniques that are a search, the baseline first."""

    def one(name: str, *options: str, path: str = str(models.best)) -> Search:
        return Search(name.replace(" ", "-"), path, options)

    yield Technique(BASELINE, tuple(search for search in beams(models) if search.name == BASELINE.replace(" ", "-")))
    yield Technique("beam", beams(models))
    for kind in ("power", "gnmt", "log"):
        searches = (
            one(f"{kind} {a}", "--length-penalty", kind, "--lenpen", str(a))
            for a in (EXPONENTS if kind != "log" else (1.0,))
        )
        yield Technique(f"length penalty {kind}", tuple(searches))
    yield Technique("no length penalty", (one("unnormalized", "--unnormalized"),))
    yield Technique("length range", (one("range", "--min-len-ratio", "0.5", "--max-len-ratio", "2"),))
    weights = ("0.05", "0.1", "0.2", "0.4")
    for kind, more in (("gnmt", ()), ("floor", ("--coverage-floor", "0.2"))):
        options = ("--coverage", kind, *more, "--coverage-weight")
        yield Technique(f"coverage {kind}", tuple(one(f"coverage {kind} {w}", *options, w) for w in weights))
    wide = ("--beam", "50", "--length-penalty", "gnmt", "--coverage", "gnmt", "--coverage-weight")
    yield Technique("beam 50, gnmt, coverage gnmt", tuple(one(f"wide coverage {w}", *wide, w) for w in ("0.1", "0.4")))
    yield Technique("stop at the first", (one("stop first", "--beam-stop", "first"),))
    optimal = ("--beam-stop", "optimal", "--max-len-ratio", "2")
    yield Technique("stop when optimal", (one("stop optimal", *optimal),))
    yield Technique("pruning", tuple(one(f"gap {gap}", "--prune-gap", gap) for gap in ("0.2", "0.5", "1")))
    # What the consensus of many samples is compared with.
    yield Technique("one sample", (one("one sample", "--sampling", "--beam", "1", "--seed", "1"),))
    if models.more:
        rules = ("linear", "log-linear")
        searches = (one(f"ensemble {rule}", "--ensemble-rule", rule, path=models.ensemble()) for rule in rules)
        yield Technique("ensemble", tuple(searches))
        searches = (one(f"weights {g}", "--ensemble-weights", g, path=models.ensemble()) for g in weightings(models))
        yield Technique("ensemble, weighted", tuple(searches))
    if models.language:
        lm = ("--lm-path", str(models.language), "--lm-weight")
        yield Technique("language model", tuple(one(f"lm {w}", *lm, w) for w in ("0.05", "0.1", "0.2")))
    if models.right_to_left:
        yield Technique("right to left", (one("right to left", path=str(models.right_to_left)),))
    if models.two_sided:
        yield Technique("two-sided decoder", (one("two-sided", path=str(models.two_sided)),))


def beams(models: Models) -> tuple[Search, ...]:
    """Return a search for each beam, with all that it finds."""
    return tuple(Search(f"beam-{beam}", str(models.best), ("--beam", str(beam)), listed=beam) for beam in BEAMS)


def weightings(models: Models) -> list[str]:
    """Return weights of an ensemble, which give the best model more or less than its share."""
    others = len(models.more)
    return [",".join([f"{share}", *[f"{(1 - share) / others:.6g}"] * others]) for share in (0.3, 0.4, 0.6, 0.7)]


def lists(models: Models) -> list[Search]:
    """Return the searches that make n-best lists: of each model of the direction, and right to left."""
    options = ("--beam", str(LIST), "--nbest", str(LIST))
    paths = [models.best, *models.more, *([models.right_to_left] if models.right_to_left else [])]
    return [Search(f"list-{number}", str(path), options) for number, path in enumerate(paths, start=1)]


def samples(models: Models) -> Search:
    """Return the search that draws samples."""
    count = str(SAMPLES)
    options = ("--sampling", "--beam", count, "--nbest", count, "--batch-size", "8", "--seed", "1")
    return Search("samples", str(models.best), options)


def model_options(models: Models) -> list[str]:
    """Return the options of deepnmt rerank that name the models."""
    words = []
    for number, path in enumerate((models.best, *models.more), start=1):
        words += ["--score", f"fwd{number}={path}"]
    for option, name, other in (
        ("--score", "r2l", models.right_to_left),
        ("--reverse", "rev", models.reverse),
        ("--lm", "lm", models.language),
    ):
        if other:
            words += [option, f"{name}={other}"]
    return words
