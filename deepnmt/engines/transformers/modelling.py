"""Models of this package as transformers' models: DLCL, groups, all norms and residuals, all kinds of attention.

Parameters have fairseq's names. The modules without their arithmetic are the torch engine's.

Shapes: B x T x C is batch, time, channel, with S for the source's time; H heads of D channels; V types.
"""
# Twins: deepnmt/model/layers.py and deepnmt/model/attention.py compute it in a training, deepnmt/search/incremental in
# a search.

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Optional

import torch
from torch import Tensor, nn
from transformers import GenerationMixin, PreTrainedConfig, PreTrainedModel
from transformers import initialization as init
from transformers.cache_utils import DynamicCache, EncoderDecoderCache
from transformers.modeling_outputs import BaseModelOutput, Seq2SeqLMOutput

from deepnmt.engines.torch.inference_model import (
    PADDING,
    Attention,
    Decoder,
    Encoder,
    InferenceOptions,
    Layer,
    Positions,
    Stack,
    sinusoids,
)
from deepnmt.kernels.gated_mean import gated_mean
from deepnmt.kernels.output_norm import OutputNorm
from deepnmt.model.average_attention import AverageAttention
from deepnmt.model.dlcl import LayerHistory
from deepnmt.model.relative_scores import attend
from deepnmt.model.residual import Residual
from deepnmt.model.row_state import RowState
from deepnmt.model.sublayers import CROSS_ATTENTION, FEED_FORWARD, SELF_ATTENTION
from deepnmt.model.transparent import TopSums, part_of, side_by_side
from deepnmt.search.incremental.layer_steps import sublayer
from deepnmt.text.dictionary import END, SPECIAL_SYMBOLS

IGNORED = -100  # of transformers, in labels
# Of a layer's sublayers, by their names; the second argument is a search's.
Functions = dict[str, Callable[..., Tensor]]


class DeepTranslationConfig(PreTrainedConfig):  # type: ignore[misc]
    """The configuration of a model.

    Attributes:
        architecture: the options of the model, as in a model folder's record
        tied: names of parameters that are others, by their names
        source_vocab_size: types of the source
        vocab_size: types of the target
    """

    model_type = "deepnmt"

    architecture: dict[str, Any] | None = None
    tied: dict[str, str] | None = None
    source_vocab_size: int = len(SPECIAL_SYMBOLS)
    vocab_size: int = len(SPECIAL_SYMBOLS)
    # Names that transformers looks up.
    hidden_size: int = 0
    num_hidden_layers: int = 0
    num_attention_heads: int = 0
    is_encoder_decoder: bool = True
    tie_word_embeddings: bool = True
    use_cache: bool = True
    initializer_range: float = 0.02
    bos_token_id: int | None = SPECIAL_SYMBOLS.index("<s>")
    pad_token_id: int | None = PADDING
    eos_token_id: int | None = END
    decoder_start_token_id: int | None = END


class DeepTranslationModel(PreTrainedModel, GenerationMixin):  # type: ignore[misc]
    """An encoder, a decoder and the projection to the target's types, without dropout."""

    config_class = DeepTranslationConfig
    main_input_name = "input_ids"

    def __init__(self, config: DeepTranslationConfig) -> None:
        super().__init__(config)
        options = InferenceOptions(config.architecture or {})
        self.encoder = SourceEncoder(options, config.source_vocab_size)
        self.decoder = TargetDecoder(options, config.vocab_size)
        self._tied_weights_keys = dict(config.tied or {})
        device = torch.empty(0).device
        if device.type != "meta":
            # The modules are made without numbers.
            self.to_empty(device=device)
        self.post_init()

    def get_encoder(self, modality: str | None = None) -> nn.Module:
        """Return the encoder."""
        return self.encoder

    def get_input_embeddings(self) -> nn.Module:
        """Return the embeddings of the source."""
        return self.encoder.embed_tokens

    def set_input_embeddings(self, value: nn.Embedding) -> None:
        """Set the embeddings of the source."""
        self.encoder.embed_tokens = value

    def get_output_embeddings(self) -> nn.Module:
        """Return the projection to the target's types."""
        return self.decoder.output_projection

    def forward(
        self,
        input_ids: Optional[Tensor] = None,
        attention_mask: Optional[Tensor] = None,
        decoder_input_ids: Optional[Tensor] = None,
        decoder_attention_mask: Optional[Tensor] = None,
        encoder_outputs: Any = None,
        cache: Optional[EncoderDecoderCache] = None,
        labels: Optional[Tensor] = None,
        use_cache: Optional[bool] = None,
        **kwargs: Any,
    ) -> Seq2SeqLMOutput:
        """Return logits, B x T x V, and the loss of the labels.

        Args:
            input_ids: B x S
            attention_mask: B x S, 0 at padding; None: where the source has padding
            decoder_input_ids: B x T, which begin with the end symbol; with a cache, the newest ones
            decoder_attention_mask: 0 at padding, of all positions so far
            encoder_outputs: of the encoder, in place of the source
            cache: of the positions so far
            labels: B x T, -100 or padding where they do not count; without decoder_input_ids, these are the labels
                shifted by one
            use_cache: return a cache
            kwargs: of transformers, ignored
        """
        if encoder_outputs is None:
            encoder_outputs = self.encoder(input_ids, attention_mask)
        if attention_mask is None and input_ids is not None:
            attention_mask = input_ids.ne(PADDING)
        if labels is not None:
            labels = labels.masked_fill(labels.eq(IGNORED), PADDING)
            if decoder_input_ids is None:
                decoder_input_ids = torch.cat([torch.full_like(labels[:, :1], END), labels[:, :-1]], dim=1)
            use_cache = False
        if cache is None and use_cache:
            cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
        features = self.decoder(decoder_input_ids, encoder_outputs[0], attention_mask, decoder_attention_mask, cache)
        logits = self.decoder.output_layer(features)
        loss = None
        if labels is not None:
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=PADDING)
        return Seq2SeqLMOutput(loss=loss, logits=logits, cache=cache, encoder_last_hidden_state=encoder_outputs[0])

    def _init_weights(self, module: nn.Module) -> None:
        """Give a module its first numbers, and the tables that no file has."""
        super()._init_weights(module)
        if isinstance(module, Positions):
            if isinstance(module.weight, nn.Parameter):
                init.normal_(module.weight, std=self.config.initializer_range)
            else:
                init.copy_(module.weight, sinusoids(*module.weight.shape))
        elif isinstance(module, LayerHistory):
            init.copy_(module.weight, module.initial_weight(len(module.layer_norms)))
            init.copy_(module.reads, module.readable(len(module.layer_norms)))
        elif isinstance(module, TopSums):
            init.zeros_(module.weight)
        elif isinstance(module, OutputNorm):
            init.ones_(module.weight)
            init.zeros_(module.bias)
        elif isinstance(module, Residual) and module.weight is not None:
            init.ones_(module.weight)
        elif isinstance(module, Attention):
            for vectors in (module.relative_keys, module.relative_values):
                if vectors is not None:
                    init.normal_(vectors, std=self.config.initializer_range)


class SourceEncoder(Encoder):
    """The encoder of the torch engine, with transformers' arguments."""

    main_input_name = "input_ids"

    def forward(self, input_ids: Tensor, attention_mask: Optional[Tensor] = None, **kwargs: Any) -> BaseModelOutput:  # type: ignore[override]
        """Return the states, B x S x C, or R sums side by side, B x S x RC."""
        present = input_ids.ne(PADDING) if attention_mask is None else attention_mask.bool()
        mask = hidden(present[:, None, None], self.embed_tokens.weight.dtype)

        def attentions(number: int, module: Layer) -> Functions:
            return {SELF_ATTENTION: lambda y, _: self_attention(module.self_attn, y, mask, None, number, Shared())}

        x = embedded(self, input_ids, 0)
        # As in fairseq, padding begins as zeros.
        return BaseModelOutput(last_hidden_state=side_by_side(run(self, x * present.unsqueeze(-1), attentions)))


class TargetDecoder(Decoder):
    """The decoder of the torch engine, with a forward pass of its own."""

    def forward(
        self,
        tokens: Tensor,
        source: Tensor,
        source_present: Optional[Tensor],
        present: Optional[Tensor],
        cache: Optional[EncoderDecoderCache],
    ) -> Tensor:
        """Return the features, B x T x C, of the newest tokens, B x T; the others' keys and values are in the cache."""
        past = 0 if cache is None else int(cache.get_seq_length())
        dtype, positions = self.embed_tokens.weight.dtype, torch.arange(past + tokens.size(1), device=tokens.device)
        seen = positions <= positions[past:, None]
        if present is not None:
            # A position sees itself, so that padding before the text sees something.
            seen = seen & present[:, None].bool() | (positions == positions[past:, None])
        mask = hidden(seen.view(-1, 1, *seen.shape[-2:]), dtype)
        shared = Shared(None if present is None else present.bool())
        source_mask = None if source_present is None else hidden(source_present[:, None, None].bool(), dtype)

        def attentions(number: int, module: Layer) -> Functions:
            functions: Functions = {}
            if isinstance(module.self_attn, RowState):
                functions[SELF_ATTENTION] = lambda y, _: recurrence(module.self_attn, y, cache, number, shared.present)
            elif module.self_attn is not None:
                own = mask, cache, number, shared
                functions[SELF_ATTENTION] = lambda y, _: self_attention(module.self_attn, y, *own)
            if module.encoder_attn is not None:
                attention = cross_attention if module.self_attn is not None else merged_attention
                memory = part_of(source, number, self.sums), source_mask, cache, number, shared
                functions[CROSS_ATTENTION] = lambda y, _: attention(module.encoder_attn, y, *memory)
            return functions

        # Padding in the cache has no position.
        before = past if shared.present is None else shared.present[:, :past].sum(1, keepdim=True)
        x = run(self, embedded(self, tokens, before), attentions)
        return x if self.project_out_dim is None else self.project_out_dim(x)


def embedded(stack: Stack, tokens: Tensor, past: int | Tensor) -> Tensor:
    """Return the input of a stack's layers, B x T x C, for tokens after `past` others: a number, or B x 1."""
    x: Tensor = stack.embed_scale * stack.embed_tokens(tokens)
    if stack.embed_positions is not None:
        present = tokens.ne(PADDING)
        x = x + nn.functional.embedding((present.cumsum(1) + past) * present + PADDING, stack.embed_positions.weight)
    return x if stack.layernorm_embedding is None else stack.layernorm_embedding(x)


def run(stack: Stack, x: Tensor, attentions: Callable[[int, Layer], Functions]) -> Tensor:
    """Return the output of a stack's layers, B x T x C; `attentions` gives the functions of a layer before the last."""
    past = None if stack.history is None else stack.history.start()
    factors = [(1.0, 1.0, 1.0)] * len(stack.layers) if stack.skipping is None else stack.skipping.draw()
    # In place of a step of a search.
    step: Any = None
    modules: Any = stack.layers
    for number, module in enumerate(modules):
        x = x if past is None else past.input(number, x)
        layer_input, functions = x, attentions(number, module)
        functions[FEED_FORWARD] = lambda y, _, own=module: own.fc2(own.activation_fn(own.fc1(y)))
        for (name, function), factor in zip(functions.items(), factors[number]):
            x = sublayer(module, name, function, factor)(x, step, layer_input)
    x = x if past is None else past.finish(x)
    return x if stack.layer_norm is None else stack.layer_norm(x)


@dataclass
class Shared:
    """Weights of self-attention, and attended values of the source, that a layer leaves to the layers above it.

    Attributes:
        present: whether a position of the target is no padding, B x all so far; None: none is padding
    """

    present: Optional[Tensor] = None
    weights: Optional[Tensor] = None
    attended: Optional[Tensor] = None


def self_attention(
    module: Any, x: Tensor, mask: Optional[Tensor], cache: Optional[EncoderDecoderCache], layer: int, shared: Shared
) -> Tensor:
    """Return self-attention, B x T x C, with relative positions (7) or shared weights (47) if the module has them."""
    value = by_heads(module.v_proj(x), module)
    key = value if module.follows else by_heads(module.k_proj(x), module)
    if cache is not None:
        key, value = cache.self_attention_cache.update(key, value, layer)
    if module.follows:
        assert shared.weights is not None
        found = torch.matmul(shared.weights.type_as(value), value).transpose(1, 2).flatten(2)
    else:
        found, shared.weights = attended(module, x, key, value, mask)
    return module.out_proj(found)  # type: ignore[no-any-return]


def cross_attention(
    module: Any,
    x: Tensor,
    source: Tensor,
    mask: Optional[Tensor],
    cache: Optional[EncoderDecoderCache],
    layer: int,
    shared: Shared,
) -> Tensor:
    """Return attention to the source, B x T x C."""
    if not module.follows:
        key, value = source_keys(module, source, cache, layer)
        shared.attended, _ = attended(module, x, key, value, mask)
    return module.out_proj(shared.attended)  # type: ignore[no-any-return]


def merged_attention(
    module: Any,
    x: Tensor,
    source: Tensor,
    mask: Optional[Tensor],
    cache: Optional[EncoderDecoderCache],
    layer: int,
    shared: Shared,
) -> Tensor:
    """Return merged attention (12), B x T x C; the cache keeps the values of the target."""
    key, value = source_keys(module, source, cache, layer)
    mean = means_so_far(module.v_proj(x), cache, layer, shared.present)
    return module.out_proj((attended(module, x, key, value, mask)[0] + mean).type_as(x))  # type: ignore[no-any-return]


def recurrence(
    module: Any, x: Tensor, cache: Optional[EncoderDecoderCache], layer: int, present: Optional[Tensor]
) -> Tensor:
    """Return average attention (46) or SSRU (45), B x T x C; the cache keeps a vector of each position."""
    if isinstance(module, AverageAttention):
        return module.gated(x, means_so_far(x, cache, layer, present).type_as(x))
    exact = torch.promote_types(x.dtype, torch.float32)
    gates, values = module.forget_proj(x).to(exact).sigmoid(), module.v_proj(x).to(exact)
    if present is not None:
        # Padding leaves the mean as it is.
        absent = ~present[:, -x.size(1) :, None]
        gates, values = gates.masked_fill(absent, 1.0), values.masked_fill(absent, 0.0)
    before = torch.zeros_like(values[:, 0])
    if cache is not None and cache.get_seq_length(layer):
        before = cache.self_attention_cache.layers[layer].keys[:, 0, -1]
    means = gated_mean(gates.transpose(0, 1), values.transpose(0, 1), before).transpose(0, 1)
    if cache is not None:
        cache.self_attention_cache.update(means.unsqueeze(1), means.unsqueeze(1), layer)
    return means.relu().type_as(x)


def means_so_far(x: Tensor, cache: Optional[EncoderDecoderCache], layer: int, present: Optional[Tensor]) -> Tensor:
    """Return the mean of all positions up to each of the newest ones, B x T x C, in float32 at least."""
    each = x.unsqueeze(1)
    if cache is not None:
        each, _ = cache.self_attention_cache.update(each, each, layer)
    counts = torch.arange(1, each.size(2) + 1, device=x.device).unsqueeze(-1)
    if present is not None:
        each, counts = each * present[:, None, :, None], present.cumsum(1).clamp(min=1).unsqueeze(-1)
    sums = each[:, 0].cumsum(1, dtype=torch.promote_types(x.dtype, torch.float32))
    return (sums / counts)[:, -x.size(1) :]


def source_keys(
    module: Attention, source: Tensor, cache: Optional[EncoderDecoderCache], layer: int
) -> tuple[Tensor, Tensor]:
    """Return keys and values of the source, B x H x S x D, which are computed once."""
    if cache is not None and cache.is_updated.get(layer):
        kept = cache.cross_attention_cache.layers[layer]
        return kept.keys, kept.values
    key, value = (by_heads(each(source), module) for each in (module.k_proj, module.v_proj))
    if cache is not None:
        key, value = cache.cross_attention_cache.update(key, value, layer)
        cache.is_updated[layer] = True
    return key, value


def attended(module: Attention, x: Tensor, key: Tensor, value: Tensor, mask: Optional[Tensor]) -> tuple[Tensor, Tensor]:
    """Return the attended values, B x T x C, before the last projection, and the probabilities, B x H x T x keys."""
    query = by_heads(module.q_proj(x) * module.scaling, module)
    if module.relative_keys is not None:
        vectors = module.relative_keys, module.relative_values
        found, weights = attend(query, key, value, vectors, mask, lambda weights: weights)[:2]
    else:
        scores = torch.matmul(query, key.mT)
        scores = scores if mask is None else scores + mask
        weights = scores.softmax(-1, dtype=torch.promote_types(x.dtype, torch.float32))
        found = torch.matmul(weights.type_as(value), value)
    return found.transpose(1, 2).flatten(2), weights


def by_heads(x: Tensor, module: Attention) -> Tensor:
    """Return B x H x T x D for B x T x C."""
    return x.view(*x.shape[:-1], module.num_heads, module.head_dim).transpose(1, 2)


def hidden(seen: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the numbers to add to scores, of entries that are seen or not."""
    return torch.zeros(seen.shape, dtype=dtype, device=seen.device).masked_fill(~seen, torch.finfo(dtype).min)
