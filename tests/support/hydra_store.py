"""Half of the time in which fairseq turns options into its configuration, Hydra copies the store of all classes."""

from __future__ import annotations

from typing import Any

from hydra.core.config_store import ConfigStore


def share_configurations() -> None:
    """Have all copies of Hydra's repository read the one store, which copies whatever it hands out by itself."""

    def same(self: ConfigStore, memo: dict[int, Any]) -> ConfigStore:
        return self

    ConfigStore.__deepcopy__ = same  # type: ignore[attr-defined]
