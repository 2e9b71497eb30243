"""Make a checkpoint's configuration safe to build a model from, whoever wrote it.

Loading with weights only keeps a checkpoint's objects from running code. Its configuration is text that is used later:
fairseq evaluates some values (see `deepnmt.literals`), omegaconf expands `${...}` (environment variables among them),
and embeddings are read from the paths that a configuration names.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import Any

from deepnmt.literals import evaluated_fault

EMBEDDING_PATH = "embed_path"  # the file's vectors would be replaced by the checkpoint's


def untrusted_faults(configuration: object) -> list[str]:
    """Return a line for each value that would be evaluated and is no literal, or that would be expanded.

    Args:
        configuration: a checkpoint's `cfg`, or the contents of its `args`: nested mappings, namespaces and sequences
    """
    faults = []
    for key, value in _leaves(configuration, ""):
        if not isinstance(value, str):
            continue
        if "${" in value:
            faults.append(f"{key} must be a plain value, but is {value[:60]!r}, which would be expanded")
        elif fault := evaluated_fault(key, value):
            faults.append(f"{key} {fault}")
    return faults


def forget_embedding_paths(model: MutableMapping[str, Any] | Namespace, kept: Mapping[str, object]) -> None:
    """Set the paths of embeddings to None, in place: the checkpoint holds the trained vectors.

    Args:
        model: the options of a checkpoint's model; fairseq keeps those of an architecture without a dataclass as a
            namespace
        kept: options that the user has given, which stay
    """
    options: MutableMapping[str, Any] = vars(model) if isinstance(model, Namespace) else model
    for name in list(options):
        if str(name).endswith(EMBEDDING_PATH) and name not in kept and options[name] is not None:
            options[name] = None


def _leaves(value: object, key: str) -> Iterator[tuple[str, object]]:
    """Yield each plain value under its dotted key."""
    if isinstance(value, Namespace):
        value = vars(value)
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _leaves(inner, f"{key}.{name}" if key else str(name))
    elif isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        for number, inner in enumerate(value):
            yield from _leaves(inner, f"{key}[{number}]")
    else:
        yield key, value
