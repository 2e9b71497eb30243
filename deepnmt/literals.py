"""Values that fairseq reads from text by `eval`, read without running code.

A checkpoint's configuration and a recipe may come from somebody else. When it builds a model, an optimizer or a
criterion, fairseq evaluates some texts as Python (`encoder_xformers_att_config`, `adam_betas`, ...). Opening a
checkpoint could thus run a program. `evaluate_literal` replaces `eval` in all of fairseq's modules. It knows numbers,
texts, None, True, False, tuples, lists and dictionaries. Between numbers or sequences it knows `+` and `*`, as in
"[(512, 10, 5)] + [(512, 3, 2)] * 4", and nothing else.
"""

from __future__ import annotations

import ast
from typing import Any, Optional, Union

from deepnmt.errors import in_place_of

Value = Union[None, bool, int, float, str, bytes, complex, tuple["Value", ...], list["Value"], dict["Value", "Value"]]

# Options that fairseq reads by `eval`, and the endings of others; None and "" mean that they are unused.
EVALUATED = (
    "adam_betas",
    "adamax_betas",
    "adafactor_eps",
    "lamb_betas",
    "adaptive_softmax_cutoff",
    "adaptive_input_cutoff",
    "character_filters",
    "conv_feature_layers",
    "model_overrides",
    "optimizer_overrides",
    "pipeline_balance",
    "pipeline_devices",
    "wer_args",
    "xformers_att_config",
)

LONGEST = 10_000  # characters of a text, entries of a sequence: more is an attack or an accident
LARGEST = 2**63


def evaluate_literal(text: object, *_: object) -> Value:
    """Return the value of a literal, as `eval` would, without running code; namespaces are of no use.

    Raises:
        TypeError: `text` is not a text, as for `eval`
        UserError: `text` is not a literal
    """
    if not isinstance(text, str):
        raise TypeError(f"must be a text, but is a {type(text).__name__}")
    fault = literal_fault(text)
    if fault is not None:
        raise in_place_of(_kind(text), f"a value in a configuration {fault}")
    return _value(ast.parse(text.strip(), mode="eval").body)


def _kind(text: str) -> type[Exception]:
    """Return the type of `eval`'s error for most texts that are not literals."""
    try:
        ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return SyntaxError
    return NameError


def literal(text: object) -> Any:
    """Return the value of a plain literal, without `+` and `*`; None for any other text."""
    try:
        return ast.literal_eval(str(text))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def literal_fault(text: str) -> Optional[str]:
    """Return the fault of a literal ("must be ..., but is ..."), or None for a valid one."""
    shown = repr(text if len(text) <= 60 else f"{text[:57]}...")
    try:
        if len(text) > LONGEST:
            raise ValueError
        _value(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return f"must be a literal such as 0.1 or (0.9, 0.98), but is {shown}"
    return None


def evaluated_fault(name: str, value: object) -> Optional[str]:
    """Return the fault of the value of an option that fairseq reads by `eval`, or None; also of any other option.

    The name is fairseq's, optionally after the names of its groups.
    """
    evaluated = isinstance(value, str) and value != "" and name.endswith(EVALUATED)
    return literal_fault(str(value)) if evaluated else None


def _value(node: ast.expr) -> Value:
    """Return the value of a parsed literal; raise ValueError or TypeError for anything else."""
    if isinstance(node, ast.BinOp):
        return _joined(node)
    if isinstance(node, ast.Tuple):
        return tuple(_value(entry) for entry in node.elts)
    if isinstance(node, ast.List):
        return [_value(entry) for entry in node.elts]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.UAdd, ast.USub)):
        number = _number(_value(node.operand))
        return number if isinstance(node.op, ast.UAdd) else -number
    value: Value = ast.literal_eval(node)
    return value


def _joined(node: ast.BinOp) -> Value:
    left, right = _value(node.left), _value(node.right)
    if isinstance(node.op, ast.Add):
        if isinstance(left, list) and isinstance(right, list):
            return _short([*left, *right])
        if isinstance(left, tuple) and isinstance(right, tuple):
            return tuple(_short([*left, *right]))
        return _number(left) + _number(right)
    if isinstance(node.op, ast.Mult):
        sequence, times = (left, right) if isinstance(left, (list, tuple)) else (right, left)
        if isinstance(sequence, (list, tuple)):
            if not isinstance(times, int) or len(sequence) * times > LONGEST:
                raise ValueError
            return sequence * times
        return _number(left) * _number(right)
    raise ValueError


def _number(value: Value) -> Union[int, float]:
    if not isinstance(value, (int, float)) or (isinstance(value, int) and abs(value) > LARGEST):
        raise ValueError
    return value


def _short(values: list[Value]) -> list[Value]:
    if len(values) > LONGEST:
        raise ValueError
    return values
