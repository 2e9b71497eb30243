"""The numbers of a model's stacks, from its flat options: the same for a training and for inference without fairseq."""

from typing import TYPE_CHECKING, Any

from deepnmt.model.groups import TOP, TRANSPARENT
from deepnmt.model.norm_position import NORM_POSITIONS, NormPosition
from deepnmt.model.residual import RESIDUALS
from deepnmt.model.self_attention import FULL, KINDS
from deepnmt.model.stack import SkippingOptions, StackOptions
from deepnmt.model.sublayers import CROSS_ATTENTION, SELF_ATTENTION, SUBLAYERS


class StackChoices:
    """What options say about the stacks; a class with the options of `DLCLTransformerConfig` inherits it."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def stack(self, name: str) -> StackOptions:
        """Return the numbers of a stack, "encoder" or "decoder"."""
        residual = RESIDUALS[str(self.residual_scale)]
        return StackOptions(
            name=name,
            layers=self.depth(name),
            width=self.width(name),
            heads=int(getattr(self, f"{name}_attention_heads")),
            sublayers=self._sublayers(name),
            norm=self.norm(name),
            groups=str(getattr(self, f"{name}_groups")),
            window=self.dlcl_window,
            residual_scale=residual.scale(name, self.encoder_layers, self.decoder_layers),
            residual_trained=residual.trained,
            skip=SkippingOptions(
                rate=getattr(self, f"{name}_skip"),
                linear=str(self.skip_schedule) == "linear",
                scale_training=str(self.skip_scale) == "training",
            ),
            self_attention=KINDS[str(self.decoder_self_attention)] if name == "decoder" else FULL,
            sharing=str(getattr(self, f"{name}_share_layers")),
            blocks=str(self.shared_attention_blocks) if name == "decoder" and self.shares_attention else "1",
            sums=self.sums,
        )

    @property
    def sums(self) -> int:
        """The number of sums of the encoder's outputs that the decoder reads; 0: it reads the last output."""
        return {TOP: 1, TRANSPARENT: self.depth("decoder")}.get(str(self.encoder_groups), 0)

    @property
    def one_table(self) -> bool:
        """Whether source, target and output have one embedding table."""
        return bool(self.share_all_embeddings or self.merge_src_tgt_embed)

    @property
    def shares_attention(self) -> bool:
        """Whether layers of the decoder share attention weights."""
        return str(self.decoder_self_attention) == "shared"

    def depth(self, stack: str) -> int:
        """Return the number of layers of a stack."""
        return int(getattr(self, f"{stack}_layers"))

    def width(self, stack: str) -> int:
        """Return the number of channels of a stack."""
        return int(getattr(self, f"{stack}_embed_dim"))

    def norm(self, stack: str) -> NormPosition:
        """Return the position of a stack's layer norms."""
        name = str(getattr(self, f"{stack}_norm"))
        if name == "auto":
            name = "pre" if getattr(self, f"{stack}_normalize_before") else "post"
        return NORM_POSITIONS[name]

    def slices(self, stack: str) -> int:
        """Return the number of weights per layer output. Raises `ValueError` for a wrong `dlcl_granularity`."""
        names = {"scalar": 1, "vector": self.width(stack)}
        text = str(self.dlcl_granularity)
        slices = names[text] if text in names else int(text) if text.isdecimal() else 0
        if slices < 1:
            raise ValueError(f"must be 'scalar', 'vector' or a number of slices, but is '{text}'")
        if self.width(stack) % slices:
            raise ValueError(f"must divide --{stack}-embed-dim {self.width(stack)}, but is {slices}")
        return slices

    def _sublayers(self, stack: str) -> tuple[str, ...]:
        absent = set()
        if stack == "encoder" or self.no_cross_attention:
            absent.add(CROSS_ATTENTION)
        if stack == "decoder" and self.merged_attention:
            absent.add(SELF_ATTENTION)
        return tuple(name for name in SUBLAYERS if name not in absent)
