"""The class of transformers that computes a model, its configuration, and the names of its parameters there.

    fsmt        plain post-norm stacks, with one or two vocabularies
    m2m_100     plain pre-norm stacks, with one embedding table for source, target and output
    deepnmt     all others (`modelling.py`)

In fsmt and m2m_100, parameters have fairseq's names after "model.".
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor
from transformers import FSMTConfig, M2M100Config, PreTrainedConfig

from deepnmt.engines.torch.inference_model import PADDING, sinusoids
from deepnmt.engines.transformers.modelling import DeepTranslationConfig
from deepnmt.model.config import DLCLTransformerConfig
from deepnmt.model.norm_position import NORM_POSITIONS
from deepnmt.model.self_attention import FULL
from deepnmt.model.stack import STACKS
from deepnmt.model.sublayers import CROSS_ATTENTION, FEED_FORWARD, SELF_ATTENTION

TABLES = ("decoder.embed_tokens.weight", "encoder.embed_tokens.weight", "decoder.output_projection.weight")
CLASSES = {
    "fsmt": "FSMTForConditionalGeneration",
    "m2m_100": "M2M100ForConditionalGeneration",
    "deepnmt": "DeepTranslationModel",
}
# Entries of both stacks, there and here.
ENTRIES = {name: name for name in ("layers", "attention_heads", "layerdrop")} | {"ffn_dim": "ffn_embed_dim"}
SUBLAYERS = {"encoder": (SELF_ATTENTION, FEED_FORWARD), "decoder": (SELF_ATTENTION, CROSS_ATTENTION, FEED_FORWARD)}


@dataclass(frozen=True)
class Shape:
    """A model for transformers.

    Attributes:
        config: of its class
        names: of its parameters there, by fairseq's
        tables: further tensors of a folder, by their names there; without them FSMT warns that it is untrained
    """

    config: PreTrainedConfig
    names: Mapping[str, str]
    tables: Mapping[str, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.config.architectures = [CLASSES[self.config.model_type]]
        # Of parameters in half precision, too.
        self.config.dtype = "float32"


def shape_of(
    options: DLCLTransformerConfig,
    architecture: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    languages: tuple[str, str],
) -> Shape:
    """Return the class of a model.

    Args:
        options: of the model
        architecture: the options that matter in inference, as a model folder has them
        tensors: parameters by their names
        languages: source and target
    """
    tied = {name: other for name in TABLES[1:] for other in TABLES[:1] if same(tensors[name], tensors[other])}
    norms = {options.norm(stack) for stack in STACKS}
    if is_plain(options) and norms == {NORM_POSITIONS["post"]}:
        return _fsmt(options, tensors, languages, one_table=len(tied) == 2)
    if is_plain(options) and norms == {NORM_POSITIONS["pre"]} and len(tied) == 2 and not options.no_decoder_final_norm:
        names = {name: f"model.{name}" for name in tensors}
        types = len(tensors[TABLES[0]])
        config = M2M100Config(vocab_size=types, **_sizes(options), tie_word_embeddings=True)
        return Shape(config, names | dict.fromkeys(TABLES, "model.shared.weight"))
    config = DeepTranslationConfig(
        architecture=dict(architecture),
        tied=tied,
        source_vocab_size=len(tensors[TABLES[1]]),
        vocab_size=len(tensors[TABLES[2]]),
        hidden_size=options.width("decoder"),
        num_hidden_layers=options.depth("decoder"),
        num_attention_heads=options.stack("decoder").heads,
    )
    return Shape(config, {name: tied.get(name, name) for name in tensors})


def same(one: Tensor, other: Tensor) -> bool:
    """Return whether two tensors are one."""
    return one.data_ptr() == other.data_ptr() and one.shape == other.shape


def is_plain(options: DLCLTransformerConfig) -> bool:
    """Return whether both stacks follow Vaswani 2017, with one width and sinusoids, whatever their norms are."""
    width = options.width("encoder")
    unset = ["layernorm_embedding", "no_token_positional_embeddings"]
    unset += [f"{stack}_{name}" for stack in STACKS for name in ("learned_pos", "max_relative_length")]
    if any(getattr(options, name) for name in unset):
        return False
    if any(getattr(options, f"decoder_{name}_dim") not in (None, width) for name in ("embed", "input", "output")):
        return False
    stacks = [options.stack(name) for name in STACKS]
    return all(
        stack.boundaries is None
        and not stack.sums
        and stack.sublayers == SUBLAYERS[stack.name]
        and stack.self_attention is FULL
        and stack.residual_scale == 1
        and not stack.residual_trained
        and {factor for factors in stack.inference_factors() for factor in factors} == {1.0}
        for stack in stacks
    )


def _fsmt(
    options: DLCLTransformerConfig, tensors: Mapping[str, Tensor], languages: tuple[str, str], one_table: bool
) -> Shape:
    names = {name: f"model.{name}" for name in tensors}
    if one_table:
        # Its class cannot tie two of the three.
        names |= dict.fromkeys(TABLES, f"model.{TABLES[0]}")
    config = FSMTConfig(
        langs=list(languages),
        src_vocab_size=len(tensors[TABLES[1]]),
        tgt_vocab_size=len(tensors[TABLES[0]]),
        tie_word_embeddings=one_table,
        forced_eos_token_id=None,
        **_sizes(options),
    )
    rows = config.max_position_embeddings + PADDING + 1
    tables = {f"model.{stack}.embed_positions.weight": sinusoids(rows, config.d_model) for stack in STACKS}
    return Shape(config, names, tables)


def _sizes(options: DLCLTransformerConfig) -> dict[str, Any]:
    """Return the entries that both classes have."""
    return {
        "d_model": options.width("encoder"),
        "activation_function": str(options.activation_fn),
        "max_position_embeddings": max(options.max_source_positions, options.max_target_positions),
        "scale_embedding": not options.no_scale_embedding,
        **{name: getattr(options, name) for name in ("dropout", "attention_dropout", "activation_dropout")},
        **{
            f"{stack}_{there}": getattr(options, f"{stack}_{here}")
            for stack in STACKS
            for there, here in ENTRIES.items()
        },
    }
