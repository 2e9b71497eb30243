"""The list of changes: complete, ordered, made once, and only in the fairseq that it was written for."""

from __future__ import annotations

import inspect
import re
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from deepnmt import fairseq_patches
from deepnmt.errors import UserError
from deepnmt.fairseq_patches import __main__ as table
from deepnmt.fairseq_patches import patch
from deepnmt.fairseq_patches.patch import Replacement, Setting, declared, install_declared, replaces, sets, signature_of
from deepnmt.fairseq_patches.signatures import SIGNATURES

REPLACEMENTS = [each for each in declared() if isinstance(each, Replacement)]


@pytest.mark.parametrize("each", REPLACEMENTS, ids=lambda each: f"{each.target}-{each.order}")
def test_target_exists_and_has_the_recorded_signature(each: Replacement) -> None:
    found = inspect.signature(getattr(each.owner, each.name))
    text = ", ".join(str(parameter.replace(annotation=parameter.empty)) for parameter in found.parameters.values())
    known = SIGNATURES[each.target]
    if known.endswith(", ...)"):
        assert f"({text}".startswith(known.removesuffix("...)"))
    else:
        assert f"({text})" == known
    assert each.fault() == ""


def test_replacements_of_one_name_have_an_order() -> None:
    keys = [(each.target, each.order) for each in REPLACEMENTS]
    assert len(set(keys)) == len(keys)
    assert len(keys) >= 25


def test_no_signature_is_left_over() -> None:
    assert set(SIGNATURES) == {each.target for each in REPLACEMENTS}


def test_only_the_room_of_the_process_waits_for_a_command() -> None:
    settings = [each for each in declared() if isinstance(each, Setting)]
    rooms = {each.target: each.function.__module__.split(".")[2] for each in settings}
    assert {each.target for each in settings if each.in_commands} == {
        target for target, room in rooms.items() if room == "process"
    }
    assert {"sys.excepthook", "os.environ", "signal.SIGINT", "warnings.filters", "logging.root"} <= set(rooms)


def test_every_file_of_a_room_belongs_to_it() -> None:
    rooms = {each.function.__module__.split(".")[2] for each in declared()}
    assert rooms == set(fairseq_patches.ROOMS) == {"checks", "fixes", "hooks", "process"}
    root = Path(fairseq_patches.__file__).parent
    files = [path for path in root.glob("*/*.py") if path.stem != "__init__"]
    assert {".".join(path.relative_to(root.parents[1]).with_suffix("").parts) for path in files} <= set(sys.modules)


def test_second_installation_changes_nothing() -> None:
    before = {each.target: getattr(each.owner, each.name) for each in REPLACEMENTS}
    fairseq_patches.install()
    assert before == {each.target: getattr(each.owner, each.name) for each in REPLACEMENTS}


class Stock:
    """Stands for a class of fairseq's."""

    def method(self, text: str, times: int = 2) -> str:
        return text * times

    @staticmethod
    def static(text: str) -> str:
        return text

    @classmethod
    def name(cls, end: str) -> str:
        return cls.__name__ + end


@pytest.fixture
def empty(monkeypatch: pytest.MonkeyPatch) -> Any:
    """No patches yet, and a class and a module to patch."""
    monkeypatch.setattr(patch, "_patches", [])
    monkeypatch.setattr(patch, "_installed", [])
    method = "(self, text, times=2)"
    known = {"Class.method": method, "Class.static": "(text)", "Class.name": "(end)"}
    mine = {f"{Stock.__module__}.{name}": signature for name, signature in known.items()}
    monkeypatch.setattr(patch, "SIGNATURES", {**mine, "stock.function": "(x)", "stock.gone": "()"})
    module = types.ModuleType("stock")
    vars(module).update(Class=type("Class", (Stock,), dict(vars(Stock))), function=lambda x: [x])
    return module


def test_order_settings_static_methods_and_once(empty: Any) -> None:
    calls = []

    @replaces(empty.Class, "method", order=20, why="outside")
    def outside(stock: Any, self: Any, *args: Any, **kwargs: Any) -> str:
        return f"<{stock(self, *args, **kwargs)}>"

    @replaces(empty.Class, "method", order=10, why="inside")
    def inside(stock: Any, self: Any, text: str, times: int = 2) -> str:
        return f"({stock(self, text, times + 1)})"

    @replaces(empty.Class, "static", order=10, why="static")
    def static(stock: Any, text: str) -> str:
        return f"{stock(text)}!"

    @replaces(empty.Class, "name", order=10, why="a class's")
    def name(stock: Any, cls: Any, end: str) -> str:
        return f"{stock(cls, end)}!"

    @replaces(empty, "function", order=10, why="a module's")
    def function(stock: Any, x: int) -> list[int]:
        return [*stock(x), x + 1]

    sets("calls", order=10, why="counts")(lambda: calls.append(1))
    for _ in range(2):
        install_declared()
        assert empty.Class().method("a", times=1) == "<(aa)>"
        assert empty.Class.static("b") == empty.Class().static("b") == "b!"
        assert empty.Class.name("?") == empty.Class().name("?") == "Class?!"
        assert empty.function(1) == [1, 2]
        assert calls == [1]
    assert signature_of(empty.Class.method) == "(self, text, times=2)"


def test_another_fairseq_is_refused_before_anything_is_replaced(empty: Any) -> None:
    patch.SIGNATURES[f"{Stock.__module__}.Class.method"] = "(self, text)"
    replaces(empty.Class, "static", order=10, why="fits")(lambda stock, *args: "")
    replaces(empty.Class, "method", order=20, why="another")(lambda stock, *args: "")
    replaces(empty, "gone", order=10, why="missing")(lambda stock: None)
    name = re.escape(f"{Stock.__module__}.Class.method")
    with pytest.raises(UserError, match="deepnmt changes this function") as raised:
        install_declared()
    lines = str(raised.value).splitlines()
    assert len(lines) == 2
    known = "deepnmt changes this function and knows ve-fairseq 0.12.3 and fairseq-fixed 0.12.3.1: install one of them"
    assert re.fullmatch(
        rf"fairseq [\d.]+: {name} must be called with \(self, text\), but is with \(self, text, times=2\); {known}",
        lines[1],
    )
    assert re.fullmatch(rf"fairseq [\d.]+: stock\.gone must exist, but does not; {known}", lines[0])
    assert empty.Class().method("a") == "aa"
    assert empty.Class.static("b") == "b"


def test_table_names_every_change(capsys: pytest.CaptureFixture[str]) -> None:
    table.main()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 + len(declared())
    assert all(each.target in line and each.why in line for each, line in zip(declared(), lines[2:]))
    (line,) = (line for line in lines if line.startswith("sys.excepthook"))
    assert re.fullmatch(r"sys\.excepthook +10 +process/commands\.py: show_faults_in_one_line +a user's fault .*", line)
