"""Where the layer norms of a sublayer stand, as facts: a new position is one row of `NORM_POSITIONS`.

A sublayer with function F, residual R (`residual.py`) and layer norm LN makes of its input x

    post       LN(R(x, F(x)))                                             (1), (4), (14)
    pre        R(x, F(LN(x))), and one final LN at the top of the stack   (2)
    none       R(x, F(x))                                                 (3)
    b2t        post, and the last sublayer of a layer LN(R(x, F(x)) + the layer's input)
               (Takase 2023, Findings of ACL, arXiv 2206.00330)

Model, search, inspection and growth follow the facts of any row.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class NormPosition:
    """One position.

    Attributes:
        name: as in --encoder-norm
        before: F reads LN(x); the stack ends with a norm, and a history normalises outputs (5) rather than sums (6)
        after: the sublayer's output is LN(...)
        layer_input: the last sublayer adds the layer's input, before LN if `after`
    """

    name: str
    before: bool = False
    after: bool = False
    layer_input: bool = False

    @property
    def can_be_identity(self) -> bool:
        """Return whether layers whose functions F are zero can pass on their input (`checkpoints/preserving.py`).

        Only LN undoes the second addition of a layer's input, and an LN whose output F also reads cannot be moved.
        """
        return not self.before if self.after else not self.layer_input


NORM_POSITIONS = {
    position.name: position
    for position in (
        NormPosition("post", after=True),
        NormPosition("pre", before=True),
        NormPosition("none"),
        NormPosition("b2t", after=True, layer_input=True),
    )
}
