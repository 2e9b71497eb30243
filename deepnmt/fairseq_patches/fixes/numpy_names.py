"""Names that numpy 2 no longer has, and that fairseq uses for language models and in `nacrf_transformer`."""

from types import SimpleNamespace

import numpy as np

from deepnmt.fairseq_patches.patch import sets


@sets("numpy.compat.long", order=60, why="numpy.float and numpy.compat.long are gone (issue 4945)")
def keep_long() -> None:
    """Let numpy have the names."""
    if "float" not in vars(np):
        np.float = float  # type: ignore[attr-defined]
    if not hasattr(np, "compat"):
        np.compat = SimpleNamespace(long=np.int64)  # type: ignore[attr-defined]
