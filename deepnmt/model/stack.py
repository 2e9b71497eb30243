"""The numbers of one stack, without tensors or modules: for the model, and for plans and measurements.

`DLCLTransformerConfig.stack` makes them from the options.
"""

from dataclasses import dataclass

from deepnmt.model.groups import group_boundaries, oldest_output
from deepnmt.model.norm_position import NormPosition
from deepnmt.model.self_attention import SelfAttentionKind
from deepnmt.model.shared_layers import sharing_pattern
from deepnmt.model.sublayers import FEED_FORWARD, SELF_ATTENTION

STACKS = ("encoder", "decoder")


@dataclass(frozen=True)
class SkippingOptions:
    """The choices of one stack for `skipping.py`.

    Attributes:
        rate: probability, of each sublayer (constant) or of the last one (linear)
        linear: the probability grows linearly with the sublayer's number
        scale_training: match the expectation by scaling in training rather than at inference
    """

    rate: float = 0.0
    linear: bool = True
    scale_training: bool = True

    def probabilities(self, sublayers: int) -> list[float]:
        """Return `p_l` of (15) for the sublayers of a stack, `sublayers` in all."""
        share = [number / sublayers if self.linear else 1.0 for number in range(1, sublayers + 1)]
        return [self.rate * part for part in share]

    def inference_factor(self, probability: float) -> float:
        """Return the factor of a sublayer's output at inference."""
        return 1.0 if self.scale_training else 1.0 - probability


@dataclass(frozen=True)
class StackOptions:
    """One stack.

    Attributes:
        name: "encoder" or "decoder"
        width: channels
        sublayers: names of each layer's sublayers, in their order
        norm: position of its layer norms
        groups: its division into groups, as in --encoder-groups
        window: most outputs that a row of its history reads; 0: all
        residual_scale: `a` of (4), else 1
        residual_trained: the residuals have a trained vector (14)
        skip: the skipping of its sublayers
        self_attention: the kind of its self-attention
        sharing: numbers of its layers, as in --encoder-share-layers
        blocks: its division into blocks of layers with the same attention weights, as in --shared-attention-blocks
        sums: number of sums of encoder outputs that the decoder reads, as in `transparent.py`; 0: it reads the last
            output
    """

    name: str
    layers: int
    width: int
    heads: int
    sublayers: tuple[str, ...]
    norm: NormPosition
    groups: str
    window: int
    residual_scale: float
    residual_trained: bool
    skip: SkippingOptions
    self_attention: SelfAttentionKind
    sharing: str
    blocks: str
    sums: int

    @property
    def boundaries(self) -> tuple[int, ...] | None:
        """See `group_boundaries`; None for a chain of layers."""
        return group_boundaries(self.groups, self.layers)

    @property
    def pattern(self) -> tuple[int, ...]:
        """Return the number of each position's layer. Raises `ValueError` for wrong `sharing`."""
        return sharing_pattern(self.sharing, self.layers)

    @property
    def leaders(self) -> tuple[int, ...]:
        """Return the first layers of the blocks, from 0. Raises `ValueError` for wrong `blocks`."""
        boundaries = group_boundaries(self.blocks, self.layers)
        if boundaries is None:
            raise ValueError(f"must be a number of layers, or boundaries such as 0,2,6, but is {self.blocks}")
        return boundaries[:-1]

    @property
    def history_rows(self) -> int:
        """Return the number of rows of its history's weight; 0 if it has no history."""
        if self.boundaries is not None:
            return len(self.boundaries)
        return self.layers + 1 if self.sums and self.name == "encoder" else 0

    def oldest(self, row: int) -> int:
        """Return the oldest output that a row of the history, from 1, reads."""
        return oldest_output(row, self.window)

    def last_matrix(self, sublayer: str) -> str:
        """Return the name, within a layer, of the matrix whose factor is a factor of a sublayer's function F."""
        if sublayer == FEED_FORWARD:
            return "fc2"
        return f"{sublayer}.{self.self_attention.last if sublayer == SELF_ATTENTION else 'out_proj'}"

    def skip_probabilities(self) -> list[float]:
        """Return the probability of skipping each sublayer in training, from the first layer's first one on."""
        return self.skip.probabilities(self.layers * len(self.sublayers))

    def inference_factors(self) -> list[tuple[float, ...]]:
        """Return for each layer the factors of its sublayers' outputs at inference (15)."""
        factors = [self.skip.inference_factor(probability) for probability in self.skip_probabilities()]
        size = len(self.sublayers)
        return [tuple(factors[start : start + size]) for start in range(0, len(factors), size)]
