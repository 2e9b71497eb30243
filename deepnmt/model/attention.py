"""fairseq's attention, by the fast kernel of `kernels/short_attention.py` if it applies."""
# Twin: deepnmt/search/incremental/attention_steps.py computes this for one position in a search; change both.
# Twin: deepnmt/search/incremental/one_source_steps.py computes it for a single sentence; change this too.
# Twin: deepnmt/engines/onnx/attention.py computes it in ONNX Runtime; change this too.

from typing import Any, Optional

import torch
from fairseq.modules import MultiheadAttention
from torch import Tensor, nn

from deepnmt.kernels.fast_path import has_hooks, linear_obstacle, may_take
from deepnmt.kernels.short_attention import SHORT, Settings, attention
from deepnmt.model.fast_dropout import FastDropout


class NamedAttention(MultiheadAttention):  # type: ignore[misc]
    """fairseq's module, in subclasses too known to `--retain-dropout-modules` by its own name."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.dropout_module.module_name = MultiheadAttention.__name__


class Attention(NamedAttention):
    """fairseq's module, faster on the CPU; arguments, parameters and results are the same."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.quantised = any(map(has_hooks, self.projections()))

    def forward(self, query: Tensor, key: Optional[Tensor], value: Optional[Tensor], **options: Any) -> Any:
        """As fairseq's, for T x B x C."""
        obstacle = self.obstacle(query, key, value, options)
        if not may_take("fast attention", obstacle):
            hooked = not self.quantised and any(map(has_hooks, self.projections()))
            if hooked and options.get("incremental_state") is None:
                # fairseq's way of calling the modules, with dropout drawn as here.
                options["static_kv"] = True
            return super().forward(query, key, value, **options)
        of_heads, wanted = options.get("need_head_weights", False), options.get("need_weights", True)
        settings = Settings(
            self.num_heads,
            self.scaling,
            options.get("key_padding_mask"),
            options.get("attn_mask"),
            self.dropout_module.p if self.training else 0.0,
            of_heads or wanted,
        )
        assert key is not None
        attended, weights = attention(query, key, self.projections(), settings)
        if weights is None:
            return attended, None
        return attended, weights.transpose(0, 1) if of_heads else weights.mean(1)

    def projections(self) -> tuple[nn.Module, ...]:
        """Return the maps of queries, keys, values and of the result."""
        return self.q_proj, self.k_proj, self.v_proj, self.out_proj

    def obstacle(
        self, query: Tensor, key: Optional[Tensor], value: Optional[Tensor], options: dict[str, Any]
    ) -> Optional[str]:
        """Return the reason for leaving this call of `forward` to fairseq, or None.

        Gradients play no part: activation checkpointing must take the same path, and draw the same dropout, twice.
        """
        if query.device.type != "cpu" or torch.is_autocast_enabled("cpu"):
            return "it is for the CPU, without autocast"
        if self.use_xformers:
            return "xFormers computes the attention"
        if self.quantised:
            return "there is quantisation noise"
        if self.bias_k is not None or self.add_zero_attn or self.skip_embed_dim_check:
            return "the attention has a bias or a zero among its keys, or is pruned"
        if options.get("incremental_state") is not None:
            return "fairseq's search decodes position by position"
        if options.get("before_softmax"):
            return "scores before the softmax are asked for"
        if key is None or value is not key:
            return "keys and values are computed from different tensors"
        if len(key) > SHORT:
            return f"torch's is faster for more than {SHORT} positions"
        mask = options.get("attn_mask")
        if mask is not None and (mask.dim() != 2 or mask.dtype == torch.bool):
            return "the attention mask is not a matrix of numbers"
        dropout = self.dropout_module
        if not self.training:
            if dropout.apply_during_inference:
                return "dropout is retained in inference"
        elif dropout.p > 0 and type(dropout) is not FastDropout:
            return "--attention-dropout is above 0 and --fast-dropout is not given"
        obstacles = [linear_obstacle(linear) for linear in self.projections()]
        return next((obstacle for obstacle in obstacles if obstacle is not None), None)
