"""scripts/synthesise.sh killed and resumed: the files are those of an undisturbed run in shards."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from support.flow import SCRIPTS, contents
from support.processes import started, wait_until
from support.synthetic_runs import OPTIONS, back_command

from deepnmt.cli import synthesise

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}


@pytest.mark.slow
def test_killed_and_resumed_it_gives_the_files_of_an_undisturbed_run_in_shards(tmp_path: Path) -> None:
    command = back_command(tmp_path / "made")
    script = [SCRIPTS / "synthesise.sh", *command, tmp_path / "out", *OPTIONS]
    parts = tmp_path / "out.parts"
    with started(script, ENVIRONMENT) as process:
        wait_until(lambda: len(list(parts.glob("chunk-*.json"))) >= 2, process)
    assert not (tmp_path / "out").exists()
    kept = {path.name: path.read_bytes() for path in parts.glob("chunk-*.json")}
    assert 2 <= len(kept) < 7
    with started(script, ENVIRONMENT) as process:
        assert process.wait(timeout=600) == 0
    assert not parts.exists()

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    for shard in (1, 2, 0):
        synthesise.main([*command, str(tmp_path / "other"), *OPTIONS, "--shards", "3", "--shard", str(shard)])
        if shard == 2:
            chunks = {path.name: path.read_bytes() for path in (tmp_path / "other.parts").glob("chunk-*.json")}
            common = kept.keys() & chunks.keys()
            assert common
            assert all(kept[name] == chunks[name] for name in common)
    torch.set_num_threads(threads)
    assert contents(tmp_path / "out") == contents(tmp_path / "other")
