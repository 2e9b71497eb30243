"""The engines, by name: a row and a folder each.

The two modules in the folder `deepnmt/engines/NAME/` are imported on demand. A machine therefore needs only the
libraries of the engines that it uses:

    engine.py    load(folder: ModelFolder, threads: int | None) -> Engine
    writer.py    write(checkpoints: list[Path], data: Path, folder: Path, weights: str) -> None

An engine with graphs of its own says in options.py which models it can express (`deepnmt/engines/support.py`).
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

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
}


def load_engine(folder: ModelFolder, threads: int | None = None) -> Engine:
    """Return the engine of a model folder, limited to `threads` threads; None: no limit.

    Raises:
        UserError: a library is missing, or the engine refuses the model
    """
    if threads is not None and threads < 1:
        raise UserError(f"--threads must be at least 1, but is {threads}")
    engine: Engine = engine_module(folder.engine, "engine").load(folder, threads)
    return engine


def engine_module(engine: str, part: str) -> Any:
    """Return the module "engine" or "writer" of an engine. Raises `UserError` where a library is missing."""
    try:
        return importlib.import_module(f"deepnmt.engines.{engine}.{part}")
    except ModuleNotFoundError as error:
        library = str(error.name).split(".")[0]
        extra = ENGINES[engine].get(library)
        if extra is None:
            raise
        raise UserError(f"--engine {engine}: needs {library}; pip install 'deepnmt[{extra}]'") from error
