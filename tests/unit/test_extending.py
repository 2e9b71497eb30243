"""The worked examples of docs/extending.md: the new files do what the page says, and the old lines are there."""

from __future__ import annotations

import math
import re
import shutil
import subprocess
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
from support import schedules, trainings, translation_models
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


def applied(text: str, diff: str) -> str:
    """Return a file with a page's lines: each part of them takes the one place of its old lines, or the end."""
    for part in re.split(r"^@@\n", diff, flags=re.MULTILINE):
        lines = part.splitlines(keepends=True)
        old = "".join(line[1:] for line in lines if line[0] in " -")
        if not old:
            text += "\n\n" + "".join(line[1:] for line in lines)
            continue
        assert text.count(f"\n{old}") == 1, f"must stand once in the file: {old}"
        text = text.replace(f"\n{old}", "\n" + "".join(line[1:] for line in lines if line[0] in " +"))
    return text


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package in which each example has been followed to the letter."""
    root = tmp_path_factory.mktemp("copy")
    # With what Python has compiled, and the times by which it knows that.
    shutil.copytree(ROOT / "deepnmt", root / "deepnmt")
    for path, text in NEW.items():
        (root / path).parent.mkdir(exist_ok=True)
        (root / path).write_text(text, "utf-8")
    for path, diff in CHANGED.items():
        (root / path).write_text(applied((root / path).read_text("utf-8"), diff), "utf-8")
    return root


def run_in(copy: Path, *words: object) -> subprocess.CompletedProcess[str]:
    """Run a subcommand of the copy."""
    command = [sys.executable, "-m", "deepnmt", *map(str, words)]
    return subprocess.run(command, cwd=copy, capture_output=True, text=True, timeout=300, check=False)


# Trains by a recipe with the page's key, and translates, in one process: importing fairseq takes seconds.
TRAINING = """
import sys
from pathlib import Path
import fairseq
from deepnmt.recipe import recipe_file, own_keys
recipe, data, save = Path("recipe.yaml"), sys.argv[1], sys.argv[2]
options = dict(recipe_file.read_recipe(recipe))
options = own_keys.OWN_KEYS["layers"].options(options, 1)
words = [f"--{name}={option.value}" for name, option in options.items()]
from fairseq_cli import generate, train
user = ["--user-dir", "deepnmt"]
sys.argv = ["fairseq-train", data, *user, *words, "--save-dir", save, "--cpu"]
train.cli_main()
sys.argv = ["fairseq-generate", data, *user, "--path", f"{save}/checkpoint_last.pt", "--task", "deep_translation",
            "--no-echo", "--cpu"]
generate.cli_main()
"""
# Exports a model, and translates by its folder.
EXPORT = """
import sys
from pathlib import Path
from deepnmt import Translator
from deepnmt.export.exporter import Export, export
checkpoint, data, folder = map(Path, sys.argv[1:])
export(Export([checkpoint], data, engine="echo", check=0), folder)
print(Translator(folder).translate("Der Hund schläft."))
"""
RECIPE = """
arch: dlcl_transformer
encoder-groups: none
decoder-groups: none
layers: 3
initializer: orthogonal
encoder-norm: pre-b2t
lr-scheduler: inverse_sqrt_hold
hold-updates: 2
lr: 0.01
criterion: label_smoothed_cross_entropy_confidence
optimizer: adam
encoder-embed-dim: 16
decoder-embed-dim: 16
encoder-ffn-embed-dim: 16
decoder-ffn-embed-dim: 16
encoder-attention-heads: 2
decoder-attention-heads: 2
max-tokens: 200
max-update: 4
"""


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
    assert len(CHANGED) >= 5


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


def test_the_search_rule_forbids_the_newest_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constraints, "BY_OPTION", {})
    exec(added("deepnmt/search/constraints.py"), namespace := dict(vars(constraints)))
    before = torch.randn(4, 7)
    after, newest = before.clone(), torch.tensor([[3, 6], [0, 3]])
    namespace["NoEcho"](True)(after, Namespace(last_tokens=lambda: newest))
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


def test_the_filter_is_one_row(copy: Path, tmp_path: Path) -> None:
    pairs = [("a (b)", "a (b)"), ("a (b) c", "a b c"), ("((a) (b))", "(a) (b)"), ("a b (c", "d")]
    for side, language in enumerate(("de", "en")):
        (tmp_path / f"text.{language}").write_text("".join(f"{pair[side]}\n" for pair in pairs))
    words = ["--input", tmp_path / "text", "--source-lang", "de", "--target-lang", "en", "--workers", 1]
    (tmp_path / "recipe").write_text("brackets 1\n")
    run_in(copy, "clean", *words, "--output", tmp_path / "out", "--brackets", "--score", tmp_path / "scores")
    assert (tmp_path / "out.de").read_text() == "a (b)\n"
    header, *rows = ((line.split("\t")) for line in (tmp_path / "scores").read_text().splitlines())
    assert [row[header.index("brackets")] for row in rows] == ["0", "1", "1", "1"]
    done = run_in(copy, "clean", *words, "--output", tmp_path / "two", "--recipe", tmp_path / "recipe")
    assert "brackets 1" in done.stdout
    assert (tmp_path / "two.en").read_text() == "".join(f"{target}\n" for _, target in pairs)
    assert "brackets that one side has more than the other (default: 0)" in " ".join(
        run_in(copy, "clean", "--help").stdout.split()
    )


def test_all_parts_of_a_training_and_the_search_rule_work_together(copy: Path, tmp_path: Path) -> None:
    (copy / "recipe.yaml").write_text(RECIPE)
    data = trainings.binarised_text(tmp_path)
    command = [sys.executable, "-c", TRAINING, str(data), str(tmp_path / "save")]
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    (hypotheses,) = [line for line in [done.stdout] if "\nH-" in line]
    found = [line.split("\t")[2].split() for line in hypotheses.splitlines() if line.startswith("H-")]
    assert len(found) == 6
    assert all(one != other for words in found for one, other in zip(words, words[1:]))
    model = torch.load(tmp_path / "save" / "checkpoint_last.pt", weights_only=True)["cfg"]["model"]
    assert (model["encoder_layers"], model["decoder_layers"], model["initializer"]) == (3, 3, "orthogonal")
    assert model["encoder_norm"] == "pre-b2t"


@pytest.mark.slow
def test_the_engine_repeats_its_source(copy: Path, tmp_path: Path) -> None:
    data = translation_models.write_data(tmp_path / "data")
    places = translation_models.write_checkpoint(tmp_path / "model.pt", data), data, tmp_path / "model"
    command = [sys.executable, "-c", EXPORT, *map(str, places)]
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout.splitlines()[-1:] == ["Der Hund schläft."], done.stderr
