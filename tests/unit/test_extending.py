"""The worked examples of docs/extending.md: the new files do what the page says, and the old lines are there."""

from __future__ import annotations

import math
import re
import sys
from argparse import Namespace
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from fairseq.optim import lr_scheduler
from support import schedules
from support.models import EXAMPLE, build, task
from torch import nn

from deepnmt.errors import UserError
from deepnmt.model.initializers.weights import matrices
from deepnmt.model.norm_position import NORM_POSITIONS, NormPosition
from deepnmt.recipe import own_keys, read_recipe
from deepnmt.search import constraints

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "extending.md").read_text("utf-8")
BLOCK = r"^`([\w/]+\.py)`%s:\n\n```%s\n(.*?)^```"
NEW = dict(re.findall(BLOCK % (", new", "python"), PAGE, re.MULTILINE | re.DOTALL))
CHANGED = dict(re.findall(BLOCK % ("", "diff"), PAGE, re.MULTILINE | re.DOTALL))


def added(path: str) -> str:
    """Return the lines that the page adds to a file."""
    return dedent("\n".join(line[1:] for line in CHANGED[path].splitlines() if line.startswith("+")))


@pytest.fixture
def example(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """One of the new files, imported under the name that it would have."""
    (path,) = [path for path in NEW if Path(path).stem == request.param]
    module = ModuleType(path.removesuffix(".py").replace("/", "."))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(NEW[path], path, "exec", dont_inherit=True), vars(module))
    return module


def test_examples_of_every_kind_are_found() -> None:
    assert {Path(path).parent.name for path in NEW} == {
        "initializers", "lr_schedulers", "criterions", "recipe", "echo"
    }  # fmt: skip
    assert len(CHANGED) >= 4


@pytest.mark.parametrize("path", CHANGED)
def test_lines_around_a_registration_stand_in_the_file(path: str) -> None:
    lines = (ROOT / path).read_text("utf-8").splitlines()
    old = [line[1:] for line in CHANGED[path].splitlines() if line.startswith((" ", "-"))]
    assert [line for line in old if line not in lines] == []
    assert added(path)


@pytest.mark.parametrize("example", ["orthogonal"], indirect=True)
def test_the_initialiser_makes_all_singular_values_one(example: Any) -> None:
    model = build()
    example.orthogonal(model, model.cfg.deep)
    found = [matrix for stack in (model.encoder, model.decoder) for _, matrix in matrices(stack.layers)]
    assert len(found) == 3 * 6 + 3 * 10
    for matrix in found:
        values = torch.linalg.svdvals(matrix.weight.detach())
        assert values.tolist() == pytest.approx([1.0] * len(values))
        assert matrix.bias.eq(0).all()


def test_the_norm_position_is_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    (row,) = eval(added("deepnmt/model/norm_position.py"), {"NormPosition": NormPosition})
    monkeypatch.setitem(NORM_POSITIONS, row.name, row)
    model = build(encoder_norm=row.name, encoder_groups="none")
    (layer, *_), x = model.encoder.layers, torch.randn(5, 2, 16).double()
    with torch.no_grad():
        attended = x + layer.self_attn(*[layer.self_attn_layer_norm(x)] * 3)[0]
        hidden = layer.fc1(layer.final_layer_norm(attended)).relu()
        expected = attended + layer.fc2(hidden) + x
        assert torch.allclose(layer(x, None), expected)
    assert isinstance(model.encoder.layer_norm, nn.LayerNorm)


@pytest.mark.parametrize("example", ["inverse_sqrt_hold"], indirect=True)
def test_the_schedule_is_its_formula(example: Any) -> None:
    exec(added("deepnmt/lr_schedulers/__init__.py"), vars(lr_scheduler))
    scheduler = schedules.build("inverse_sqrt_hold", hold_updates=300)
    expected = [0.003 * min(1.0, math.sqrt(300 / max(t, 1))) for t in range(2000)]
    assert schedules.rates(scheduler, range(2000)) == pytest.approx(expected, **schedules.CLOSE)


@pytest.mark.parametrize("example", ["confidence"], indirect=True)
def test_the_criterion_is_its_formula(example: Any) -> None:
    model, target = build(), torch.tensor([[6, 7, 8, 9, 2, 1, 1], [13, 14, 5, 6, 7, 8, 2]])
    cfg = Namespace(
        sentence_avg=False, label_smoothing=0.0, ignore_prefix_size=0, report_accuracy=False, confidence_beta=0.3
    )
    criterion = example.Confidence(task(), cfg)
    sample = {"net_input": EXAMPLE, "target": target, "ntokens": 12}
    loss, size, log = criterion(model, sample)
    log_p = F.log_softmax(model(**EXAMPLE)[0], dim=-1)
    real = target.ne(1)
    nll = -log_p.gather(2, target.unsqueeze(2)).squeeze(2)[real].sum()
    entropy = -(log_p.exp() * log_p).sum(2)[real].sum()
    assert loss.item() == pytest.approx((nll - 0.3 * entropy).item(), rel=1e-6)
    assert log["nll_loss"].item() == pytest.approx(nll.item(), rel=1e-6)
    assert size == 12


def test_the_search_rule_forbids_the_newest_token() -> None:
    exec(added("deepnmt/search/constraints.py"), namespace := dict(vars(constraints)))
    before = torch.randn(4, 7)
    after, newest = before.clone(), torch.tensor([[3, 6], [0, 3]])
    namespace["NoEcho"]()(after, Namespace(last_tokens=lambda: newest))
    for row, token in enumerate([3, 6, 0, 3]):
        expected = [-math.inf if column == token else value for column, value in enumerate(before[row].tolist())]
        assert after[row].tolist() == expected


@pytest.mark.parametrize("example", ["both_stacks"], indirect=True)
def test_the_recipe_key_sets_both_depths(example: Any, tmp_path: Path) -> None:
    exec(added("deepnmt/recipe/own_keys.py"), namespace := dict(vars(own_keys)))
    recipe = tmp_path / "a.yaml"
    recipe.write_text("arch: x\nlayers: 12\ndecoder-layers: 2\n", encoding="utf-8")
    options = namespace["OWN_KEYS"][example.LAYERS].options(dict(read_recipe(recipe)), 1)
    assert {name: option.value for name, option in options.items()} == {
        "encoder-layers": "12", "decoder-layers": "2", "arch": "x",
    }  # fmt: skip
    recipe.write_text("layers: 0\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"a\.yaml:1: layers must be a positive whole number, but is '0'"):
        example.both_stacks(dict(read_recipe(recipe)), 1)
