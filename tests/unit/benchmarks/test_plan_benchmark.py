"""benchmarks/plan.py: its errors by hand, and one real comparison."""

from __future__ import annotations

from pathlib import Path

import plan as benchmark
import pytest
from support import warm
from support.data_folders import data_folder

RECIPE = """arch: dlcl_transformer_tiny
optimizer: adam
max-tokens: 8
lr: 0.001
encoder-embed-dim: 8
decoder-embed-dim: 8
decoder-layers: 1
"""


def test_errors_are_shares_of_the_measured_figures() -> None:
    planned = {"seconds": 1.1, "processor seconds": 0.9, "memory": 2.0 * 2**30}
    timed = {"seconds": 1.0, "processor seconds": 1.0, "memory": 0.0}
    held = {"seconds": 9.0, "processor seconds": 9.0, "memory": 1.6 * 2**30}
    assert benchmark.row(12, planned, timed, held) == [
        "12", "1.100", "1.000", "+10.0 %", "0.900", "1.000", "-10.0 %", "2.000", "1.600", "+25.0 %",
    ]  # fmt: skip


@pytest.mark.slow
def test_plan_and_trainings_of_two_depths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in {**warm.environment(), "CUDA_VISIBLE_DEVICES": ""}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.executable", str(warm.program("python3")))
    (tmp_path / "r.yaml").write_text(RECIPE, encoding="utf-8")
    data = data_folder(tmp_path / "data", ["train", "valid"])
    words = [str(tmp_path / "r.yaml"), str(data), "--depths", "1,2", "--updates", "20"]
    monkeypatch.setattr("sys.argv", ["plan.py", *words])
    benchmark.main()
    *_, head, first, second = capsys.readouterr().out.splitlines()
    assert head.split()[:2] == ["layers", "s/update"]
    for number, line in enumerate((first, second), start=1):
        depth, *figures = line.replace(" %", "").split()
        assert depth == str(number)
        for planned, real in (figures[:2], figures[3:5], figures[6:8]):
            assert float(planned) > 0
            assert float(real) > 0
        # A process with torch, in GiB.
        assert 0.1 < float(figures[7]) < 4
