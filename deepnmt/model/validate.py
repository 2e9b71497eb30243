"""Ranges and combinations of options, checked once, before a model is built."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields
from importlib.util import find_spec

from deepnmt.errors import in_place_of
from deepnmt.literals import evaluate_literal, literal_fault
from deepnmt.model.banded_embedding import banding_faults
from deepnmt.model.config import DLCLTransformerConfig
from deepnmt.model.frozen_embeddings import freezing_faults
from deepnmt.model.frozen_layers import freeze_text, frozen_layers
from deepnmt.model.fused_encoder import fusing_faults
from deepnmt.model.groups import CHAINED, PLAIN, TRANSPARENT, group_boundaries
from deepnmt.model.initializers import INITIALIZERS
from deepnmt.model.initializers.initializer import BatchInitializer
from deepnmt.model.norm_position import NORM_POSITIONS
from deepnmt.model.self_attention import FULL
from deepnmt.model.stack import STACKS
from deepnmt.options.option_table import MODEL, TRAINING, dashed, range_faults

HISTORY_OPTIONS = {each.name: each.default for each in fields(DLCLTransformerConfig) if each.name.startswith("dlcl_")}
# Initialisers that make the functions of sublayers small.
SCALING = ("t-fixup", "t-fixup-released", "ds-init", "deepnorm")
ONE_DICTIONARY = "needs one dictionary for both languages (preprocess without separate ones)"


def check(config: DLCLTransformerConfig, joined: bool) -> None:
    """Raise `UserError`, a line for each fault, for an inconsistent configuration.

    With `joined`, source and target have the same dictionary.
    """
    values = {each.name: getattr(config, each.name) for each in fields(config)}
    if faults := [f"--{name} {fault}" for name, fault in range_faults(values, MODEL, TRAINING)]:
        raise in_place_of(ValueError, *faults)  # the other rules count layers and channels
    faults = [
        *(heads := list(_stack_faults(config))),
        *_norm_faults(config),
        *_skipping_faults(config),
        *_kept_layers_faults(config),
        *_attention_faults(config),
        *_self_attention_faults(config),
        *_shared_layers_faults(config),
        *_frozen_layers_faults(config),
        *_history_faults(config),
        *_position_faults(config),
        *_embedding_faults(config, joined),
        *freezing_faults(config),
        *banding_faults(config),
        *fusing_faults(config),
        *_two_sided_faults(config),
        *_language_model_faults(config),
    ]
    if faults:
        # Both stacks may have the same fault.
        raise in_place_of(AssertionError if heads else ValueError, *dict.fromkeys(faults))


def split_pairs(config: DLCLTransformerConfig) -> Iterator[str]:
    """Yield settings that a paper combines and these options separate; such experiments may be intended."""
    initializer, scale = str(config.initializer), str(config.residual_scale)
    norms = [config.norm(stack).name for stack in STACKS]
    # The norms of a history's rows may stay.
    if initializer.startswith("t-fixup") and norms != ["none", "none"]:
        paper = f"none with --initializer {initializer} in the paper"
        yield f"--encoder-norm and --decoder-norm are {paper}, but are {norms[0]} and {norms[1]}"
    if (initializer == "deepnorm") != (scale == "deepnorm"):
        yield f"--initializer and --residual-scale are both deepnorm in the paper, but are {initializer} and {scale}"
    if scale == "admin" and not initializer.startswith("admin"):
        yield f"--initializer is admin with --residual-scale admin in the paper, but is {initializer}"


def training_faults(config: DLCLTransformerConfig) -> Iterator[str]:
    """Yield options that would be ignored; checkpoints with such options can be read."""
    if config.dlcl_softmax and str(config.dlcl_init) != "mean":
        yield f"--dlcl-init must be mean with --dlcl-softmax, which begins with means, but is {config.dlcl_init}"


def _stack_faults(config: DLCLTransformerConfig) -> Iterator[str]:
    for stack in STACKS:
        heads = getattr(config, f"{stack}_attention_heads")
        if config.width(stack) % heads:
            rest = f"must be divisible by --{stack}-attention-heads {heads}, but is {config.width(stack)}"
            yield f"--{stack}-embed-dim {rest}"


def _norm_faults(config: DLCLTransformerConfig) -> Iterator[str]:
    for stack in STACKS:
        norm = config.norm(stack)
        if getattr(config, f"{stack}_normalize_before") and not norm.before:
            names = " or ".join(position.name for position in NORM_POSITIONS.values() if position.before)
            yield f"--{stack}-norm must be {names} with --{stack}-normalize-before, but is {norm.name}"
        if str(config.residual_scale) != "plain" and not norm.after:
            names = " or ".join(position.name for position in NORM_POSITIONS.values() if position.after)
            yield f"--{stack}-norm must be {names} with --residual-scale {config.residual_scale}, but is {norm.name}"
    initializer = INITIALIZERS[str(config.initializer)]
    if isinstance(initializer, BatchInitializer):
        yield from initializer.faults(config)
    if config.ds_init_alpha != 1 and str(config.initializer) != "ds-init":
        yield f"--initializer must be ds-init with --ds-init-alpha, but is {config.initializer}"


def _skipping_faults(config: DLCLTransformerConfig) -> Iterator[str]:
    skips = [stack for stack in STACKS if getattr(config, f"{stack}_skip")]
    for stack in STACKS:
        rate = getattr(config, f"{stack}_skip")
        if rate and getattr(config, f"{stack}_layerdrop"):
            yield f"--{stack}-skip and --{stack}-layerdrop exclude each other: both leave out layers in training"
    if config.base_layers and "decoder" in skips:
        yield f"--base-layers must be 0 with --decoder-skip {config.decoder_skip}, but is {config.base_layers}"
    for name, default in (("skip_schedule", "linear"), ("skip_scale", "training")):
        if not skips and str(getattr(config, name)) != default:
            yield f"--{dashed(name)} needs --encoder-skip or --decoder-skip, but both are 0"


def _kept_layers_faults(config: DLCLTransformerConfig) -> Iterator[str]:
    for stack in STACKS:
        kept = getattr(config, f"{stack}_layers_to_keep")
        if not kept:
            continue
        # As a text it is an old checkpoint's; of a command line's list fairseq makes nothing.
        if not isinstance(kept, str):
            yield f"--{stack}-layers-to-keep must not be given: deepnmt shrink --{stack}-keep takes layers out"
        elif getattr(config, f"{stack}_skip"):
            yield f"--{stack}-skip and --{stack}-layers-to-keep exclude each other"
        elif str(getattr(config, f"{stack}_groups")) != PLAIN:
            yield f"--{stack}-layers-to-keep needs --{stack}-groups none: the weights of a history fit all layers only"
        elif config.sums > 1:
            yield f"--{stack}-layers-to-keep cannot be combined with --encoder-groups {TRANSPARENT}"


def _attention_faults(config: DLCLTransformerConfig) -> Iterator[str]:
    for stack in STACKS:
        fault = _xformers_fault(getattr(config, f"{stack}_xformers_att_config"))
        if fault and getattr(config, f"{stack}_max_relative_length") == 0:  # which it excludes anyway
            yield f"--{stack}-xformers-att-config {fault}"
    for name in ("merged_attention", "cross_self_attention"):
        if getattr(config, name) and config.width("encoder") != config.width("decoder"):
            must = f"--encoder-embed-dim {config.width('encoder')} with --{dashed(name)}"
            yield f"--decoder-embed-dim must be {must}, but is {config.width('decoder')}"
    if not config.merged_attention:
        return
    for name in ("no_cross_attention", "cross_self_attention", "decoder_max_relative_length"):
        if getattr(config, name):
            yield f"--{dashed(name)} and --merged-attention exclude each other: there is no self-attention"


def _self_attention_faults(config: DLCLTransformerConfig) -> Iterator[str]:
    stack = config.stack("decoder")
    kind = stack.self_attention
    try:
        stack.leaders  # noqa: B018 - a property that raises
    except ValueError as error:
        yield f"--shared-attention-blocks: {error}"
    if not config.shares_attention:
        for name, default in (("shared_attention_blocks", "2"), ("shared_cross_attention", False)):
            if getattr(config, name) != default:
                yield f"--{dashed(name)} needs --decoder-self-attention shared, but it is {kind.name}"
    else:
        # Without the layer that leads a block, the others have no weights; a recomputed layer would lose its gradients.
        alone = ("decoder_skip", "decoder_layerdrop", "decoder_layers_to_keep", "base_layers", "two_sided")
        for name in (*alone, "checkpoint_activations", "offload_activations"):
            if getattr(config, name):
                yield f"--decoder-self-attention shared cannot be combined with --{dashed(name)}"
        if config.shared_cross_attention and config.no_cross_attention:
            yield "--shared-cross-attention cannot be combined with --no-cross-attention"
    if config.average_attention_ffn and kind.name != "average":
        yield f"--average-attention-ffn needs --decoder-self-attention average, but it is {kind.name}"
    if not kind.last and str(config.initializer) in SCALING:
        # Its function has no matrix that could make it small.
        yield f"--decoder-self-attention {kind.name} cannot be combined with --initializer {config.initializer}"
    if kind != FULL and config.merged_attention:
        yield f"--decoder-self-attention {kind.name} cannot be combined with --merged-attention"
    if not kind.attends:
        for name in ("cross_self_attention", "decoder_max_relative_length", "decoder_xformers_att_config"):
            if getattr(config, name):
                yield f"--decoder-self-attention {kind.name} cannot be combined with --{dashed(name)}"


def _shared_layers_faults(config: DLCLTransformerConfig) -> Iterator[str]:
    for stack in STACKS:
        try:
            pattern = config.stack(stack).pattern
        except ValueError as error:
            yield f"--{stack}-share-layers {error}"
            continue
        if len(set(pattern)) == len(pattern):
            continue
        option = f"--{stack}-share-layers cannot be combined with"
        for name in (f"{stack}_layerdrop", f"{stack}_layers_to_keep", "base_layers"):
            if getattr(config, name):
                yield f"{option} --{dashed(name)}"
        if isinstance(INITIALIZERS[str(config.initializer)], BatchInitializer):
            # It measures each sublayer at one depth.
            yield f"{option} --initializer {config.initializer}"
        if stack == "decoder" and config.shares_attention:
            yield f"{option} --decoder-self-attention shared"


def _frozen_layers_faults(config: DLCLTransformerConfig) -> Iterator[str]:
    for stack in STACKS:
        option = f"--{stack}-freeze"
        try:
            frozen = frozen_layers(getattr(config, f"{stack}_freeze"), config.depth(stack))
        except ValueError as error:
            yield f"{option} {error}"
            continue
        if frozen and getattr(config, f"{stack}_layers_to_keep"):
            yield f"{option} cannot be combined with --{stack}-layers-to-keep"
        with suppress(ValueError):
            pattern = config.stack(stack).pattern
            held = {pattern[place] for place in frozen}
            if others := [place for place, layer in enumerate(pattern) if layer in held and place not in frozen]:
                same = f"which has frozen weights by --{stack}-share-layers"
                yield f"{option} must also name {freeze_text(others[:1])}, {same}"


def _xformers_fault(text: str | None) -> str | None:
    """Return the fault of an option that leaves the attention to xFormers, or None."""
    if text is None:
        return None
    if fault := literal_fault(text):
        return fault
    settings = evaluate_literal(text)
    if settings is None:
        return None
    if not isinstance(settings, dict):
        return f"must be a dictionary such as {{'name': 'scaled_dot_product'}}, but is {text}"
    return None if find_spec("xformers") else "needs the package xformers, which is not installed"


def _history_faults(config: DLCLTransformerConfig) -> Iterator[str]:
    groups = {stack: str(getattr(config, f"{stack}_groups")) for stack in STACKS}
    connected = [stack for stack in STACKS if groups[stack] not in CHAINED]
    if groups["decoder"] in CHAINED and groups["decoder"] != PLAIN:
        yield f"--decoder-groups {groups['decoder']} is not possible: --encoder-groups alone has it"
    for stack in connected:
        try:
            group_boundaries(groups[stack], config.depth(stack))
        except ValueError as error:
            yield f"--{stack}-groups: {error}"
        try:
            config.slices(stack)
        except ValueError as error:
            yield f"--dlcl-granularity: {error}"
    if not connected:
        held = "both are none" if set(groups.values()) == {PLAIN} else f"they are {' and '.join(groups.values())}"
        for name, default in HISTORY_OPTIONS.items():
            if getattr(config, name) != default:
                yield f"--{dashed(name)} needs --encoder-groups or --decoder-groups, but {held}"
    if config.base_layers and "decoder" in connected:
        yield f"--base-layers must be 0 with --decoder-groups {config.decoder_groups}, but is {config.base_layers}"
    if config.base_layers and config.sums > 1:
        yield f"--base-layers must be 0 with --encoder-groups {TRANSPARENT}, but is {config.base_layers}"


def _position_faults(config: DLCLTransformerConfig) -> Iterator[str]:
    lengths = [getattr(config, f"{stack}_max_relative_length") for stack in STACKS]
    for stack, length in zip(STACKS, lengths):
        if length > 0 and getattr(config, f"{stack}_xformers_att_config"):
            yield f"--{stack}-xformers-att-config and --{stack}-max-relative-length {length} exclude each other"
    if str(config.relative_positions) == "keys" and not any(lengths):
        needed = "--encoder-max-relative-length or --decoder-max-relative-length"
        yield f"--relative-positions keys needs {needed}, but both are 0"
    if config.cross_self_attention and lengths[1] > 0:
        reason = "there is no distance between a source and a target position"
        yield f"--cross-self-attention and --decoder-max-relative-length {lengths[1]} exclude each other: {reason}"


def _embedding_faults(config: DLCLTransformerConfig, joined: bool) -> Iterator[str]:
    widths = [config.width(stack) for stack in STACKS]
    # With tables of two languages there are checkpoints.
    if config.share_all_embeddings and not joined:
        yield f"--share-all-embeddings {ONE_DICTIONARY}"
    if config.tie_adaptive_weights:
        yield "--tie-adaptive-weights must not be given: the model has no adaptive input to tie them to"
    if config.one_table:
        option = "--share-all-embeddings" if config.share_all_embeddings else "--merge-src-tgt-embed"
        if widths[0] != widths[1]:
            actual = f"they are {widths[0]} and {widths[1]}"
            yield f"{option} needs --encoder-embed-dim and --decoder-embed-dim to be equal, but {actual}"
    path = config.decoder_embed_path
    if config.share_all_embeddings and path and path != config.encoder_embed_path:
        yield "--share-all-embeddings and --decoder-embed-path exclude each other"
    if config.one_table or config.share_decoder_input_output_embed:
        for name in ("decoder_input_dim", "decoder_output_dim"):
            if (width := getattr(config, name)) not in (None, widths[1]):
                must = f"--decoder-embed-dim {widths[1]} where the decoder's embeddings are shared"
                yield f"--{dashed(name)} must be {must}, but is {width}"


def _two_sided_faults(config: DLCLTransformerConfig) -> Iterator[str]:
    if not config.two_sided:
        return
    kept = [f"{stack}_layers_to_keep" for stack in STACKS]
    for name in ("no_cross_attention", "cross_self_attention", *kept, "base_layers", "adaptive_softmax_cutoff"):
        if value := getattr(config, name):
            yield f"--two-sided cannot be combined with --{dashed(name)} {value}"
    if isinstance(INITIALIZERS[str(config.initializer)], BatchInitializer):
        yield f"--initializer must need no batches with --two-sided, but is {config.initializer}"


def _language_model_faults(config: DLCLTransformerConfig) -> Iterator[str]:
    """Yield the options that a language model in the decoder excludes."""
    layers = config.decoder_lm_layers
    if not layers:
        return
    if layers >= config.decoder_layers:
        yield f"--decoder-lm-layers must be below --decoder-layers {config.decoder_layers}, but is {layers}"
    attention = ("merged_attention", "no_cross_attention", "cross_self_attention", "two_sided")
    for name in (*attention, "decoder_skip", "decoder_layers_to_keep", "base_layers", "adaptive_softmax_cutoff"):
        if value := getattr(config, name):
            yield f"--decoder-lm-layers cannot be combined with --{dashed(name)} {value}"
    if config.decoder_share_layers != "none":
        yield f"--decoder-lm-layers cannot be combined with --decoder-share-layers {config.decoder_share_layers}"
    if config.shares_attention:
        yield "--decoder-lm-layers cannot be combined with --decoder-self-attention shared"
    if isinstance(INITIALIZERS[str(config.initializer)], BatchInitializer):
        yield f"--initializer must need no batches with --decoder-lm-layers, but is {config.initializer}"
