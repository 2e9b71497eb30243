"""Small models as graphs of ONNX Runtime, in memory."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from deepnmt.engines.onnx.engine import ENCODER, STEP, OnnxEngine, session
from deepnmt.engines.onnx.writer import write_model
from support.searched_models import FEW


def options(given: dict[str, Any]) -> Namespace:
    """Options of a model, as its checkpoint has them."""
    return Namespace(**{"activation_fn": "relu", **given})


def onnx_engine(model: Any, given: dict[str, Any], words: Any = FEW, weights: str = "float32") -> OnnxEngine:
    """The engine of a model that was built with the options `given`."""
    with TemporaryDirectory() as folder:
        write_model(model, options(given), Path(folder), weights)
        return engine_of(Path(folder), words)


def engine_of(folder: Path, words: Any = FEW) -> OnnxEngine:
    """The engine of the graphs in a folder."""
    return OnnxEngine(session(folder / ENCODER, 1), session(folder / STEP, 1), words.symbols, words.symbols)
