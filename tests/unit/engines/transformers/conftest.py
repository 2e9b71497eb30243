"""A model in a folder for transformers."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.translation_models import write_checkpoint, write_data

from deepnmt.engines.engine import SearchSettings
from deepnmt.export.exporter import Export, export


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data(tmp_path_factory.mktemp("transformers") / "data")


@pytest.fixture(scope="module")
def dlcl(data: Path) -> tuple[Path, Path]:
    """A checkpoint and its folder."""
    checkpoint = write_checkpoint(data.parent / "dlcl.pt", data, merged_attention=True, encoder_max_relative_length=2)
    search = SearchSettings(beam=3, lenpen=0.7, max_len_b=12)
    export(Export([checkpoint], data, "transformers", check=4, search=search), data.parent / "dlcl")
    return checkpoint, data.parent / "dlcl"
