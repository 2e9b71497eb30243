"""The types, beside tensors and plain containers, that a checkpoint may hold.

Checkpoints are read with weights only, so that a malicious file cannot run code; whatever is not listed here is
refused. This file imports neither fairseq nor the rest of the package: the scripts read it too.
"""

from __future__ import annotations

import argparse
import codecs
import importlib
from typing import Any

import numpy

NUMPY_1 = numpy.lib.NumpyVersion(numpy.__version__) < "2.0.0"
multiarray = importlib.import_module("numpy.core.multiarray" if NUMPY_1 else "numpy._core.multiarray")

NUMPY_DTYPES = ("float64", "float32", "int64", "int32", "bool")

SAFE_TYPES: list[Any] = [
    argparse.Namespace,  # options of fairseq's own models
    codecs.encode,  # how pickle writes the bytes of a numpy scalar
    multiarray.scalar,  # validation scores
    multiarray._reconstruct,
    numpy.ndarray,
    numpy.dtype,
    *(type(numpy.dtype(name)) for name in NUMPY_DTYPES),
]
