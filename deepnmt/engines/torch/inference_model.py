"""A model for inference, without fairseq: an encoder, and a decoder whose weights the search reads.

Parameters have fairseq's names. `describe` decides which models it computes; others are left to `fairseq_engine.py`.

Shapes: T x B x C is time, batch, channel; V types; H heads of D channels.
"""
# Twins: deepnmt/model/encoder.py, deepnmt/model/layers.py and deepnmt/model/attention.py compute it in a training.

import functools
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deepnmt.checkpoints.contents import is_buffer
from deepnmt.errors import UserError
from deepnmt.kernels import feed_forward
from deepnmt.kernels.fast_path import has_hooks, may_take
from deepnmt.kernels.hidden_keys import seen_keys
from deepnmt.kernels.short_attention import SHORT, Settings, attention
from deepnmt.model.build import build_history, build_recurrence, build_residual, build_skipping, relative_positions
from deepnmt.model.relative_scores import attend
from deepnmt.model.stack_choices import StackChoices
from deepnmt.model.sublayers import CROSS_ATTENTION, FEED_FORWARD, SELF_ATTENTION
from deepnmt.model.transparent import side_by_side
from deepnmt.options.option_table import MODEL, TRAINING, range_faults
from deepnmt.search.incremental.layer_steps import sublayer
from deepnmt.text.dictionary import SPECIAL_SYMBOLS

PADDING = SPECIAL_SYMBOLS.index("<pad>")
# --activation-fn, as in fairseq, which computes gelu in float32.
ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu, "gelu": F.gelu, "tanh": torch.tanh, "linear": lambda x: x
}  # fmt: skip
# More positions than this, sinusoids do not have.
MOST_POSITIONS = 100_000
# Defaults of options that records of earlier versions lack, and that are left out of a record where they hold.
LATER: Mapping[str, Any] = {
    **{"decoder_self_attention": "full", "average_attention_ffn": False},
    **{"shared_attention_blocks": "2", "shared_cross_attention": False},
    **{"encoder_share_layers": "none", "decoder_share_layers": "none"},
}


class InferenceOptions(StackChoices):
    """The options of a model that matter in inference, as attributes."""

    # Of a training alone.
    dlcl_init, dlcl_freeze, dlcl_dropout = "mean", False, 0.0

    def __init__(self, values: Mapping[str, Any]) -> None:
        vars(self).update({**LATER, **values})


class InferenceModel(nn.Module):
    """An encoder and a decoder.

    Args:
        options: see `InferenceOptions`
        tensors: of a checkpoint, by their names; they become the parameters
        sizes: V of source and target

    Raises:
        UserError: the tensors do not fit the options
    """

    def __init__(self, options: Mapping[str, Any], tensors: Mapping[str, Tensor], sizes: tuple[int, int]) -> None:
        super().__init__()
        try:
            if faults := [" ".join(fault) for fault in range_faults(options, MODEL, TRAINING)]:
                raise ValueError(", ".join(faults))
            self.encoder = Encoder(InferenceOptions(options), sizes[0])
            self.decoder = Decoder(InferenceOptions(options), sizes[1])
            self.load_state_dict({name: each for name, each in tensors.items() if not is_buffer(name)}, assign=True)
        except Exception as error:  # of many kinds, since the options may be anything
            reason = " ".join(str(error).split())[:300]
            raise UserError(f"'architecture' must describe the tensors of the model, but does not: {reason}") from error
        self.float().eval().requires_grad_(requires_grad=False)
        # Its maps are prepared once.
        self._is_generation_fast = True

    def get_normalized_probs(self, output: tuple[Tensor, object], log_probs: bool) -> Tensor:
        """Return the log-probabilities of logits, as in fairseq's models."""
        assert log_probs
        return F.log_softmax(output[0], dim=-1, dtype=torch.float32)


class Stack(nn.Module):
    """The parts that encoder and decoder share."""

    def __init__(self, options: InferenceOptions, name: str, types: int, positions: int) -> None:
        super().__init__()
        width, numbers = options.width(name), options.stack(name)
        self.padding_idx, self.longest = PADDING, min(operator.index(positions), MOST_POSITIONS)
        self.embed_tokens = nn.Embedding(types, width, PADDING, _weight=torch.empty(types, width, device="meta"))
        self.embed_scale = 1.0 if options.no_scale_embedding else math.sqrt(width)
        self.embed_positions: Optional[Positions] = None
        if not options.no_token_positional_embeddings:
            learned = getattr(options, f"{name}_learned_pos")
            self.embed_positions = Positions(positions + PADDING + 1, width, learned)
        self.layernorm_embedding = nn.LayerNorm(width) if options.layernorm_embedding else None
        self.layers = nn.ModuleList(Layer(options, name, index) for index in range(numbers.layers))
        self.history = build_history(options, name)
        self.skipping = build_skipping(options, name)
        final = numbers.norm.before and not (name == "decoder" and options.no_decoder_final_norm)
        self.layer_norm = nn.LayerNorm(width) if final else None


class Encoder(Stack):
    """See `deepnmt/model/encoder.py`."""

    def __init__(self, options: InferenceOptions, types: int) -> None:
        super().__init__(options, "encoder", types, options.max_source_positions)

    def forward(self, tokens: Tensor) -> dict[str, list[Tensor]]:
        """Return the output, T x B x C, and the padding, B x T, for tokens, B x T, as fairseq's encoder names them."""
        padding = tokens.eq(PADDING)
        hidden = padding if bool(padding.any()) else None
        x = self.embed_scale * self.embed_tokens(tokens)
        if self.embed_positions is not None:
            x = x + self.embed_positions(tokens)
        if self.layernorm_embedding is not None:
            x = self.layernorm_embedding(x)
        if hidden is not None:
            x = x * (1 - hidden.unsqueeze(-1).type_as(x))
        x = x.transpose(0, 1)
        past = self.history.start() if self.history is not None else None
        factors = [(1.0, 1.0)] * len(self.layers) if self.skipping is None else self.skipping.draw()
        for index, layer in enumerate(self.layers):
            x = layer(x if past is None else past.input(index, x), hidden, factors[index])
        x = x if past is None else past.finish(x)
        if self.layer_norm is not None:
            x = self.layer_norm(x)
        return {"encoder_out": [side_by_side(x)], "encoder_padding_mask": [padding]}


class Decoder(Stack):
    """The weights that `deepnmt/search/incremental/decoder_steps.py` reads."""

    quant_noise = project_in_dim = None

    def __init__(self, options: InferenceOptions, types: int) -> None:
        super().__init__(options, "decoder", types, options.max_target_positions)
        width, self.sums = options.width("decoder"), options.sums
        output = width if options.decoder_output_dim is None else int(options.decoder_output_dim)
        self.project_out_dim = linear(width, output, bias=False) if output != width else None
        self.output_projection = linear(output, types, bias=False)

    def output_layer(self, features: Tensor) -> Tensor:
        """Return the logits of features."""
        return self.output_projection(features)  # type: ignore[no-any-return]


class Positions(nn.Module):
    """The embeddings of positions, learned or sinusoids; the first has the row after padding."""

    weight: Tensor

    def __init__(self, rows: int, width: int, learned: bool) -> None:
        super().__init__()
        if learned:
            self.weight = nn.Parameter(torch.empty(rows, width, device="meta"))
        else:
            self.register_buffer("weight", sinusoids(rows, width), persistent=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return B x T x C for tokens, B x T; padding is not counted."""
        present = tokens.ne(PADDING)
        return F.embedding(present.cumsum(1) * present + PADDING, self.weight)


def sinusoids(rows: int, width: int) -> Tensor:
    """Return fairseq's table of sinusoids, rows x width."""
    half = width // 2
    rates = torch.exp(torch.arange(half, dtype=torch.float) * -(math.log(10000) / (half - 1)))
    angles = torch.arange(rows, dtype=torch.float).unsqueeze(1) * rates.unsqueeze(0)
    table = F.pad(torch.cat([torch.sin(angles), torch.cos(angles)], dim=1), (0, width % 2))
    table[PADDING] = 0
    return table


class Layer(nn.Module):
    """A layer of either stack; `forward` is the encoder's."""

    def __init__(self, options: InferenceOptions, stack: str, index: int) -> None:
        super().__init__()
        numbers, width = options.stack(stack), options.width(stack)
        follows = index not in numbers.leaders
        self.norm_position, self.nh = numbers.norm, numbers.heads
        self.self_attn: Optional[nn.Module] = None
        self.encoder_attn: Optional[Attention] = None
        if SELF_ATTENTION in numbers.sublayers:
            relative = relative_positions(options, stack)
            self.self_attn = build_recurrence(options, stack, linear) or Attention(
                width, width, numbers.heads, relative.max_length, relative.values
            )
            if follows:
                follow(self.self_attn, "q_proj", "k_proj")
        if CROSS_ATTENTION in numbers.sublayers:
            self.encoder_attn = Attention(width, options.width("encoder"), numbers.heads)
            self.encoder_attn.leads = options.shared_cross_attention
            if follows and options.shared_cross_attention:
                follow(self.encoder_attn, "q_proj", "k_proj", "v_proj")
        inner = getattr(options, f"{stack}_ffn_embed_dim")
        self.fc1, self.fc2 = linear(width, inner), linear(inner, width)
        self.activation_fn = ACTIVATIONS[options.activation_fn]
        normed = numbers.norm.before or numbers.norm.after
        for name in numbers.sublayers:
            self.add_module(f"{name}_layer_norm", nn.LayerNorm(width) if normed else nn.Identity())
            self.add_module(f"{name}_residual", build_residual(options, stack))

    def forward(self, x: Tensor, padding: Optional[Tensor], factors: tuple[float, ...]) -> Tensor:
        """Return the output, T x B x C; the padding is B x T, and the factors multiply the sublayers' functions."""
        branches: dict[str, Any] = {SELF_ATTENTION: self.self_attn, FEED_FORWARD: self.feed_forward}
        # In place of a step of a search.
        step: Any = padding
        layer_input = x
        for (name, branch), factor in zip(branches.items(), factors):
            x = sublayer(self, name, branch, factor)(x, step, layer_input)
        return x

    def feed_forward(self, x: Tensor, _: object) -> Tensor:
        """Return the feed-forward sublayer's function."""
        obstacle = feed_forward.obstacle(x, self.fc1, self.fc2) if self.activation_fn is F.relu else "not ReLU"
        if may_take("fast feed-forward", obstacle):
            return feed_forward.feed_forward(x, self.fc1, self.fc2)
        return self.fc2(self.activation_fn(self.fc1(x)))  # type: ignore[no-any-return]


def follow(attention: nn.Module, *projections: str) -> None:
    """Take projections from an attention that has another one's weights; see `deepnmt/model/shared_attention.py`."""
    attention.follows = True  # type: ignore[assignment]
    for name in projections:
        delattr(attention, name)


class Attention(nn.Module):
    """The projections of an attention; `forward` is self-attention in the encoder."""

    # What fairseq's modules may have besides.
    bias_k, add_zero_attn, beam_size = None, False, 1
    leads = follows = False

    def __init__(self, width: int, source: int, heads: int, longest: int = 0, values: bool = False) -> None:
        super().__init__()
        if width % heads:
            raise ValueError(f"{width} channels cannot be divided among {heads} heads")
        self.embed_dim, self.num_heads, self.head_dim, self.max_length = width, heads, width // heads, longest
        self.scaling = self.head_dim**-0.5
        self.q_proj, self.k_proj, self.v_proj = linear(width, width), linear(source, width), linear(source, width)
        self.out_proj = linear(width, width)
        self.relative_keys = self.relative_values = None
        if longest:
            vectors = functools.partial(torch.empty, 2 * longest + 1, self.head_dim, device="meta")
            self.relative_keys = nn.Parameter(vectors())
            self.relative_values = nn.Parameter(vectors()) if values else None

    def forward(self, x: Tensor, padding: Optional[Tensor]) -> Tensor:
        """Return T x B x C for T x B x C; the padding is B x T."""
        projections = (self.q_proj, self.k_proj, self.v_proj, self.out_proj)
        if self.relative_keys is not None or any(map(has_hooks, projections)):
            return self._by_calls(x, padding)
        if may_take("fast attention", f"there are more than {SHORT} positions" if len(x) > SHORT else None):
            return attention(x, x, projections, Settings(self.num_heads, self.scaling, padding, None, 0.0, False))[0]
        return F.multi_head_attention_forward(
            x, x, x, self.embed_dim, self.num_heads, None, torch.cat([each.bias for each in projections[:3]]),
            None, None, False, 0.0, self.out_proj.weight, self.out_proj.bias, False, padding, False,
            use_separate_proj_weight=True,
            q_proj_weight=self.q_proj.weight, k_proj_weight=self.k_proj.weight, v_proj_weight=self.v_proj.weight,
        )[0]  # fmt: skip

    def _by_calls(self, x: Tensor, padding: Optional[Tensor]) -> Tensor:
        """Return the same by calls of the projections."""
        length, batch, _ = x.shape
        shape = length, batch, self.num_heads, self.head_dim
        each = self.q_proj(x) * self.scaling, self.k_proj(x), self.v_proj(x)
        query, key, value = (part.view(shape).permute(1, 2, 0, 3) for part in each)
        mask = None if padding is None else seen_keys(padding, None, x.dtype)[:, None]
        if self.relative_keys is not None:
            vectors = self.relative_keys, self.relative_values
            attended = attend(query, key, value, vectors, mask, lambda weights: weights)[0]
        else:
            scores = torch.matmul(query, key.mT)
            attended = torch.matmul((scores if mask is None else scores + mask).softmax(-1), value)
        return self.out_proj(attended.permute(2, 0, 1, 3).reshape(x.shape))  # type: ignore[no-any-return]


def linear(inputs: int, outputs: int, bias: bool = True) -> nn.Linear:
    """Return a map without numbers of its own."""
    module = nn.Linear(1, 1, bias)
    module.in_features, module.out_features = inputs, outputs
    # Of its constructor, even one without memory would draw numbers, and import torch's compiler for it.
    module.weight = nn.Parameter(torch.empty(outputs, inputs, device="meta"))
    if bias:
        module.bias = nn.Parameter(torch.empty(outputs, device="meta"))
    return module
