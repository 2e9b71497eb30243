"""Initial weights: each method a function from model and configuration to weights, in a file of its own.

It is called once, when the model is complete and nothing has been loaded, and never changes the forward pass. A new
one is a new file and a line here. `default` keeps fairseq's weights, and so does `admin`, whose own part of the work
needs data and comes at the start of training (`deepnmt/model/initializers/admin.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable

from deepnmt.model.initializers.deepnorm import deepnorm
from deepnmt.model.initializers.ds_init import ds_init
from deepnmt.model.initializers.lipschitz import lipschitz
from deepnmt.model.initializers.t_fixup import t_fixup
from deepnmt.model.initializers.xavier import xavier

if TYPE_CHECKING:
    from deepnmt.model.config import DLCLTransformerConfig

Initializer = Callable[[Any, "DLCLTransformerConfig"], None]


def keep(model: Any, config: DLCLTransformerConfig) -> None:
    """Leave the weights as the modules' constructors have drawn them."""


INITIALIZERS: dict[str, Initializer] = {
    "default": keep,
    "xavier": xavier,
    "t-fixup": t_fixup,
    "ds-init": ds_init,
    "lipschitz": lipschitz,
    "deepnorm": deepnorm,
    "admin": keep,
}
