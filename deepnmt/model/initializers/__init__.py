"""Initial weights: each method a function from model and options to weights, in a file of its own.

It is called once, when the model is complete and before any loading, and never changes the forward pass. A new method
needs a new file and a line here. `default` keeps fairseq's weights. A method that needs data is a `BatchInitializer`;
`from_batches.py` does the rest.
"""

from typing import Any, Optional, Union

from deepnmt.model.initializers.admin import Admin
from deepnmt.model.initializers.deepnorm import deepnorm
from deepnmt.model.initializers.ds_init import ds_init
from deepnmt.model.initializers.fairseq_2019 import fairseq_2019
from deepnmt.model.initializers.initializer import BatchInitializer, Initializer, keep
from deepnmt.model.initializers.lipschitz import lipschitz
from deepnmt.model.initializers.t_fixup import t_fixup, t_fixup_released
from deepnmt.model.initializers.xavier import xavier

INITIALIZERS: dict[str, Union[Initializer, BatchInitializer]] = {
    "default": keep,
    "fairseq-2019": fairseq_2019,
    "xavier": xavier,
    "t-fixup": t_fixup,
    "t-fixup-released": t_fixup_released,
    "ds-init": ds_init,
    "lipschitz": lipschitz,
    "deepnorm": deepnorm,
    "admin": Admin(),
    "admin-released": Admin(base=fairseq_2019),
}


def batch_initializer(model: Any) -> Optional[BatchInitializer]:
    """Return the initialiser of a model, which may be any of fairseq's, if it needs batches."""
    options = getattr(getattr(model, "cfg", None), "deep", None)
    method = None if options is None else INITIALIZERS[str(options.initializer)]
    return method if isinstance(method, BatchInitializer) else None
