"""A name that numpy 2 no longer has, and that fairseq uses where it reads the text of a language model."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from deepnmt.fairseq_patches.patch import sets


@sets("numpy.compat.long", order=60, why="numpy 2 has no such name; without it, no language model can be trained")
def keep_long() -> None:
    """Let numpy have the name."""
    if not hasattr(np, "compat"):
        np.compat = SimpleNamespace(long=np.int64)  # type: ignore[attr-defined]
