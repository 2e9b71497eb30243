"""What checkpoints know of the data of their training: checkpoints with it, and commands on checkpoints without it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from deepnmt.checkpoints import data_fit
from deepnmt.checkpoints.state import TRAINED_ON
from deepnmt.text.subword_identity import SubwordIdentity
from support.checkpoints import load


def knows(path: Path, identity: SubwordIdentity, **parts: Any) -> Path:
    """Give a checkpoint what its training knew of its data."""
    state = load(path)
    torch.save({**state, **parts, "extra_state": {**state["extra_state"], TRAINED_ON: identity.record()}}, path)
    return path


def earlier(checkpoint: Path, path: Path) -> Path:
    """Write a checkpoint as earlier versions did, which recorded nothing of the data."""
    state = load(checkpoint)
    del state["extra_state"][TRAINED_ON]
    torch.save(state, path)
    return path


def warned_of(run: Callable[[], object], caplog: pytest.LogCaptureFixture) -> list[str]:
    """Run a command, and return the checkpoints of which a line says that they have no checksums."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data_fit, "_said", False)
        run()
    return [record.message.partition(" has")[0] for record in caplog.records if "no checksums" in record.message]
