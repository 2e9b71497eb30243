"""Whether the checkpoints that a training begins with fit it: `--fwd-from`, `--bwd-from` and `--fused-encoder`.

Shapes of tensors alone do not show this. Models of other directions, dictionaries, heads or norms may have the same.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from deepnmt.checkpoints.data_fit import check_model, check_subwords
from deepnmt.checkpoints.state import CheckpointState
from deepnmt.checkpoints.trained_model import computing_options, is_deep, model_config, option_faults
from deepnmt.errors import UserError
from deepnmt.model.config import DLCLTransformerConfig
from deepnmt.model.dual import STARTS, exchanged_options
from deepnmt.options.option_table import option
from deepnmt.text.dictionary import read_types
from deepnmt.text.subword_identity import SOURCE, SubwordIdentity

FORWARD, BACKWARD, ENCODER = *STARTS, "fused_encoder"
# Options of an encoder that have no stack's name.
OF_ENCODERS = (
    *("activation_fn", "no_scale_embedding", "no_token_positional_embeddings", "layernorm_embedding"),
    *("relative_positions", "residual_scale", "dlcl_granularity", "dlcl_window", "dlcl_softmax", "dlcl_embedding_norm"),
)
# Its encoder reads both languages.
OF_BOTH_LANGUAGES = "deep_mass"


def missing_starts(model: Any) -> Iterator[str]:
    """Yield the checkpoints that a model's options name, but that are not there."""
    for name in (FORWARD, BACKWARD, ENCODER):
        if (path := getattr(model, name, None)) and not Path(path).is_file():
            yield f"{option(name)}: checkpoint '{path}' not found"


def check_starts(config: DLCLTransformerConfig, data: Path, languages: tuple[str, str]) -> None:
    """Raise `UserError`, a line for each fault, if checkpoints do not fit a model, its data folder and languages."""
    faults: list[str] = []
    for name in (FORWARD, BACKWARD, ENCODER):
        if path := getattr(config, name, None):
            try:
                faults += (f"{option(name)}: {fault}" for fault in _faults(name, Path(path), config, data, languages))
            except UserError as error:
                faults += (f"{option(name)}: {line}" for line in str(error).splitlines())
    if faults:
        raise UserError(*faults)


def _faults(
    name: str, path: Path, config: DLCLTransformerConfig, data: Path, languages: tuple[str, str]
) -> Iterator[str]:
    """Yield the options of a checkpoint's model that do not fit. Raises `UserError` for another text or direction."""
    state, wanted = CheckpointState.of(path, numbers=False), computing_options(config)
    if name == ENCODER:
        task, language = state.options("task"), languages[0]
        if task.get("_name") != OF_BOTH_LANGUAGES and task.get("source_lang") not in (None, language):
            yield f"{path}: must be an encoder of {language}, but is of {task['source_lang']}"
        check_subwords(state, SubwordIdentity.of({SOURCE: read_types(data / f"dict.{language}.txt")}, data))
        wanted = {each: value for each, value in wanted.items() if each.startswith("encoder_") or each in OF_ENCODERS}
    else:
        check_model(path, data, languages if name == FORWARD else languages[::-1])
        wanted = wanted if name == FORWARD else exchanged_options(wanted)
    # fairseq's own models have fewer options.
    if is_deep(state):
        yield from option_faults(state, wanted, computing_options(model_config(state)), "this training")
