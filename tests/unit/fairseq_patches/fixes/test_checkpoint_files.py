"""Checkpoints that cannot be written are said once, in the error that is raised."""

from __future__ import annotations

import errno
import time
from typing import Any

import pytest
import torch
from fairseq import checkpoint_utils


def test_a_full_disk_is_not_logged_as_a_traceback(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(torch, "save", full)
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    with pytest.raises(OSError, match="No space left on device"):
        checkpoint_utils._torch_persistent_save({}, None)
    assert not caplog.records
    checkpoint_utils.logger.warning("heard")
    assert [record.message for record in caplog.records] == ["heard"]
