"""The modules requested by the options of one stack."""

from dataclasses import fields

from deepnmt.model.average_attention import AverageAttention
from deepnmt.model.dlcl import HistoryOptions, LayerHistory
from deepnmt.model.relative_scores import RelativePositionOptions
from deepnmt.model.residual import Residual
from deepnmt.model.row_state import RowState
from deepnmt.model.skipping import SublayerSkipping
from deepnmt.model.ssru import SSRU, MakeMap
from deepnmt.model.stack_choices import StackChoices
from deepnmt.model.transparent import TopSums


def build_residual(config: StackChoices, stack: str) -> Residual:
    """Return a new residual for one sublayer of a stack."""
    options = config.stack(stack)
    return Residual(options.width, options.residual_scale, options.residual_trained)


def build_skipping(config: StackChoices, stack: str) -> SublayerSkipping | None:
    """Return the skipping of a stack's sublayers, or None if none is ever skipped."""
    options = config.stack(stack)
    return SublayerSkipping(stack, options.layers, len(options.sublayers), options.skip) if options.skip.rate else None


def build_history(config: StackChoices, stack: str) -> LayerHistory | TopSums | None:
    """Return the connections of a stack, or None for a plain stack."""
    options = config.stack(stack)
    if options.sums and stack == "encoder":
        return TopSums(options.layers, options.sums)
    if options.boundaries is None:
        return None
    # Each --dlcl-NAME but the granularity, which becomes a number of slices.
    names = [option.name for option in fields(HistoryOptions) if option.name != "slices"]
    named = {name: getattr(config, f"dlcl_{name}") for name in names}
    return LayerHistory(
        options.width,
        options.boundaries,
        normalize_before=not options.norm.after,
        options=HistoryOptions(slices=config.slices(stack), **named),
    )


def build_recurrence(config: StackChoices, stack: str, make_map: MakeMap) -> RowState | None:
    """Return the recurrence in place of a layer's self-attention, made of new linear maps, or None if it attends."""
    options = config.stack(stack)
    if not options.self_attention.recurrent:
        return None
    if options.self_attention.name == "ssru":
        return SSRU(options.width, make_map)
    inner = int(getattr(config, f"{stack}_ffn_embed_dim")) if config.average_attention_ffn else 0
    return AverageAttention(options.width, make_map, inner)


def relative_positions(config: StackChoices, stack: str) -> RelativePositionOptions:
    """Return the relative positions of a stack's self-attention."""
    return RelativePositionOptions(
        max_length=getattr(config, f"{stack}_max_relative_length"),
        values=str(config.relative_positions) == "keys-values",
    )
