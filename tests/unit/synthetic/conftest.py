"""Data, monolingual text and a stub of a model, for the tests of synthetic pairs."""

from pathlib import Path

import pytest
from support.substitution import SOURCE, TARGET, Substitution, monolingual, substituted, substitution_data
from support.synthesised import LINES

from deepnmt.synthetic import pair_making


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Data, and monolingual text of both languages."""
    folder = tmp_path_factory.mktemp("synthetic")
    data = substitution_data(folder / "data")
    symbols = ["<BT>", "<BLANK>"]
    model = folder / "model.pt"
    model.write_text("a stub")
    return {
        "data": data,
        TARGET: monolingual(folder, data, TARGET, LINES, symbols),
        SOURCE: monolingual(folder, data, SOURCE, [substituted(line) for line in LINES], []),
        "model": model,
    }


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair_making, "LineDecoder", Substitution)
    monkeypatch.setattr("deepnmt.checkpoints.data_fit.check_model", lambda path, data, languages: None)
    monkeypatch.setattr(Substitution, "calls", [])
