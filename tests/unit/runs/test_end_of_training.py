"""A training that has ended can be interrupted at its exit without a traceback."""

from __future__ import annotations

import signal

import pytest

from deepnmt.runs import training


def test_ctrl_c_at_the_exit_is_the_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    handlers: dict[int, object] = {}
    monkeypatch.setattr(signal, "signal", handlers.__setitem__)
    monkeypatch.setattr(training, "run", lambda prepare, name: prepare())

    def cli_main() -> int:
        assert signal.SIGINT not in handlers, "until the end, Ctrl-C is an exception"
        return 7

    monkeypatch.setattr(training, "cli_main", cli_main)
    with pytest.raises(SystemExit, match="7"):
        training.become_fairseq_train(lambda: None)
    assert handlers[signal.SIGINT] == signal.SIG_DFL
