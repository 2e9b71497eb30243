"""Folders of transformers with a plain FSMT (post-norm) or M2M100 (pre-norm) model, as parameters of fairseq.

The class tells the norms, and config.json the rest; nothing here imports transformers. Parameters have fairseq's names
after "model.". Sinusoids may be among them, and are left out. A table that two names share may have one of them alone.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from deepnmt.checkpoints.file import load
from deepnmt.checkpoints.importing.inference import Given
from deepnmt.checkpoints.safetensors_file import read_tensors
from deepnmt.errors import UserError
from deepnmt.model.stack import STACKS
from deepnmt.text.dictionary import END, SPECIAL_SYMBOLS, read_types
from deepnmt.text.record import check_kinds, read_record
from deepnmt.text.subwords import SEPARATOR

NORMS = {"fsmt": "post", "m2m_100": "pre"}
# By the classes themselves, which may leave them out.
NUMBERS = {"encoder_attention_heads": 16, "decoder_attention_heads": 16, "max_position_embeddings": 1024}
DEFAULTS = {**NUMBERS, "activation_function": "relu", "scale_embedding": True}
# Numbers of symbols that fairseq's dictionaries begin with.
SYMBOLS = {"pad_token_id": SPECIAL_SYMBOLS.index("<pad>"), "eos_token_id": END, "decoder_start_token_id": END}
TIED = {"fsmt": False, "m2m_100": True}
ACTIVATIONS = ("relu", "gelu", "tanh", "linear")
TABLES = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "decoder.output_projection.weight")
WEIGHTS, INDEX, EARLIER = "model.safetensors", "model.safetensors.index.json", "pytorch_model.bin"


def read_folder(folder: Path) -> tuple[dict[str, Tensor], Given, dict[str, Any]]:
    """Return the parameters by fairseq's names, the facts that they do not reveal, and further options of the model.

    Raises:
        UserError: a file is missing or faulty, or the model is of another class
    """
    path = folder / "config.json"
    config = {**DEFAULTS, **read_record(path, model_type=str)}
    kind = config["model_type"]
    if kind not in NORMS:
        raise UserError(f"{path}: 'model_type' must be one of {', '.join(NORMS)}, but is '{kind}'")
    check_kinds(path, config, {name: type(value) for name, value in DEFAULTS.items()})
    faults = [f"'{name}' must be at least 1, but is {config[name]}" for name in NUMBERS if config[name] < 1]
    if (activation := config["activation_function"]) not in ACTIVATIONS:
        faults.append(f"'activation_function' must be one of {', '.join(ACTIVATIONS)}, but is '{activation}'")
    tensors = _tensors(folder)
    # The importer refuses weights without any layer.
    found = {f"{stack}_layers": number for stack in STACKS if (number := _layers(tensors, stack))}
    faults += [
        f"'{name}' must be {number}, but is {json.dumps(config[name])[:60]}"
        for name, number in {**SYMBOLS, **found}.items()
        if config.get(name) not in (None, number)
    ]
    if faults:
        raise UserError(*(f"{path}: {fault}" for fault in faults))
    norm = NORMS[kind]
    given = Given(
        heads={stack: config[f"{stack}_attention_heads"] for stack in STACKS},
        norm=dict.fromkeys(STACKS, norm),
        positions="sinusoidal",
    )
    options: dict[str, Any] = {
        f"max_{side}_positions": config["max_position_embeddings"] for side in ("source", "target")
    }
    if activation != "relu":
        options["activation_fn"] = activation
    if not config["scale_embedding"]:
        options["no_scale_embedding"] = True
    tied = config.get("tie_word_embeddings", TIED[kind])
    return _named(tensors, bool(tied)), given, options


def _tensors(folder: Path) -> dict[str, Tensor]:
    """Return all tensors of a folder by their names there."""
    names, noun = [EARLIER], f"file; the folder needs {WEIGHTS} or {EARLIER}"
    if (folder / WEIGHTS).is_file():
        names = [WEIGHTS]
    elif (folder / INDEX).is_file():
        parts = read_record(folder / INDEX, weight_map=dict)["weight_map"].values()
        names, noun = sorted({Path(str(part)).name for part in parts}), f"file, but {folder / INDEX} lists it"
    kind = "the weights of a model, as transformers writes them"
    found: dict[str, Tensor] = {}
    for path in (folder / name for name in names):
        part = load(path, noun, kind, read_tensors)
        if not isinstance(part, Mapping) or not all(isinstance(value, Tensor) for value in part.values()):
            raise UserError(f"{path}: must be {kind}, but is another file")
        found.update({str(name): tensor for name, tensor in part.items()})
    return found


def _layers(tensors: Iterable[str], stack: str) -> int:
    """Return the number of layers of a stack: a part of the weights may be missing."""
    return len({name.split(f"{stack}.layers.")[1].split(".")[0] for name in tensors if f"{stack}.layers." in name})


def _named(tensors: Mapping[str, Tensor], tied: bool) -> dict[str, Tensor]:
    """Return tensors by fairseq's names."""
    found = {name.removeprefix("model."): tensor for name, tensor in tensors.items()}
    found = {name: tensor for name, tensor in found.items() if ".embed_positions." not in name}
    table = found.pop("shared.weight", None)
    if "lm_head.weight" in found:
        found[TABLES[2]] = found.pop("lm_head.weight")
    if table is None and tied:
        table = next((found[name] for name in TABLES if name in found), None)
    if table is not None and tied:
        found = {**dict.fromkeys(TABLES, table), **found}
    return found


def check_vocabularies(folder: Path, data: Path, languages: tuple[str, str]) -> None:
    """Raise `UserError` if the folder has a vocabulary with other types, or in another order, than the data's."""
    for side, language in zip(("src", "tgt"), languages):
        path, types = data / f"dict.{language}.txt", read_types(data / f"dict.{language}.txt")
        own, fsmt = folder / path.name, folder / f"vocab-{side}.json"
        if own.is_file() and read_types(own) != types:
            raise UserError(f"{path}: must have the types of {own}, in their order, but has others")
        if fsmt.is_file() and read_record(fsmt) != {_as_fsmt(name): number for number, name in enumerate(types)}:
            raise UserError(f"{path}: must have the types of {fsmt}, in their order, but has others")


def _as_fsmt(name: str) -> str:
    """Return a type as FSMT's vocabulary has it, with a mark at the end of words."""
    if name in SPECIAL_SYMBOLS:
        return name
    return name.removesuffix(SEPARATOR) if name.endswith(SEPARATOR) else f"{name}</w>"
