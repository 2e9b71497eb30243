"""The permitted contents of a checkpoint, whoever wrote it.

Checkpoints are read with weights only, so that a malicious file cannot run code: types beside tensors, plain containers
and `SAFE_TYPES` are refused. Configurations contain text that is used later. fairseq evaluates some values (see
`deepnmt.literals`), omegaconf expands `${...}` (environment variables among them), and paths in a configuration name
embedding files to read.

Nothing here imports fairseq.
"""

import codecs
import importlib
from argparse import Namespace
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import Any

import numpy

from deepnmt.literals import evaluated_fault

NUMPY_1 = numpy.lib.NumpyVersion(numpy.__version__) < "2.0.0"
multiarray = importlib.import_module("numpy.core.multiarray" if NUMPY_1 else "numpy._core.multiarray")
NUMPY_DTYPES = ("float64", "float32", "int64", "int32", "bool")
SAFE_TYPES: list[Any] = [
    Namespace,  # options of fairseq's own models
    codecs.encode,  # how pickle writes the bytes of a numpy scalar
    multiarray.scalar,  # validation scores
    multiarray._reconstruct,
    numpy.ndarray,
    numpy.dtype,
    *(type(numpy.dtype(name)) for name in NUMPY_DTYPES),
]
EMBEDDING_PATH = "embed_path"  # the file's vectors would be replaced by the checkpoint's


def untrusted_faults(configuration: object) -> list[str]:
    """Return a line for each value of a `cfg` or `args` that would be evaluated and is no literal, or be expanded."""
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
    """Set the paths of embeddings to None, in place, but for options that the user has given.

    The checkpoint holds the vectors. fairseq keeps the options of an architecture without a dataclass as a namespace.
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
