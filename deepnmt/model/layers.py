"""The layers of the stacks: fairseq's sublayers and parameters, with the requested norms, residuals and skipping.

Shapes: T x B x C is time, batch, channel.

`norm_position.py` has the formula of a sublayer, `sublayers.py` their order.
"""
# Twin: deepnmt/search/incremental/layer_steps.py computes this for one position in a search; change both.
# Twin: deepnmt/engines/onnx/layers.py computes it in ONNX Runtime; change this too.

from collections.abc import Callable, Sequence
from typing import Any, Optional, cast

import torch
import torch.nn.functional as F
from fairseq.modules import MultiheadAttention
from fairseq.modules.quant_noise import quant_noise
from fairseq.modules.transformer_layer import TransformerDecoderLayerBase, TransformerEncoderLayerBase
from torch import Tensor, nn

from deepnmt.kernels import feed_forward
from deepnmt.kernels.fast_path import may_take
from deepnmt.model.attention import Attention
from deepnmt.model.build import build_recurrence, build_residual, relative_positions
from deepnmt.model.config import NestedConfig
from deepnmt.model.fused_encoder import fused
from deepnmt.model.initializers.weights import zero_bias
from deepnmt.model.merged_attention import MergedAttention
from deepnmt.model.relative_position import RelativeSelfAttention
from deepnmt.model.shared_attention import LeadingSelfAttention, LeadingSourceAttention, SharedHeads
from deepnmt.model.skipping import zero_grads_for
from deepnmt.model.sublayers import CROSS_ATTENTION, FEED_FORWARD, SELF_ATTENTION, branch_modules, sublayers_of

IncrementalState = Optional[dict[str, dict[str, Optional[Tensor]]]]


class DeepLayer(nn.Module):
    """The shared part of both stacks' layers. A mixin for fairseq's layers, whose parameters it arranges."""

    # Set by fairseq's constructors.
    self_attn: Any
    encoder_attn: Any
    fc1: Any
    fc2: Any
    activation_fn: Any
    activation_dropout_module: Any
    dropout_module: Any
    quant_noise: float
    quant_noise_block_size: int

    def arrange(self, cfg: NestedConfig, stack: str) -> None:
        """Put the norms and residuals in place; called by the constructors, after fairseq's."""
        self.norm_position = cfg.deep.norm(stack)
        for name in sublayers_of(self):
            setattr(self, f"{name}_residual", build_residual(cfg.deep, stack))
            if not (self.norm_position.before or self.norm_position.after):
                setattr(self, f"{name}_layer_norm", nn.Identity())

    def run(
        self, x: Tensor, branches: dict[str, Callable[[Tensor], Tensor]], factors: Optional[Sequence[float]]
    ) -> Tensor:
        """Return the output of the layer, T x B x C.

        Args:
            x: its input, T x B x C
            branches: the function F of each sublayer; a sublayer without a given function does nothing
            factors: the multipliers of F, for each sublayer of the layer; 0: it is skipped; None: 1 for all
        """
        names, layer_input = sublayers_of(self), x
        for name, factor in zip(names, factors or [1.0] * len(names)):
            if name in branches:
                x = self.sublayer(name, x, branches[name], factor, layer_input)
        return x

    def sublayer(
        self, name: str, x: Tensor, branch: Callable[[Tensor], Tensor], factor: float, layer_input: Tensor
    ) -> Tensor:
        """Return the output of one sublayer of `sublayers.py`, T x B x C, for its input x, T x B x C.

        F, `branch`, is multiplied by the factor; 0 skips it. The last sublayer may add the layer's input.
        """
        position = self.norm_position
        norm: Any = getattr(self, f"{name}_layer_norm")
        output: Optional[Tensor] = None
        if factor == 0.0:
            skipped = branch_modules(self, name)
            x = zero_grads_for([*skipped, norm] if position.before else skipped, x)
        else:
            output = self.dropout_module(branch(norm(x) if position.before else x))
            output = output if factor == 1.0 else output * factor
        residual: Any = getattr(self, f"{name}_residual")
        x = residual(x, output)
        if position.layer_input and name == FEED_FORWARD:
            x = x + layer_input
        return cast(Tensor, norm(x)) if position.after else x

    def feed_forward(self, x: Tensor) -> Tensor:
        """Return the feed-forward sublayer's function of x."""
        if may_take("fast feed-forward", self.feed_forward_obstacle(x)):
            return feed_forward.feed_forward(x, self.fc1, self.fc2)
        return cast(Tensor, self.fc2(self.activation_dropout_module(self.activation_fn(self.fc1(x)))))

    def feed_forward_obstacle(self, x: Tensor) -> Optional[str]:
        """Return the reason why the fast kernel cannot be taken, or None."""
        dropout = self.activation_dropout_module
        if self.activation_fn is not F.relu:
            return "the activation is not ReLU"
        if dropout.p > 0 and (self.training or dropout.apply_during_inference):
            return "--activation-dropout is above 0"
        return feed_forward.obstacle(x, self.fc1, self.fc2)

    def attention_options(self, cfg: NestedConfig) -> dict[str, Any]:
        """Return fairseq's arguments for every attention of a layer."""
        noise = {"q_noise": self.quant_noise, "qn_block_size": self.quant_noise_block_size}
        return {"dropout": cfg.attention_dropout, **noise}


class DeepEncoderLayer(DeepLayer, TransformerEncoderLayerBase):  # type: ignore[misc]
    """An encoder layer: self-attention and feed-forward sublayer."""

    def __init__(self, cfg: NestedConfig) -> None:
        super().__init__(cfg)
        self.fused_drop = cfg.deep.fused_drop
        self.backward_attn: Optional[Attention] = None
        if cfg.deep.fused_encoder is not None:
            self.backward_attn = Attention(
                self.embed_dim,
                cfg.encoder.attention_heads,
                kdim=self.embed_dim,
                vdim=self.embed_dim,
                encoder_decoder_attention=True,
                **self.attention_options(cfg),
            )
        self.arrange(cfg, "encoder")

    def build_self_attention(self, embed_dim: int, cfg: NestedConfig) -> MultiheadAttention:
        """Return the module; called by fairseq's constructor."""
        options = relative_positions(cfg.deep, "encoder")
        if options.max_length:
            return RelativeSelfAttention(embed_dim, cfg.encoder.attention_heads, options, **self.attention_options(cfg))
        return Attention(
            embed_dim,
            cfg.encoder.attention_heads,
            self_attention=True,
            xformers_att_config=cfg.encoder.xformers_att_config,
            **self.attention_options(cfg),
        )

    def forward(
        self,
        x: Tensor,
        encoder_padding_mask: Optional[Tensor],
        factors: Optional[Sequence[float]] = None,
        beside: Optional[Tensor] = None,
    ) -> Tensor:
        """Return the output, T x B x C, for an input T x B x C; the mask, B x T, is true at padding.

        The factors multiply the sublayers' outputs; 0: not computed; None: 1 for all. `beside` are the states of a
        frozen encoder, T x B x C.
        """

        def attend(y: Tensor) -> Tensor:
            attended = self.self_attn(
                query=y, key=y, value=y, key_padding_mask=encoder_padding_mask, need_weights=False
            )[0]
            if self.backward_attn is not None:
                second = self.backward_attn(
                    query=y, key=beside, value=beside, key_padding_mask=encoder_padding_mask, need_weights=False
                )[0]
                attended = fused(attended, second, self.fused_drop if self.training else 0.0)
            return cast(Tensor, attended)

        return self.run(x, {SELF_ATTENTION: attend, FEED_FORWARD: self.feed_forward}, factors)


class DeepDecoderLayer(DeepLayer, TransformerDecoderLayerBase):  # type: ignore[misc]
    """A decoder layer: self-attention, cross-attention, feed-forward; or merged attention (12) and feed-forward.

    Two-sided, the cross-attention's sublayer has a second one, (36); so it has beside a frozen encoder.
    """

    def __init__(self, cfg: NestedConfig, no_encoder_attn: bool = False) -> None:
        super().__init__(cfg, no_encoder_attn)
        if cfg.deep.merged_attention:
            self.self_attn = None
            self.self_attn_layer_norm = None
        self.shares_source = cfg.deep.shared_cross_attention
        self.backward_attn: Optional[Attention] = None
        self.fused = cfg.deep.fused_encoder is not None
        self.fused_drop = cfg.deep.fused_drop
        if cfg.deep.two_sided or self.fused:
            width = cfg.encoder.embed_dim if self.fused else cfg.decoder.output_dim
            self.backward_attn = Attention(
                self.embed_dim,
                cfg.decoder.attention_heads,
                kdim=width,
                vdim=width,
                encoder_decoder_attention=True,
                **self.attention_options(cfg),
            )
        self.arrange(cfg, "decoder")

    def build_self_attention(
        self, embed_dim: int, cfg: NestedConfig, add_bias_kv: bool = False, add_zero_attn: bool = False
    ) -> MultiheadAttention:
        """Return the module; called by fairseq's constructor."""
        if (recurrence := build_recurrence(cfg.deep, "decoder", self.new_map)) is not None:
            # fairseq's constructor reads the heads of the cross-attention here.
            heads = cfg.decoder.attention_heads
            recurrence.num_heads, recurrence.head_dim = heads, embed_dim // heads
            return recurrence
        if cfg.deep.shares_attention:
            return LeadingSelfAttention(embed_dim, cfg.decoder.attention_heads, **self.attention_options(cfg))
        options = relative_positions(cfg.deep, "decoder")
        if options.max_length:
            return RelativeSelfAttention(embed_dim, cfg.decoder.attention_heads, options, **self.attention_options(cfg))
        return Attention(
            embed_dim,
            cfg.decoder.attention_heads,
            add_bias_kv=add_bias_kv,
            add_zero_attn=add_zero_attn,
            self_attention=not cfg.cross_self_attention,
            xformers_att_config=cfg.decoder.xformers_att_config,
            **self.attention_options(cfg),
        )

    def new_map(self, inputs: int, outputs: int, bias: bool) -> nn.Linear:
        """Return a linear map with the initial values of fairseq's attention's last one."""
        linear = nn.Linear(inputs, outputs, bias)
        nn.init.xavier_uniform_(linear.weight)
        zero_bias(linear)
        return cast(nn.Linear, quant_noise(linear, self.quant_noise, self.quant_noise_block_size))

    def build_encoder_attention(self, embed_dim: int, cfg: NestedConfig) -> MultiheadAttention:
        """Return the module; called by fairseq's constructor."""
        if not cfg.deep.merged_attention:
            return (LeadingSourceAttention if cfg.deep.shared_cross_attention else Attention)(
                embed_dim,
                cfg.decoder.attention_heads,
                kdim=cfg.encoder.embed_dim,
                vdim=cfg.encoder.embed_dim,
                encoder_decoder_attention=True,
                xformers_att_config=cfg.encoder.xformers_att_config,
                **self.attention_options(cfg),
            )
        return MergedAttention(embed_dim, cfg.decoder.attention_heads, **self.attention_options(cfg))

    def forward(
        self,
        x: Tensor,
        encoder_out: Optional[Tensor] = None,
        encoder_padding_mask: Optional[Tensor] = None,
        incremental_state: IncrementalState = None,
        self_attn_mask: Optional[Tensor] = None,
        self_attn_padding_mask: Optional[Tensor] = None,
        need_attn: bool = False,
        need_head_weights: bool = False,
        factors: Optional[Sequence[float]] = None,
        backward_out: Optional[Tensor] = None,
        backward_padding_mask: Optional[Tensor] = None,
        shared: Optional[SharedHeads] = None,
    ) -> tuple[Tensor, Optional[Tensor], None]:
        """Return output and cross-attention. Arguments are fairseq's, `factors` as in the encoder's layer, and the
        additions of `two_sided.py` to the encoder's output; the layers of a block share `shared`."""
        attention: Optional[Tensor] = None
        sharing = {} if shared is None else {"shared": shared}
        need_weights = need_attn or need_head_weights or (not self.training and self.need_attn)

        def attend_itself(y: Tensor) -> Tensor:
            keys, mask, padding = y, self_attn_mask, self_attn_padding_mask
            if self.cross_self_attention:
                keys, mask, padding = self._with_source(
                    y, encoder_out, mask, padding, encoder_padding_mask, incremental_state
                )
            attended = self.self_attn(
                query=y,
                key=keys,
                value=keys,
                key_padding_mask=padding,
                incremental_state=incremental_state,
                need_weights=False,
                attn_mask=mask,
                **sharing,
            )[0]
            return cast(Tensor, attended)

        def attend_source(y: Tensor) -> Tensor:
            nonlocal attention
            if isinstance(self.encoder_attn, MergedAttention):
                attended, attention = self.encoder_attn(
                    y,
                    encoder_out,
                    key_padding_mask=encoder_padding_mask,
                    query_padding_mask=self_attn_padding_mask,
                    incremental_state=incremental_state,
                    need_weights=need_weights,
                    need_head_weights=need_head_weights,
                )
            else:
                attended, attention = self.encoder_attn(
                    query=y,
                    key=encoder_out,
                    value=encoder_out,
                    key_padding_mask=encoder_padding_mask,
                    incremental_state=incremental_state,
                    static_kv=True,
                    need_weights=need_weights,
                    need_head_weights=need_head_weights,
                    **(sharing if self.shares_source else {}),
                )
            if self.backward_attn is not None:
                second, _ = self.backward_attn(
                    query=y,
                    key=backward_out,
                    value=backward_out,
                    key_padding_mask=backward_padding_mask,
                    incremental_state=incremental_state,
                    static_kv=True,
                    need_weights=False,
                )
                drop = self.fused_drop if self.training else 0.0
                attended = fused(attended, second, drop) if self.fused else attended + second
            return cast(Tensor, attended)

        branches = {SELF_ATTENTION: attend_itself, FEED_FORWARD: self.feed_forward}
        if encoder_out is not None:
            branches[CROSS_ATTENTION] = attend_source
            reader = SELF_ATTENTION if self.cross_self_attention else CROSS_ATTENTION
            if dict(zip(sublayers_of(self), factors or ())).get(reader) == 0.0:
                # If every layer skips it, nothing else connects the encoder with the loss.
                x = zero_grads_for([], x, encoder_out)
        return self.run(x, branches, factors), attention, None

    def _with_source(
        self,
        x: Tensor,
        source: Optional[Tensor],
        mask: Optional[Tensor],
        padding: Optional[Tensor],
        source_padding: Optional[Tensor],
        incremental_state: IncrementalState,
    ) -> tuple[Tensor, Optional[Tensor], Optional[Tensor]]:
        """Return keys, mask and padding of --cross-self-attention: source before target, in the first step only."""
        state = self.self_attn._get_input_buffer(incremental_state)
        if incremental_state is not None and state is not None and "prev_key" in state:
            return x, mask, padding
        assert source is not None
        if mask is not None:
            mask = torch.cat((x.new_zeros(x.size(0), source.size(0)), mask), dim=1)
        if padding is not None:
            if source_padding is None:
                source_padding = padding.new_zeros(source.size(1), source.size(0))
            padding = torch.cat((source_padding, padding), dim=1)
        return torch.cat((source, x), dim=0), mask, padding
