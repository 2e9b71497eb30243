"""Write a folder for transformers: its configuration, generation settings, tokeniser, model card and weights."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deepnmt.checkpoints.data_fit import trained_settings
from deepnmt.engines.ctranslate2.options import options_of
from deepnmt.engines.model_folder import CARD, ModelFolder
from deepnmt.engines.torch.fairseq_engine import load_checkpoints
from deepnmt.engines.torch.options import SUPPORT, describe
from deepnmt.engines.torch.writer import write_models
from deepnmt.engines.transformers.card import card
from deepnmt.engines.transformers.engine import generation, longest_target
from deepnmt.engines.transformers.shapes import shape_of
from deepnmt.errors import UserError

TOKENIZER = {"tokenizer_class": "DeepTranslationTokenizer"}


def write(checkpoints: list[Path], data: Path, folder: Path, weights: str) -> None:
    """Write config.json, tokenizer_config.json and model.safetensors of one checkpoint; see `deepnmt.engines.registry`.

    Raises:
        UserError: transformers cannot express the model or its text steps; a line for each reason
    """
    settings = trained_settings(checkpoints, data)
    if settings.placeholders:
        # A tokeniser makes text of a translation without its source.
        raise UserError(f"data with --placeholders {settings.placeholders}: use --engine torch")
    loaded = load_checkpoints(checkpoints, data, settings.languages, device="cpu")
    [model], described = loaded.models, describe(loaded)
    options = options_of(model)
    if options is None or not described:
        faults = () if options is None else tuple(SUPPORT.faults(options, {}))
        raise UserError(*(faults or (f"a {type(model).__name__} with these options: use --engine torch",)))
    tensors = dict(model.named_parameters(remove_duplicate=False))
    shape = shape_of(options, described["models"][0], tensors, settings.languages)
    shape.config.save_pretrained(folder)
    (folder / "tokenizer_config.json").write_text(json.dumps(TOKENIZER, indent=2) + "\n", encoding="utf-8")
    write_models(checkpoints, folder, weights, shape.names, shape.tables)


def finish(folder: ModelFolder, scores: Mapping[str, Any]) -> None:
    """Write the files that say how well and with which search a model translates.

    Args:
        folder: with the result of its check
        scores: of `deepnmt score`, for the card; empty: none
    """
    longest = min(folder.search.max_len_b, longest_target(folder))
    generation(folder.search, longest).save_pretrained(folder.path)
    (folder.path / CARD).write_text(card(folder, scores), encoding="utf-8")
