"""The required parts of a fairseq checkpoint and their kinds. Each reader checks them once.

- model: finite tensors by name
- cfg, or args: the options, in groups with `model` and `task` among them, or all of them in a Namespace
- optimizer_history: a list; its last entry names update, criterion, optimizer and schedule
- extra_state: position in the data, scores, and so on
- last_optimizer_state: the optimizer's state; None where it was left out
"""

from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from deepnmt.errors import UserError, in_place_of
from deepnmt.text.subword_identity import is_record

# The last parts of the names of tensors in a state dict that are not parameters.
BUFFERS = ("version", "_float_tensor")
# The key, beside the optimizer's state, of the FP32 master weights of a training in half precision.
FULL_PRECISION = "fp32_params"
# Likewise, of the state that adapts the scale of the loss.
LOSS_SCALER = "loss_scaler"


def check_contents(contents: Any, name: str) -> None:
    """Raise `UserError` unless the contents of the file `name` are a checkpoint's, with a line for each faulty part."""
    if not isinstance(contents, dict):
        raise in_place_of(TypeError, f"{name}: must be a fairseq checkpoint, but is {kind(contents)}")
    faults = [f"{name}: {fault}" for part in _PARTS for fault in part(contents)]
    if faults:
        raise in_place_of(KeyError, *faults)


def check_numbers(model: Mapping[str, Tensor], name: str) -> None:
    """Raise `UserError` with the first tensor of the model of the file `name` that has NaN or infinity."""
    if broken := [key for key, tensor in model.items() if not is_buffer(key) and not _is_finite(tensor)]:
        raise UserError(f"{name}: model.{broken[0]} must be finite numbers, but has NaN or infinity{_more(broken)}")


def is_buffer(name: str) -> bool:
    """Return whether a tensor of a state dict is a buffer, not a parameter."""
    return name.rsplit(".", 1)[-1] in BUFFERS


def kind(value: Any) -> str:
    """Describe a value for a message: "missing", "a text", "3"."""
    if value is None:
        return "missing"
    if isinstance(value, (bool, int, float)):
        return str(value)
    if isinstance(value, (str, Mapping, list, tuple)) and not value:
        return "empty"
    names: tuple[tuple[type | tuple[type, ...], str], ...] = (
        (str, "a text"),
        (Tensor, "a tensor"),
        (Mapping, "a dictionary"),
        ((list, tuple), "a list"),
    )
    return next((text for types, text in names if isinstance(value, types)), f"a {type(value).__name__}")


def _model(contents: dict[str, Any]) -> Iterator[str]:
    model = contents.get("model")
    if not isinstance(model, Mapping) or not model:
        yield f"model must be the model's tensors by their names, but is {kind(model)}"
        return
    strange = [key for key, value in model.items() if not (isinstance(key, str) and isinstance(value, Tensor))]
    if strange:
        value = model[strange[0]]
        what = kind(value) if isinstance(strange[0], str) else "under a name that is no text"
        yield f"model.{strange[0]} must be a tensor, but is {what}{_more(strange)}"


def _is_finite(tensor: Tensor) -> bool:
    return not tensor.is_floating_point() or bool(torch.isfinite(tensor).all())


def _more(names: Sequence[Any]) -> str:
    return f" (and {len(names) - 1} more like it)" if len(names) > 1 else ""


def _options(contents: dict[str, Any]) -> Iterator[str]:
    if isinstance(contents.get("args"), Namespace):  # before fairseq 0.10
        return
    cfg = contents.get("cfg")
    if not isinstance(cfg, Mapping):
        yield f"cfg must be the options of the training, but is {kind(cfg)}"
        return
    if fault := next(_no_options(cfg, "cfg"), None):
        yield fault
        return
    for group in ("model", "task"):
        options = cfg.get(group)
        options = vars(options) if isinstance(options, Namespace) else options
        if not isinstance(options, Mapping) or not options:
            yield f"cfg.{group} must be the options of the {group}, but is {kind(options)}"
        elif strange := [key for key in options if not isinstance(key, str)]:
            yield f"cfg.{group} must have texts as names of its options, but has {strange[0]!r}"


def _no_options(value: Any, key: str) -> Iterator[str]:
    """Yield the values that an option cannot have: configurations hold plain values alone."""
    if isinstance(value, Namespace):
        value = vars(value)
    if key.count(".") > 20:
        yield f"{key[:60]}... must not be nested deeper than 20 levels, but is"
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _no_options(inner, f"{key}.{name}")
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _no_options(inner, f"{key}.")
    elif not isinstance(value, (str, bool, int, float, type(None))):
        yield f"{key} must be a plain value, but is {kind(value)}"


def _history(contents: dict[str, Any]) -> Iterator[str]:
    if "optimizer_history" not in contents and "best_loss" in contents:  # before fairseq 0.6
        return
    history = contents.get("optimizer_history")
    if not isinstance(history, list) or not history or not all(isinstance(entry, dict) for entry in history):
        yield f"optimizer_history must be a list of results, one per optimizer, but is {_listed(history)}"
        return
    last = history[-1]
    for key, is_right, what in (
        ("num_updates", _is_count, "a number of updates"),
        ("criterion_name", lambda value: isinstance(value, str), "a text"),
        ("optimizer_name", lambda value: isinstance(value, str), "a text"),
        ("lr_scheduler_state", _is_mapping, "the schedule's state"),
    ):
        yield from _present(last, "optimizer_history[-1].", key, is_right, what)
    schedule = last.get("lr_scheduler_state")
    if isinstance(schedule, Mapping):
        for key, is_right, what in (
            ("best", lambda value: value is None or _is_score(value), "the best score"),
            ("last_epoch", _is_count, "a number of epochs"),
            ("resets", _are_counts, "numbers of updates"),
        ):
            yield from _present(schedule, "optimizer_history[-1].lr_scheduler_state.", key, is_right, what)


def _listed(history: Any) -> str:
    return "one of other things" if isinstance(history, list) and history else kind(history)


def _extra(contents: dict[str, Any]) -> Iterator[str]:
    extra = contents.get("extra_state")
    if not isinstance(extra, dict):
        if extra is not None or "epoch" not in contents:
            yield f"extra_state must be the state of a training beside its model, but is {kind(extra)}"
        return
    for key in ("previous_training_time", "processor_seconds"):
        yield from _present(extra, "extra_state.", key, _is_number, "a number of seconds")
    for key in ("ema", "ema_fp32_params"):
        yield from _present(extra, "extra_state.", key, _are_tensors, "tensors by their names")
    yield from _present(extra, "extra_state.", "best", _is_score, "the best score")
    # This package writes all of them but the position.
    yield from _present(extra, "extra_state.", "trained_on", is_record, "checksums of dictionaries and codes")
    for key in ("training", "best_by"):
        yield from _present(extra, "extra_state.", key, lambda value: isinstance(value, str), "a text")
    patience = extra.get("patience")
    if patience is not None and not isinstance(patience, Mapping):
        yield f"extra_state.patience must be the count of --patience, but is {kind(patience)}"
    elif patience and not (_is_score(patience.get("best")) and _is_count(patience.get("runs"))):
        yield "extra_state.patience must have the best score and the runs since, but has others"
    position = extra.get("train_iterator")
    if position is None:
        return
    if not isinstance(position, Mapping):
        yield f"extra_state.train_iterator must be the position in the data, but is {kind(position)}"
        return
    for key in ("epoch", "iterations_in_epoch"):
        if not _is_count(position.get(key)):
            yield f"extra_state.train_iterator.{key} must be a number of at least 0, but is {kind(position.get(key))}"
    for key in ("batches", "shards"):  # written by this package
        yield from _present(position, "extra_state.train_iterator.", key, _is_count, "a number of at least 0")


def _optimizer(contents: dict[str, Any]) -> Iterator[str]:
    for key, is_right, what in (
        ("last_optimizer_state", _is_mapping, "the optimizer's state"),
        ("criterion", _are_tensors, "the criterion's tensors by their names"),
        ("task_state", _is_mapping, "the task's state"),
    ):
        if contents.get(key) is not None and not is_right(contents[key]):
            yield f"{key} must be {what}, or missing, but is {kind(contents[key])}"
    optimizer = contents.get("last_optimizer_state")
    if isinstance(optimizer, Mapping) and not _is_composite(optimizer):
        for part, is_right, what in (
            ("param_groups", _are_groups, "a list of groups with their params"),
            ("state", _is_state, "numbers and tensors of each parameter, by its number"),
        ):
            if not is_right(optimizer.get(part)):
                yield f"last_optimizer_state.{part} must be {what}, but is {kind(optimizer.get(part))}"
                return
    if isinstance(optimizer, Mapping):
        yield from _present(optimizer, "last_optimizer_state.", FULL_PRECISION, _are_weights, "a list of FP32 tensors")
        yield from _present(optimizer, "last_optimizer_state.", LOSS_SCALER, _are_numbers, "a list of numbers")


def _is_composite(optimizer: Mapping[str, Any]) -> bool:
    """Return whether the state of fairseq's composite optimizer holds several optimizers' states by name."""
    # In half precision, the scale of the loss is stored beside them.
    each = [own for own in optimizer.values() if isinstance(own, Mapping)]
    return bool(each) and all("param_groups" in own for own in each)


def _present(
    values: Mapping[str, Any], start: str, key: str, is_right: Callable[[Any], bool], what: str
) -> Iterator[str]:
    if key in values and not is_right(values[key]):
        yield f"{start}{key} must be {what}, but is {kind(values[key])}"


def _is_mapping(value: Any) -> bool:
    return isinstance(value, Mapping)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _is_number(value: Any) -> bool:
    if isinstance(value, Tensor) and value.numel() == 1:  # several processes keep the mean of theirs
        value = value.item()
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < float("inf")


def _are_counts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_count, value))


def _is_score(value: Any) -> bool:
    """Return whether a value can be compared with scores; NaN can, which a validation may have produced."""
    if isinstance(value, Tensor):
        return value.numel() == 1
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_state(value: Any) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(kept, Mapping) and all(isinstance(part, (Tensor, int, float, type(None))) for part in kept.values())
        for kept in value.values()
    )


def _are_groups(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(group, Mapping) and isinstance(group.get("params"), list) for group in value)
    )


def _are_tensors(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(tensor, Tensor) for tensor in value.values())


def _are_numbers(value: Any) -> bool:
    return isinstance(value, list) and all(type(number) in (int, float) for number in value)


def _are_weights(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(tensor, Tensor) and tensor.dtype == torch.float32 for tensor in value
    )


_PARTS: tuple[Callable[[dict[str, Any]], Iterator[str]], ...] = (_model, _options, _history, _extra, _optimizer)
