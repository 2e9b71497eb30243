"""Options of the search beside fairseq's own (`docs/search.md`), and which of them go together."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, make_dataclass
from typing import Any, Optional

from fairseq.dataclass import ChoiceEnum, FairseqDataclass

from deepnmt.options.option_table import SEARCH, SEARCHES, option, range_faults
from deepnmt.search import neighbours
from deepnmt.search.supported import language_model_obstacle, model_obstacle

# fairseq's options that need its own search, with the values that do not ask for it.
NEEDS_FAIRSEQ: dict[str, tuple[object, ...]] = {
    "sampling": (False,),
    "diverse_beam_groups": (-1, 0),
    "diversity_rate": (-1.0,),
    "constraints": (None, False),
    "prefix_size": (0,),
    "print_alignment": (None, False),
    "no_beamable_mm": (False,),
    "score_reference": (False,),
}


def _fields() -> Iterator[tuple[str, Any, Any]]:
    for name, row in SEARCHES.items():
        kind = ChoiceEnum(row.choices) if row.choices else Optional[row.kind] if row.default is None else row.kind
        yield name, kind, field(default=row.default, metadata={"help": row.help})


_Declared: Any = make_dataclass("_Declared", list(_fields()), bases=(FairseqDataclass,))


@dataclass
class SearchOptions(_Declared):  # type: ignore[misc]
    """Search options beyond fairseq's, as declared in `options/option_table.py`; the defaults change nothing."""

    @classmethod
    def of(cls, options: Any) -> "SearchOptions":
        """Take the options from another object's attributes."""
        return cls(**{item.name: getattr(options, item.name) for item in fields(cls) if item.name != "_name"})

    def given(self) -> list[str]:
        """Return the options that are not at their defaults, as they are called in a command."""
        chosen = (item for item in fields(self) if item.name != "_name" and getattr(self, item.name) != item.default)
        return [option(item.name) for item in chosen]

    def weights(self) -> Optional[list[float]]:
        """Return the weights of the models, or None. Raises `ValueError` if they are not numbers."""
        return None if self.ensemble_weights is None else [float(text) for text in self.ensemble_weights.split(",")]

    def layers(self, count: int) -> Sequence[int]:
        """Return the decoder layers whose attention counts, of a decoder with `count`."""
        layer = str(self.coverage_layer)
        return range(count) if layer == "mean" else (-1,) if layer == "last" else (int(layer) - 1,)


def faults_of(
    options: SearchOptions, args: Any, models: Sequence[Any], language_model: Optional[Any] = None
) -> list[str]:
    """Return the faults of options: beside each other, beside fairseq's, and for the models; a line each.

    Options of fairseq's search that are missing in `args` have their defaults.
    """
    if not options.given():
        return []
    values = {name: getattr(options, name) for name in SEARCHES}
    faults = [f"--{name} {fault}" for name, fault in range_faults(values, SEARCH)]
    if not faults:  # these rules count with them
        faults = [*_length_faults(options, args), *_coverage_faults(options, models), *_stop_faults(options, args)]
    obstacles = [*map(model_obstacle, models), language_model and language_model_obstacle(language_model)]
    faults += neighbours.option_faults(options, models)
    return [*faults, *_ensemble_faults(options, len(models)), *_fairseq_faults(options, args, obstacles)]


def _length_faults(options: SearchOptions, args: Any) -> Iterator[str]:
    exponent = getattr(args, "lenpen", 1.0)
    if options.length_penalty != "power" and getattr(args, "unnormalized", False):
        yield f"--length-penalty: must not be given with --unnormalized, but is {options.length_penalty}"
    if options.length_penalty == "log" and exponent <= 0:
        yield f"--lenpen: must be above 0 with --length-penalty log, but is {exponent}"
    low, high = options.min_len_ratio, options.max_len_ratio
    if getattr(args, "match_source_len", False):
        for name, ratio in (("--min-len-ratio", low), ("--max-len-ratio", high)):
            if ratio is not None:
                yield f"--match-source-len cannot be combined with {name}"
    if low is not None and high is not None and low > high:
        yield f"--min-len-ratio: must be at most --max-len-ratio, {high}, but is {low}"


def _coverage_faults(options: SearchOptions, models: Sequence[Any]) -> Iterator[str]:
    weight, floor, layer = options.coverage_weight, options.coverage_floor, str(options.coverage_layer)
    if options.coverage == "none":
        for name in options.given():
            if name.startswith("--coverage-"):
                yield f"{name}: must be given with --coverage gnmt or floor alone"
        return
    if weight is None:
        yield "--coverage-weight must be given with --coverage"
    if options.coverage == "floor" and floor is None:
        yield "--coverage-floor must be given with --coverage floor"
    if options.coverage != "floor" and floor is not None:
        yield f"--coverage-floor: must be given with --coverage floor alone, but is {floor}"
    depths = [len(model.decoder.layers) for model in models if hasattr(model, "decoder")]
    if layer.isdecimal() and depths and int(layer) > min(depths):
        yield f"--coverage-layer: must be at most the number of decoder layers, {min(depths)}, but is {layer}"
    elif any(_without_attention(model, options) for model in models):
        yield "--coverage: must be none for a model without cross-attention"


def _without_attention(model: Any, options: SearchOptions) -> bool:
    layers = getattr(getattr(model, "decoder", None), "layers", ())
    return not layers or any(layers[index].encoder_attn is None for index in options.layers(len(layers)))


def _stop_faults(options: SearchOptions, args: Any) -> Iterator[str]:
    if options.beam_stop != "optimal":
        return
    exponent, penalty = getattr(args, "lenpen", 1.0), getattr(args, "unkpen", 0)
    if options.coverage == "floor":
        yield "--beam-stop: must not be optimal with --coverage floor, which may raise scores"
    if exponent < 0 and not getattr(args, "unnormalized", False):
        yield f"--lenpen: must be at least 0 with --beam-stop optimal, but is {exponent}"
    if penalty < 0:
        yield f"--unkpen: must be at least 0 with --beam-stop optimal, but is {penalty}"


def _ensemble_faults(options: SearchOptions, models: int) -> Iterator[str]:
    try:
        weights = options.weights()
    except ValueError:
        yield f"--ensemble-weights: must be numbers with commas between them, but is {options.ensemble_weights}"
        return
    if weights is None:
        return
    if len(weights) != models:
        yield f"--ensemble-weights: must be as many as models, {models}, but is {options.ensemble_weights}"
    if not all(weight >= 0 for weight in weights) or not math.isclose(sum(weights), 1, abs_tol=1e-6):
        yield f"--ensemble-weights: must be at least 0 and sum to 1, but is {options.ensemble_weights}"


def _fairseq_faults(options: SearchOptions, args: Any, obstacles: Sequence[Optional[str]]) -> Iterator[str]:
    given = ", ".join(options.given())
    for obstacle in dict.fromkeys(filter(None, obstacles)):
        yield f"{given}: must not be given where {obstacle}"
    for name, values in NEEDS_FAIRSEQ.items():
        value = getattr(args, name, values[0])
        if value not in values:
            yield f"{option(name)}: must not be given with {given}, which fairseq's own search does not know"
