"""The kinds of self-attention of a decoder, as facts: a new one is a row of `KINDS` and a module.

    full       every position attends to itself and all before it: `attention.py`, `relative_position.py`
    shared     the weights of another layer (47): `shared_attention.py`
    average    the mean of all positions so far, with gates (46): `average_attention.py`
    ssru       a recurrence with a forget gate (45): `ssru.py`

Validation, initialisers, growth, and the engines follow the facts of any row.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class SelfAttentionKind:
    """One kind.

    Attributes:
        name: as in --decoder-self-attention
        attends: every layer compares positions, and may thus have relative ones, or the source among its keys
        recurrent: a vector of each hypothesis takes the place of keys and values
        last: the matrix, without a bias or with one, whose factor above 0 is a factor of the sublayer's function;
            empty: no matrix has
        can_be_zero: the function can be zero and learn from there: `last` has gradients where it is zero
        matrices: number of C x C matrices
    """

    name: str
    attends: bool = False
    recurrent: bool = False
    last: str = "out_proj"
    can_be_zero: bool = True
    matrices: int = 4


FULL = SelfAttentionKind("full", attends=True)
KINDS = {
    kind.name: kind
    for kind in (
        FULL,
        SelfAttentionKind("shared"),
        SelfAttentionKind("average", recurrent=True, last="", can_be_zero=False),
        # Where c is zero, ReLU has no gradient.
        SelfAttentionKind("ssru", recurrent=True, last="v_proj", can_be_zero=False, matrices=2),
    )
}
