"""The engines, by name: a row and a folder each.

The two modules in the folder `deepnmt/engines/NAME/` are imported on demand. A machine therefore needs only the
libraries of the engines that it uses:

    engine.py    load(folder: ModelFolder, threads: int | None) -> Engine
    writer.py    check(models: Sequence[Any], weights: str) -> None, if some are refused
                 write(checkpoints: list[Path], data: Path, folder: Path, weights: str) -> None
                 finish(folder: ModelFolder, scores: Mapping[str, Any]) -> None, if files depend on the check

A folder of another engine than torch also holds the torch engine's files. They translate where the engine is not
installed, and compute search options that the engine lacks.

The options.py of an engine with graphs of its own declares the models that it supports (`deepnmt/engines/support.py`).
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from deepnmt.engines.torch.late_rules import leave_rules_for_later
from deepnmt.errors import UserError

if TYPE_CHECKING:
    from deepnmt.engines.engine import Engine
    from deepnmt.engines.model_folder import ModelFolder

# The libraries that an engine needs beside the package's own, and the extras that install them. The first engine
# computes every model.
ENGINES: Mapping[str, Mapping[str, str]] = {
    "torch": {},
    "ctranslate2": {"ctranslate2": "ctranslate2"},
    "onnx": {"onnxruntime": "onnx", "onnx": "onnx-export"},
    "transformers": {"transformers": "transformers"},
}
# Engines for one model in some number formats; the others take ensembles and all formats.
FORMATS = {"ctranslate2": ("float32", "int8"), "onnx": ("float32", "int8"), "transformers": ("float32",)}
# Engines that search with a shortlist for each sentence; CTranslate2 shares one in a batch.
SHORTLISTS = ("onnx", "torch")
# Engines whose folders have a model card, and whose default search is another program's, without reranking.
CARDS = ("transformers",)
# The choice of an export that names no engine.
AUTO = "auto"
# Channels of the widest models that CTranslate2 computes faster than ONNX Runtime (docs/translating.md).
NARROW = 256


def by_speed(width: int, weights: str) -> tuple[str, ...]:
    """Return the engines for the CPU, the fastest first, for models of a width and their number format."""
    faster = ("ctranslate2", "onnx") if width <= NARROW or weights != "float32" else ("onnx", "ctranslate2")
    return (*faster, "torch")


def load_engine(folder: ModelFolder, threads: int | None = None) -> Engine:
    """Return the engine of a model folder, limited to `threads` threads; None: no limit.

    Raises:
        UserError: a library is missing, or the engine refuses the model
    """
    if threads is not None and threads < 1:
        raise UserError(f"--threads must be at least 1, but is {threads}")
    from deepnmt.engines.fallback import TorchWeights, WithFallback  # here, since the record of a folder imports this

    def load(engine: str) -> Engine:
        if engine != folder.engine:
            folder.check_torch_weights()
        if engine == "torch":
            leave_rules_for_later()
        loaded: Engine = engine_module(engine, "engine").load(folder, threads)
        return loaded

    if folder.engine == "torch" or not folder.has_torch_weights():
        return load(folder.engine)
    fallback = TorchWeights(folder.path, lambda: load("torch"))
    try:
        return WithFallback(load(folder.engine), fallback)
    except MissingLibraryError as error:
        if find_spec("torch") is None:
            raise
        return fallback.engine(f" ({error})")


class MissingLibraryError(UserError):
    """A library of an engine is not installed."""


def engine_module(engine: str, part: str) -> Any:
    """Return the module "engine" or "writer" of an engine. Raises `MissingLibraryError`."""
    try:
        return importlib.import_module(f"deepnmt.engines.{engine}.{part}")
    except ModuleNotFoundError as error:
        library = str(error.name).split(".")[0]
        extra = ENGINES[engine].get(library)
        if extra is None:
            raise
        raise MissingLibraryError(f"--engine {engine}: needs {library}; pip install 'deepnmt[{extra}]'") from error
