"""The measurements of a model: as objects, as JSON and as a text table. `measure.py` has the definitions.

Shapes: G groups of layers.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Optional

from deepnmt.errors import UserError
from deepnmt.model.stack import STACKS
from deepnmt.text.columns import in_columns


@dataclass(frozen=True)
class Sublayer:
    """The measurements of one sublayer; None: the sublayer has no such part or did not run.

    Attributes:
        stack: "encoder" or "decoder"
        layer: number, from 1
        name: "self_attn", "encoder_attn" or "final", the feed-forward sublayer
        gradient_norm: None where no parameter is trained
        error_norm: of the gradient of the sublayer's output
        activation_variance: of the sublayer's output
        branch_share: from 0 (only the input passes) to 1
        weight_std: standard deviation over the entries of all matrices
        weight_max: largest magnitude among them
        weight_norm: their L2 norm
    """

    stack: str
    layer: int
    name: str
    gradient_norm: Optional[float]
    error_norm: Optional[float]
    activation_variance: Optional[float]
    branch_share: Optional[float]
    weight_std: float
    weight_max: float
    weight_norm: float


COLUMNS = {option.name: option.name.replace("_", " ") for option in fields(Sublayer)}


@dataclass(frozen=True)
class Report:
    """The measurements of one model.

    Attributes:
        label: its name in tables and plots
        loss: mean over the batches, each divided by its sample size
        sublayers: in the order of the model, the encoder's first
        dlcl: for each stack with a history `W` as applied, (G + 1) x (G + 1), lower-triangular. It includes window and
            softmax, and is averaged over the slices of the channels
    """

    label: str
    batches: int
    loss: float
    sublayers: list[Sublayer]
    dlcl: dict[str, list[list[float]]] = field(default_factory=dict)

    def layers(self, stack: str) -> int:
        """Return the number of layers of a stack; 0 if the model lacks the stack."""
        return max((sublayer.layer for sublayer in self.sublayers if sublayer.stack == stack), default=0)

    @property
    def depths(self) -> dict[str, int]:
        """Return the numbers of layers of the model's stacks."""
        return {stack: self.layers(stack) for stack in STACKS if self.layers(stack)}

    def by_layer(self, stack: str, quantity: str) -> list[float]:
        """Return one number per layer; NaN for missing measurements.

        Args:
            stack: "encoder" or "decoder"
            quantity: "gradient_norm": L2 over all sublayers together; "error_norm", "activation_variance": of the
                last sublayer, thus of the layer's output; "branch_share": the mean over the sublayers
        """
        values: list[list[Optional[float]]] = [[] for _ in range(self.layers(stack))]
        for sublayer in self.sublayers:
            if sublayer.stack == stack:
                values[sublayer.layer - 1].append(getattr(sublayer, quantity))
        return [_of_layer(quantity, layer) for layer in values]

    def to_values(self) -> dict[str, Any]:
        """Plain values for JSON; numbers that are not finite become "NaN", "Infinity" and "-Infinity"."""
        values: dict[str, Any] = _standard(asdict(self))
        return values

    def to_json(self) -> str:
        """`to_values` as standard JSON."""
        return json.dumps(self.to_values(), allow_nan=False)

    @classmethod
    def from_values(cls, values: Any) -> "Report":
        """The reverse of `to_values`.

        Raises:
            UserError: names a difference from the output of `to_values`
        """
        try:
            label = values["label"]
            values = {**_floats(values), "label": label}
            return cls(**{**values, "sublayers": [Sublayer(**sublayer) for sublayer in values["sublayers"]]})
        except (TypeError, KeyError, AttributeError) as error:
            raise UserError(f"a report must be as deepnmt inspect writes it, but is not: {error}") from error

    @classmethod
    def from_json(cls, text: str) -> "Report":
        """The reverse of `to_json`, with the errors of `from_values`."""
        return cls.from_values(_parse(text))


def write_json(reports: Sequence[Report], about: dict[str, str]) -> str:
    """Several reports, and facts about them, as one JSON object."""
    return json.dumps({"about": about, "reports": [report.to_values() for report in reports]}, allow_nan=False) + "\n"


def read_json(text: str) -> list[Report]:
    """The reports in what `write_json` wrote, with the errors of `Report.from_values`."""
    values = _parse(text)
    if not isinstance(values, dict) or not isinstance(values.get("reports"), list):
        raise UserError("a file of deepnmt inspect must hold a list of reports")
    return [Report.from_values(report) for report in values["reports"]]


def summary(reports: Sequence[Report]) -> str:
    """A line for each stack: a comparison of the gradients in its first and last layers."""
    rows = [["setting", "stack", "layers", "loss"]]
    rows[0] += ["gradient norm: layer 1", "last", "ratio", "error norm: layer 1", "last", "ratio"]
    for report in reports:
        for stack, layers in report.depths.items():
            row = [report.label, stack, str(layers), number(report.loss)]
            for quantity in ("gradient_norm", "error_norm"):
                values = report.by_layer(stack, quantity)
                row += [number(value) for value in (values[0], values[-1], ratio(values))]
            rows.append(row)
    return "\n".join(aligned(rows, left=2))


def ratio(values: Sequence[float]) -> float:
    """The first to the last; NaN where the last is 0."""
    return values[0] / values[-1] if values[-1] else math.nan


def table(report: Report) -> str:
    """All numbers of one model, a line per sublayer, followed by the lower triangles of its DLCL weights."""
    lines = [title(report), *aligned([list(COLUMNS.values()), *cells(report)], left=3)]
    for stack, matrix in report.dlcl.items():
        lines += ["", f"{stack} DLCL weights: row l, the input of group l, from 1; outputs k = 0 .. l - 1"]
        rows = [[str(row), *map(number, weights[:row])] for row, weights in enumerate(matrix, start=1)]
        lines += aligned([[*row, *[""] * (len(matrix) + 1 - len(row))] for row in rows], left=0)
    return "\n".join(lines)


def title(report: Report) -> str:
    """Label, depth, loss and number of batches of a model in a line."""
    return f"{report.label}: {depth(report)}, loss {number(report.loss)}, batches {report.batches}"


def depth(report: Report) -> str:
    """The depths of a model in words."""
    return " and ".join(f"{layers} {stack}" for stack, layers in report.depths.items()) + " layers"


def cells(report: Report) -> list[list[str]]:
    """The texts of a report's table, without its heading."""
    rows = (asdict(sublayer).values() for sublayer in report.sublayers)
    return [[value if isinstance(value, str) else number(value) for value in row] for row in rows]


def number(value: Optional[float]) -> str:
    """Three digits; a dash for a missing value."""
    if value is None:
        return "-"
    return str(value) if isinstance(value, int) else f"{value:.3g}"


def aligned(rows: Sequence[Sequence[str]], left: int) -> list[str]:
    """Lines of columns of equal width, the first `left` of them flush left."""
    return [line.rstrip() for line in in_columns(rows, left)]


def _of_layer(quantity: str, values: Sequence[Optional[float]]) -> float:
    if quantity in ("error_norm", "activation_variance"):
        return _or_nan(values[-1])
    known = [value for value in values if value is not None]
    if not known:
        return math.nan
    return math.hypot(*known) if quantity == "gradient_norm" else sum(known) / len(known)


def _or_nan(value: Optional[float]) -> float:
    return math.nan if value is None else value


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise UserError(f"a report must be JSON, but is not: {error}") from error


def _standard(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _standard(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_standard(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _floats(value: Any) -> Any:
    """The reverse of `_standard`."""
    if isinstance(value, dict):
        return {key: _floats(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_floats(item) for item in value]
    return float(value) if value in ("NaN", "Infinity", "-Infinity") else value
