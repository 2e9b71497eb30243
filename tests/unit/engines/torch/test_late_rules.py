"""The first import of torch in a command leaves out its rules for meta tensors until somebody needs them."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from deepnmt.engines import registry

COMMAND = """
import sys
from deepnmt.console import run
from deepnmt.engines.torch.late_rules import RULES, leave_rules_for_later

def main():
    leave_rules_for_later()
    import torch
    print("torch._decomp" in sys.modules)
    factors = torch.empty(3, 5, device="meta"), torch.empty(5, 2, device="meta")
    print(torch.nn.functional.linear(torch.ones(1, 2), torch.eye(2)).tolist(), (factors[0] @ factors[1]).shape)
    late = sys.modules[RULES]
    before = hasattr(late, "__file__"), "torch._decomp" in sys.modules
    print(*before, callable(late.register_meta), sys.modules[RULES] is late, "torch._decomp" in sys.modules)
    print(hasattr(sys.modules[RULES], "__file__"), hasattr(late, "no_such_rule"), late.register_meta.__module__)

run(main)
"""
OTHER = """
import sys
from deepnmt.engines.torch.late_rules import RULES, leave_rules_for_later

leave_rules_for_later()
print(RULES in sys.modules)
"""


def printed(code: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_command_gets_them_when_it_asks_for_one() -> None:
    without, computed, later, last = printed(COMMAND)
    assert without == "False"
    assert computed == "[[1.0, 1.0]] torch.Size([3, 2])"
    assert later == "False False True False True"
    assert last.startswith("True False torch.")


def test_other_programs_get_them_at_once() -> None:
    assert printed(OTHER) == ["False"]


@pytest.mark.parametrize(("engine", "calls"), [("torch", 1), ("onnx", 0)])
def test_the_torch_engine_alone_leaves_them_for_later(engine: str, calls: int, monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[str] = []
    monkeypatch.setattr(registry, "leave_rules_for_later", lambda: left.append("left"))
    loaded = SimpleNamespace(load=lambda folder, threads: left.append("loaded"))
    monkeypatch.setattr(registry, "engine_module", lambda name, part: loaded)
    folder: Any = SimpleNamespace(engine=engine, has_torch_weights=lambda: False)
    registry.load_engine(folder)
    assert left == ["left"] * calls + ["loaded"], "before torch is imported"
