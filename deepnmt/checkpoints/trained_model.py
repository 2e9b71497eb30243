"""The model of a checkpoint: its options, and whether its tensors match them.

The tensors are compared with a model built without memory (torch's `meta` device). Names and shapes thus come from the
network itself and are written nowhere else.
"""

import dataclasses
import re
from argparse import Namespace
from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, Union, get_args, get_origin

import torch
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_DATACLASS_REGISTRY, MODEL_REGISTRY
from torch import Tensor, nn

import deepnmt
from deepnmt.checkpoints.contents import is_buffer, kind
from deepnmt.checkpoints.one_direction import check_one_direction, has_both, of_direction
from deepnmt.checkpoints.packed import scale_faults
from deepnmt.checkpoints.state import SCALES, CheckpointState, Tensors
from deepnmt.checkpoints.tensors import weight_name
from deepnmt.errors import UserError
from deepnmt.model.config import DLCLTransformerConfig
from deepnmt.model.dual import DIRECTIONS
from deepnmt.model.stack import STACKS
from deepnmt.model.transformer import NAME, DLCLTransformerModel
from deepnmt.model.validate import check
from deepnmt.options.option_table import OPTIONS

EMBEDDINGS = {stack: f"{stack}.embed_tokens.weight" for stack in STACKS}
# A tensor that fairseq copies from another one if it is absent.
TIED = {"decoder.output_projection.weight": EMBEDDINGS["decoder"]}


def is_deep(state: CheckpointState) -> bool:
    """Return whether a checkpoint holds this package's model."""
    deepnmt.register()
    known = MODEL_DATACLASS_REGISTRY.get(architecture(state))
    return isinstance(known, type) and issubclass(known, DLCLTransformerConfig)


def model_config(state: CheckpointState) -> DLCLTransformerConfig:
    """Return the configuration of a checkpoint's model, with its architecture's defaults for missing options.

    Raises:
        UserError: it holds another model, or an option is of another type or out of range; a line each
    """
    name, options = architecture(state), state.options()
    if state.is_old():
        raise UserError(f"{state.name}: args must be missing; they come from a fairseq before 0.10, without {NAME}")
    check_one_direction(state)
    if not is_deep(state):
        raise UserError(f"{state.name}: cfg.model._name must be {NAME} or one of its architectures, but is {name}")
    kind_of_config: type[DLCLTransformerConfig] = MODEL_DATACLASS_REGISTRY[name]
    if faults := list(_type_faults(options, kind_of_config)):
        raise UserError(*(f"{state.name}: cfg.model.{fault}" for fault in faults))
    config = kind_of_config.from_options(Namespace(**options))
    try:
        # Whether source and target share a dictionary shows when the data is read.
        check(config, joined=True)
    except UserError as error:
        raise UserError(*(f"{state.name}: cfg.model: {line}" for line in str(error).splitlines())) from error
    return config


def computing_options(config: DLCLTransformerConfig) -> dict[str, Any]:
    """Return the options by which models with equal tensors may compute other functions, by their names."""
    said_twice = {f"{stack}_normalize_before" for stack in STACKS} | {"_name"}
    values = {name: value for name, value in vars(config).items() if name not in said_twice}
    computing = {name: value for name, value in values.items() if name not in OPTIONS or OPTIONS[name].inference}
    return computing | {f"{stack}_norm": config.norm(stack).name for stack in STACKS}


def option_faults(
    state: CheckpointState, wanted: Mapping[str, Any], held: Mapping[str, Any], place: str
) -> Iterator[str]:
    """Yield each option of a checkpoint's model that differs from the wanted ones, which are in `place`."""
    for name, value in wanted.items():
        if str(held.get(name, value)) != str(value):
            yield f"{state.name}: cfg.model.{name} must be {value}, as in {place}, but is {held[name]}"


def check_whole(state: CheckpointState, config: DLCLTransformerConfig) -> None:
    """Raise `UserError`, a line an option, if the model borrows layers, so that its depth cannot be changed."""
    if faults := list(whole_faults(config)):
        raise UserError(*(f"{state.name}: cfg.model.{option} {rest}" for option, rest in faults))


def whole_faults(config: DLCLTransformerConfig) -> Iterator[tuple[str, str]]:
    """Yield each option that gives the model other layers than its own: its name, its required and actual value."""
    for stack in STACKS:
        if getattr(config, f"{stack}_layers_to_keep"):
            yield f"{stack}_layers_to_keep", "must not be set, but is"
        if (sharing := getattr(config, f"{stack}_share_layers")) != "none":
            yield f"{stack}_share_layers", f"must be none, but is {sharing}"
    if config.base_layers:
        yield "base_layers", f"must be 0, but is {config.base_layers}"
    if config.decoder_lm_layers:
        yield "decoder_lm_layers", f"must be 0, but is {config.decoder_lm_layers}"
    if config.two_sided:
        yield "two_sided", "must be false, but is true"
    if config.fused_encoder is not None:
        yield "fused_encoder", "must not be set, but is"
    if config.shares_attention:
        yield "decoder_self_attention", "must not be shared, but is"


def check_fit(state: CheckpointState, config: DLCLTransformerConfig) -> None:
    """Raise `UserError` unless the tensors fit the model, with a line for each that does not.

    A model without some of its layers is not checked: the options of the command choose among its tensors.
    """
    if config.base_layers or config.encoder_layers_to_keep or config.decoder_layers_to_keep:
        return
    scales = state.contents.get(SCALES, {})
    faults = (
        list(_depth_faults(state, config))
        or list(scale_faults(scales, state.tensors()))
        or list(_shape_faults(state.tensors(), config, scales))
    )
    if faults:
        raise UserError(*(f"{state.name}: {fault}" for fault in faults))


def check_model(state: CheckpointState) -> None:
    """Raise `UserError` unless the model is known, has the tensors of its options, and can be built in finite time.

    Less is known about models from outside this package.
    """
    if has_both(state):
        for direction in DIRECTIONS:
            check_model(of_direction(state, direction))
        return
    if is_deep(state):
        check_fit(state, model_config(state))
        return
    if faults := list(scale_faults(state.contents.get(SCALES, {}), state.tensors())):
        raise UserError(*(f"{state.name}: {fault}" for fault in faults))
    name = architecture(state)
    if name not in MODEL_REGISTRY and name not in ARCH_MODEL_REGISTRY:
        raise UserError(f"{state.name}: cfg.model._name must be a model that is known here, but is {name}")
    check_size(state)


def check_size(state: CheckpointState) -> None:
    """Raise `UserError` for a model with more layers, by its options, than tensors: building it might never end."""
    for stack in STACKS:
        layers, tensors = state.options().get(f"{stack}_layers"), len(state.tensors())
        if isinstance(layers, int) and layers > tensors:
            must = f"at most {tensors}, the number of the model's tensors"
            raise UserError(f"{state.name}: cfg.model.{stack}_layers must be {must}, but is {layers}")


def architecture(state: CheckpointState) -> str:
    """Return the name of the architecture, or of the model, whose options a checkpoint has."""
    options = state.options()
    return str(options.get("_name") or options.get("arch"))


def _type_faults(options: dict[str, Any], config: type[DLCLTransformerConfig]) -> Iterator[str]:
    for option in dataclasses.fields(config):
        value = options.get(option.name, option.default)
        # Sizes that fairseq wrongly declares optional.
        declared = option.type if option.default is None else _inner(option.type)
        if value != option.default and (must := _must_be(declared, value)):
            yield f"{option.name} must be {must}, but is {_shown(value)}"


def _inner(declared: Any) -> Any:
    """Return the type of a field that has a value; for an optional field, its value's type."""
    return get_args(declared)[0] if get_origin(declared) is Union else declared


def _must_be(declared: Any, value: Any) -> str:
    """Return the requirement of a field's type that a value violates; empty if it fits."""
    if get_origin(declared) is Union:  # Optional
        return "" if value is None else _must_be(get_args(declared)[0], value)
    if get_origin(declared) is list and isinstance(value, str):  # fairseq has --encoder-layers-to-keep so
        return "" if re.fullmatch(r"\d+(,\d+)*", value) else "whole numbers between commas"
    if get_origin(declared) is list:
        items = isinstance(value, list) and not any(_must_be(get_args(declared)[0], item) for item in value)
        return "" if items else "a list of whole numbers"
    if issubclass(declared, Enum):
        choices = [choice.value for choice in declared]
        return "" if isinstance(value, str) and value in choices else f"one of {', '.join(choices)}"
    if declared is bool:
        return "" if isinstance(value, bool) else "true or false"
    if declared is int:
        return "" if type(value) is int and abs(value) < 2**31 else "a whole number below 2^31"
    if declared is float:
        return "" if type(value) in (int, float) else "a number"
    return "" if isinstance(value, str) else "a text"


def _shown(value: Any) -> str:
    return repr(value) if isinstance(value, str) and len(value) < 100 else kind(value)


def _depth_faults(state: CheckpointState, config: DLCLTransformerConfig) -> Iterator[str]:
    """Yield the faults in depths and connections: a model of too many layers must not be built at all."""
    for stack in STACKS:
        options, groups = config.stack(stack), getattr(config, f"{stack}_groups")
        layers = {found[1] for name in state.tensors() if (found := re.match(rf"{stack}\.layers\.(\d+)\.", name))}
        if len(layers) != options.layers:
            yield f"model must hold {options.layers} {stack} layers, as cfg.model says, but holds {len(layers)}"
            continue
        weight = state.tensors().get(weight_name(stack))
        rows = 0 if weight is None or not weight.dim() else len(weight)
        if rows != options.history_rows:
            held = f"one of {rows - 1} groups" if rows else "none"
            yield f"model must hold a history of --{stack}-groups {groups}, as cfg.model says, but holds {held}"


def _shape_faults(tensors: Tensors, config: DLCLTransformerConfig, scaled: Collection[str]) -> Iterator[str]:
    """Yield the parameters that are missing, too many or of another shape, the first of each kind."""
    types = []
    for stack, name in EMBEDDINGS.items():
        if rows := banded_types(tensors, stack):
            types.append(rows)
        elif name not in tensors or tensors[name].dim() != 2:
            yield f"model.{name} must be a table, types x width, but is {_shape(tensors.get(name))}"
        else:
            types.append(len(tensors[name]))
    if len(types) < len(EMBEDDINGS):
        return
    try:
        expected = _shapes(config, types)
    except Exception as error:  # any error of fairseq or torch: only the options can cause it
        reason = next(iter(str(error).splitlines()), "") or type(error).__name__
        yield f"cfg.model must be the options of a model that can be built, but is not: {reason}"
        return
    yield from tensor_faults(tensors, expected, "as cfg.model says", scaled)


def tensor_faults(
    tensors: Tensors, expected: Mapping[str, torch.Size], reason: str, scaled: Collection[str] = ()
) -> Iterator[str]:
    """Yield missing and surplus parameters, wrong shapes and whole numbers, the first of each kind.

    The reason explains the expected shapes; parameters with scales may be whole numbers.
    """
    found = {name: tensor for name, tensor in tensors.items() if not is_buffer(name)}
    missing = [name for name in expected if name not in found and TIED.get(name) not in found]
    unknown = [name for name in found if name not in expected]
    other = [name for name, shape in expected.items() if name in found and found[name].shape != shape]
    for names, must in ((missing, "be there"), (unknown, "be absent"), (other, "have the shape")):
        if names:
            name, more = names[0], f" (and {len(names) - 1} more)" if len(names) > 1 else ""
            shape = f" {_text(expected[name])}" if names is other else ""
            held = "is not" if names is not other else f"has {_shape(found[name])}"
            yield f"model.{name} must {must}{shape}, {reason}, but {held}{more}"
    numbers = [name for name in expected if name in found and name not in scaled]
    if whole := [name for name in numbers if not found[name].is_floating_point()]:
        yield f"model.{whole[0]} must be floating-point numbers, but is {found[whole[0]].dtype}"


def _shapes(config: DLCLTransformerConfig, types: list[int]) -> dict[str, torch.Size]:
    """Return the shapes of a model's parameters by their names; `types` are the sizes of the two dictionaries."""
    plain: dict[str, Any] = {"initializer": "default", "encoder_embed_path": None, "decoder_embed_path": None}
    source, target = stand_in_dictionaries(config, types)
    task = Namespace(source_dictionary=source, target_dictionary=target)
    with torch.device("meta"):
        model = DLCLTransformerModel.build_model(dataclasses.replace(config, **plain), task)
    return parameter_shapes(model)


def banded_types(tensors: Tensors, stack: str) -> int:
    """Return the number of types of embeddings in bands (`deepnmt/model/banded_embedding.py`); 0 for one table."""
    beginning = f"{stack}.embed_tokens.tables."
    return sum(tensor.shape[:1].numel() for name, tensor in tensors.items() if name.startswith(beginning))


def stand_in_dictionaries(config: DLCLTransformerConfig, types: Sequence[int]) -> tuple[Any, Any]:
    """Return what building a model needs of the dictionaries of source and target, of these sizes."""
    source, target = map(_Dictionary, types)
    return source, source if config.share_all_embeddings else target


def parameter_shapes(model: nn.Module) -> dict[str, torch.Size]:
    """Return the shapes of a model's parameters by their names."""
    return {name: tensor.shape for name, tensor in model.state_dict().items() if not is_buffer(name)}


class _Dictionary:
    """The part of a dictionary's interface that building a model needs."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def pad(self) -> int:
        return 1

    def update(self, other: object) -> None:
        """Called with --merge-src-tgt-embed; the tables have the size of the merged dictionary already."""


def _shape(tensor: Tensor | None) -> str:
    return "missing" if tensor is None else _text(tensor.shape)


def _text(shape: torch.Size) -> str:
    return " x ".join(map(str, shape)) or "a single number"
