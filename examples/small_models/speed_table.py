"""The table and the picture of run.sh: BLEU and speed of exported models, all timed in turn by one thread.

OUT/valid.json keeps the figures while the models stay the same, and OUT/test.json the scores of the test set.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from common import header, interleaved

from deepnmt import console
from deepnmt.engines.model_folder import RECORD, ModelFolder
from deepnmt.engines.registry import load_engine
from deepnmt.errors import UserError
from deepnmt.text.lines import read_text, whole_text
from deepnmt.text.pipeline import tokens_of
from deepnmt.text.record import SHORTLIST
from deepnmt.text.token_bleu import TokenBleu

BEAMS = {1: "greedy", 5: "beam 5"}
FORMATS, LISTED = ("float32", "int8"), ("", ".list")
BATCH = 64


class Point(NamedTuple):
    """A model folder with a beam: sentences per second of the processor, and BLEU of tokens on validation."""

    folder: str
    beam: int
    speed: float
    bleu: float

    @property
    def model(self) -> str:
        """The student's recipe."""
        return self.folder.split(".")[0]

    @property
    def weights(self) -> str:
        """Format of the weights."""
        return self.folder.split(".")[1]

    @property
    def listed(self) -> bool:
        """Whether it has shortlists."""
        return self.folder.endswith(".list")


class Model:
    """A model folder that translates a subset of a data folder by one thread.

    Args:
        path: of the folder
        data: the data folder
        subset: valid or test
    """

    def __init__(self, path: Path, data: Path, subset: str) -> None:
        folder = ModelFolder.open(path)
        if (path / SHORTLIST).exists() != path.name.endswith(".list"):
            raise UserError(f"{path}: must have shortlists as its name says; remove the folder")
        self.settings, self.text = folder.search, folder.text
        self.engine = load_engine(folder, threads=1)
        sources, self.references = (
            read_text(data / "text" / f"{subset}.bpe.{language}") for language in folder.text.languages
        )
        self.sources = [line.split() for line in sources]
        self.order = sorted(range(len(sources)), key=lambda number: len(self.sources[number]))
        self.found: dict[int, list[str]] = {}

    def translate(self, beam: int) -> None:
        """Translate the subset in batches of sentences of like length."""
        settings = dataclasses.replace(self.settings, beam=beam)
        found: dict[int, str] = {}
        for start in range(0, len(self.order), BATCH):
            numbers = self.order[start : start + BATCH]
            for number, best in zip(numbers, self.engine.search([self.sources[each] for each in numbers], settings)):
                found[number] = " ".join(best[0].tokens)
        self.found[beam] = [found[number] for number in range(len(self.sources))]

    def bleu(self, beam: int) -> float:
        """Return BLEU of the translations of a beam, in tokens without BPE."""
        lines = [[tokens_of(line, self.text) for line in side] for side in (self.found[beam], self.references)]
        return float(TokenBleu(self.text.target_lang).corpus_score(lines[0], [lines[1]]).score)


def measured(paths: Sequence[Path], data: Path, repetitions: int) -> list[Point]:
    """Return the figures of model folders on validation."""
    models = {path.name: Model(path, data, "valid") for path in paths}
    points = []
    for beam in BEAMS:
        cases = {name: functools.partial(model.translate, beam) for name, model in models.items()}
        timings = interleaved(cases, repetitions)
        for name, model in models.items():
            speed = len(model.sources) / timings[name].processor
            points.append(Point(name, beam, round(speed, 1), round(model.bleu(beam), 2)))
    return points


def front(points: Sequence[Point]) -> list[Point]:
    """Return the points that no other one beats: none is faster and as good, or better and as fast."""

    def beats(one: Point, other: Point) -> bool:
        better = one.speed >= other.speed and one.bleu >= other.bleu
        return better and (one.speed, one.bleu) != (other.speed, other.bleu)

    best = [point for point in points if not any(beats(other, point) for other in points)]
    return sorted(best, key=lambda point: point.speed)


def table(points: Sequence[Point], models: Sequence[str], tested: Mapping[str, float]) -> str:
    """Return the table: a row for each folder and beam, in the order of the models.

    Speed is compared with the first model in float32, without shortlists and with the same beam.
    """
    usual = {point.beam: point for point in points if point.folder == f"{models[0]}.{FORMATS[0]}"}
    unbeaten = front(points)
    head = ["model", "weights", "shortlist", "search", "sentences/s", f"times {models[0]}", "BLEU", "unbeaten", "test"]
    lines = [head, ["---"] * len(head)]
    for point in sorted(points, key=lambda each: (models.index(each.model), each.beam, each.weights, each.listed)):
        speed = [f"{point.speed:.0f}", f"{point.speed / usual[point.beam].speed:.2f}"]
        score = tested.get(key(point))
        scores = [f"{point.bleu:.2f}", "yes" if point in unbeaten else "", "" if score is None else f"{score:.2f}"]
        kind = [point.model, point.weights, "yes" if point.listed else "no", BEAMS[point.beam]]
        lines.append([*kind, *speed, *scores])
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def key(point: Point) -> str:
    """Return the name of a folder and beam in test.json."""
    return f"{point.folder} {BEAMS[point.beam]}"


def draw(points: Sequence[Point], models: Sequence[str], path: Path) -> None:
    """Draw BLEU against sentences per second: a colour for each model, full marks with shortlists."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.5))
    axes = figure.add_subplot(xscale="log", xlabel="sentences per second of one thread", ylabel="BLEU on validation")
    best = front(points)
    axes.plot([each.speed for each in best], [each.bleu for each in best], color="0.7", zorder=0)
    for number, model in enumerate(models):
        axes.scatter([], [], color=f"C{number}", label=model)
        for point in (each for each in points if each.model == model):
            marker, size = "o" if point.beam == 1 else "s", 50 if point.weights == FORMATS[0] else 20
            edge, face = f"C{number}", f"C{number}" if point.listed else "none"
            axes.scatter(point.speed, point.bleu, size, marker=marker, edgecolors=edge, facecolors=face)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("{x:g}")
    axes.legend(title="circles: greedy; squares: beam 5\nfull: shortlist; small: int8", fontsize=7, title_fontsize=7)
    with console.whole_file(path) as temporary:
        figure.savefig(temporary, format="svg", metadata={"Date": None})


def kept(path: Path, sources: Sequence[Path]) -> Any:
    """Return the contents of a file of figures; None where there is none, or where a model is newer."""
    if not path.is_file() or any(each.stat().st_mtime > path.stat().st_mtime for each in sources):
        return None
    return json.loads(whole_text(path))


def main() -> None:
    """Measure what has not been measured, and write table.md and speed.svg."""
    parser = console.Parser(description=__doc__)
    parser.add_argument("out", type=Path, metavar="OUT", help="folder of run.sh, with models/")
    parser.add_argument("data", type=Path, metavar="DATA", help="data folder")
    parser.add_argument("--models", required=True, metavar="NAME,NAME,...", help="students; the first is the usual one")
    parser.add_argument("--repetitions", type=int, default=3, metavar="N", help="measurements of each (default: 3)")
    parser.add_argument("--test", action="store_true", help="score the unbeaten models on the test set, once")
    given = parser.parse_args()
    models = given.models.split(",")
    names = [f"{model}.{weights}{listed}" for model in models for weights in FORMATS for listed in LISTED]
    paths = [given.out / "models" / name for name in names]
    records = [path / RECORD for path in paths]
    valid, test = given.out / "valid.json", given.out / "test.json"
    found = kept(valid, records)
    if found is None or sorted({name for name, *_ in found["points"]}) != sorted(names):
        points = measured(paths, given.data, given.repetitions)
        found = {"measured": header(1), "points": points}
        with console.whole_file(valid) as temporary:
            temporary.write_text(json.dumps(found), encoding="utf-8")
    points = [Point(*values) for values in found["points"]]
    scores = kept(test, records) or {}
    for point in front(points) if given.test else ():
        if key(point) not in scores:
            model = Model(given.out / "models" / point.folder, given.data, "test")
            model.translate(point.beam)
            scores[key(point)] = model.bleu(point.beam)
            with console.whole_file(test) as temporary:
                temporary.write_text(json.dumps(scores), encoding="utf-8")
    text = table(points, models, scores)
    with console.whole_file(given.out / "table.md") as temporary:
        temporary.write_text(f"{found['measured']}\n{text}", encoding="utf-8")
    draw(points, models, given.out / "speed.svg")
    print(text, end="")


if __name__ == "__main__":
    console.run(main)
