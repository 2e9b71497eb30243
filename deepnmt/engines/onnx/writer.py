"""Write a model for ONNX Runtime: encoder.onnx and step.onnx."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fairseq import checkpoint_utils

import deepnmt
from deepnmt.checkpoints.data_fit import trained_settings
from deepnmt.checkpoints.file import read
from deepnmt.engines.onnx import options as graph_options
from deepnmt.engines.onnx.engine import ENCODER, FACTS, STEP
from deepnmt.engines.onnx.graphs import encoder_graph, step_graph
from deepnmt.search.shortlist import Shortlist
from deepnmt.search.supported import check_shortlist
from deepnmt.text.record import SHORTLIST


def check(models: Sequence[Any], weights: str) -> None:
    """Raise `UserError` if the graphs cannot express the model of a checkpoint; see `deepnmt.engines.registry`."""
    options = getattr(models[0], "cfg", None)
    graph_options.check(models[0], getattr(options, "deep", options))


def write(checkpoints: list[Path], data: Path, folder: Path, weights: str) -> None:
    """Write the graphs of one checkpoint into a model folder, for its shortlists if any.

    See `deepnmt.engines.registry`.

    Raises:
        UserError: the graphs cannot express the model, or it cannot be read
    """
    deepnmt.register()
    read(checkpoints[0])
    source, target = trained_settings(checkpoints, data).languages
    models, cfg, _ = checkpoint_utils.load_model_ensemble_and_task(
        [str(checkpoints[0])], {"data": str(data), "source_lang": source, "target_lang": target}
    )
    # Old checkpoints lack later options, whose defaults then apply.
    options = getattr(models[0], "cfg", cfg.model)
    write_model(models[0].eval(), getattr(options, "deep", options), folder, weights)


def write_model(model: Any, options: Any, folder: Path, weights: str) -> None:
    """Write the graphs of a model in evaluation mode with its options. Raises `UserError` if they cannot express it."""
    graph_options.check(model, options)
    facts: dict[str, int] = {}
    for side, stack in (("source", model.encoder), ("target", model.decoder)):
        facts |= {f"{side}_positions": stack.max_positions(), f"{side}_types": stack.embed_tokens.num_embeddings}
    common = None
    if (folder / SHORTLIST).exists():
        check_shortlist(model)
        common = Shortlist.read(folder / SHORTLIST, facts["source_types"], facts["target_types"]).common
    for name, graph_of in ((ENCODER, encoder_graph), (STEP, step_graph)):
        graph = graph_of(model, str(options.activation_fn), weights == "int8", common)
        (folder / name).write_bytes(graph.model({FACTS: json.dumps(facts)}).SerializeToString())
