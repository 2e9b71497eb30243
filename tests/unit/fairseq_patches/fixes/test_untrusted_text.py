"""Nothing that a checkpoint's configuration says is run, whichever option says it and whichever command reads it."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import re
import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fairseq
import pytest
import torch
from fairseq import checkpoint_utils, utils
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.logging import metrics
from fairseq_cli import generate, train, validate
from support.checkpoints import load, run_main
from support.inspected import RECIPE, Toy, make_toy

from deepnmt import cli
from deepnmt.checkpoints.data_fit import check_model
from deepnmt.cli import inspect
from deepnmt.criterions import distillation
from deepnmt.criterions.distillation import DistillationConfig
from deepnmt.errors import UserError
from deepnmt.literals import EVALUATED, evaluate_literal
from deepnmt.recipe import read_recipe
from deepnmt.recipe.checking import check_recipe

HISTORY = [{"num_updates": 1, "best_loss": 1.0, "criterion_name": "CrossEntropyCriterion"}]


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    # Of few tensors, since it is read hundreds of times.
    recipe = re.sub(r"(?m)^(\w+coder-layers): .*", r"\1: 1", RECIPE)
    return make_toy(tmp_path_factory.mktemp("toy"), recipe)


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    return tmp_path / "it-ran"


def payload(marker: Path) -> str:
    return f"__import__('pathlib').Path({str(marker)!r}).touch()"


def leaves(value: Any, *path: str) -> Iterator[tuple[str, ...]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, *path, key)
    else:
        yield path


def with_value(state: dict[str, Any], path: tuple[str, ...], value: object) -> dict[str, Any]:
    """The checkpoint with one value of its cfg changed."""

    def changed(inner: dict[str, Any], rest: tuple[str, ...]) -> dict[str, Any]:
        return {**inner, rest[0]: changed(inner[rest[0]], rest[1:]) if len(rest) > 1 else value}

    return {**state, "cfg": changed(state["cfg"], path)}


def test_no_field_of_a_checkpoint_runs(toy: Toy, tmp_path: Path, marker: Path) -> None:
    state, path = load(toy.checkpoint), tmp_path / "bad.pt"
    fields = list(leaves(state["cfg"]))
    assert len(fields) > 250, "fairseq's configuration, all of it"
    # Building reads the model and the task, option by option; the other sections are changed whole.
    cases = [[field] for field in fields if field[0] in ("model", "task")]
    sections = {field[0] for field in fields} - {"model", "task"}
    cases += [[field for field in fields if field[0] == section] for section in sections]
    for case in cases:
        bad = state
        for field in case:
            bad = with_value(bad, field, payload(marker))
        torch.save(bad, path)
        with contextlib.suppress(Exception):  # a fault is fine here; what it runs on the way is not
            checkpoint_utils.load_model_ensemble_and_task([str(path)])
        assert not marker.exists(), case


def test_no_field_of_an_old_checkpoint_runs(toy: Toy, tmp_path: Path, marker: Path) -> None:
    path = tmp_path / "old.pt"
    cfg = load(toy.checkpoint)["cfg"]
    flat = {"task": "translation", "arch": "transformer", **cfg["task"], **cfg["model"]}
    flat = {key: value for key, value in flat.items() if not key.startswith("_")}
    for name in (*EVALUATED, "encoder_xformers_att_config", "encoder_embed_path", "source_lang", "decoder_layers"):
        args = Namespace(**{**flat, name: payload(marker)})
        torch.save({"args": args, "model": {}, "optimizer_history": HISTORY, "extra_state": {}}, path)
        with pytest.raises(Exception, match=r".") as caught:
            checkpoint_utils.load_model_ensemble_and_task([str(path)])
        assert not marker.exists(), name
        if name.endswith(EVALUATED):
            assert str(caught.value).startswith(f"{path}: {name} must be a literal such as"), name
    convert_namespace_to_omegaconf(Namespace(**flat))  # the unharmed one is read


@pytest.mark.parametrize("name", [name for name in EVALUATED if not name.startswith("xformers")])
def test_evaluated_options_are_named(name: str, toy: Toy, tmp_path: Path, marker: Path) -> None:
    path = tmp_path / "bad.pt"
    torch.save(with_value(load(toy.checkpoint), ("model", name), payload(marker)), path)
    with pytest.raises(UserError, match=rf"^{path}: model\.{name} must be a literal such as 0\.1 or"):
        checkpoint_utils.load_checkpoint_to_cpu(str(path))


@pytest.mark.parametrize("value", ["${oc.env:HOME}", "a ${common.seed}"])
def test_nothing_is_expanded(value: str, toy: Toy, tmp_path: Path) -> None:
    torch.save(with_value(load(toy.checkpoint), ("task", "source_lang"), value), tmp_path / "bad.pt")
    with pytest.raises(UserError, match=r"task\.source_lang must be a plain value, but is .* which would be expanded"):
        checkpoint_utils.load_checkpoint_to_cpu(str(tmp_path / "bad.pt"))


def test_paths_of_embeddings_are_forgotten(toy: Toy, tmp_path: Path) -> None:
    path = tmp_path / "moved.pt"
    torch.save(with_value(load(toy.checkpoint), ("model", "encoder_embed_path"), str(tmp_path / "gone.vec")), path)
    models, _, _ = checkpoint_utils.load_model_ensemble_and_task([str(path)])
    assert torch.equal(models[0].encoder.embed_tokens.weight, toy.model.encoder.embed_tokens.weight)
    given = {"encoder_embed_path": "the user's own"}
    assert checkpoint_utils.load_checkpoint_to_cpu(str(path), given)["cfg"].model.encoder_embed_path == "the user's own"


@pytest.mark.slow
def test_a_distilled_model_needs_no_teachers(
    toy: Toy,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is validated and inspected without the files that its configuration names; those are not opened."""
    monkeypatch.setattr(distillation, "load_teachers", lambda *_: pytest.fail("opened"))
    state, path = load(toy.checkpoint), tmp_path / "taught.pt"
    teacher = tmp_path / "teacher.pt"
    teacher.write_bytes(toy.checkpoint.read_bytes())
    chosen = DistillationConfig(label_smoothing=0.1, sentence_avg=False)
    options = {**dataclasses.asdict(chosen), "_name": distillation.NAME}
    torch.save(with_value(state, ("criterion",), {**options, "teacher": f"{teacher}:gone.pt"}), path)
    _, cfg, _ = checkpoint_utils.load_model_ensemble_and_task([str(path)])
    assert cfg.criterion.teacher is None
    given = checkpoint_utils.load_checkpoint_to_cpu(str(path), {"teacher": "the user's own"})
    assert given["cfg"].criterion.teacher == "the user's own"
    other = {**options, "_name": "somebody's own", "teacher": "kept"}
    torch.save(with_value(state, ("criterion",), other), tmp_path / "other.pt")
    assert checkpoint_utils.load_checkpoint_to_cpu(str(tmp_path / "other.pt"))["cfg"].criterion.teacher == "kept"

    losses = []
    for each in (toy.checkpoint, path):
        words = [str(toy.data), f"--path={each}", "--task=translation", "--valid-subset=train", "--batch-size=4"]
        with metrics.aggregate(new_root=True) as aggregator:
            run_main(validate.cli_main, "fairseq-validate", *words)
        losses.append(aggregator.get_smoothed_values()["loss"])
    assert losses[1] == pytest.approx(losses[0], rel=1e-6)

    reports = []
    for each in (toy.checkpoint, path):
        caplog.clear()
        capsys.readouterr()
        run_main(inspect.main, "deepnmt inspect", f"same={each}", "--data", str(toy.data))
        # Where fairseq-validate has run, the log is on the standard output.
        reports.append([line for line in capsys.readouterr().out.splitlines() if "WARNING" not in line])
        said = f"{path}: measured by the label-smoothed cross entropy alone, without the teachers' share"
        assert (said in caplog.messages) == (each == path)
    assert reports[0] == reports[1]


def test_model_whose_options_are_a_namespace(toy: Toy, tmp_path: Path) -> None:
    """fairseq-train saves it so where the architecture has no dataclass of its own."""
    state, path = load(toy.checkpoint), tmp_path / "namespace.pt"
    model = Namespace(**{**state["cfg"]["model"], "encoder_embed_path": str(tmp_path / "gone.vec")})
    torch.save(with_value(state, ("model",), model), path)
    loaded = checkpoint_utils.load_checkpoint_to_cpu(str(path))["cfg"].model
    assert isinstance(loaded, Namespace)
    assert loaded.encoder_embed_path is None
    model.adaptive_softmax_cutoff = "print(1)"
    torch.save(with_value(state, ("model",), model), path)
    with pytest.raises(UserError, match=r"model\.adaptive_softmax_cutoff"):
        checkpoint_utils.load_checkpoint_to_cpu(str(path))


def test_each_evaluation_of_fairseqs_reads_literals() -> None:
    root = Path(fairseq.__file__).parent
    found = []
    for path in sorted(root.rglob("*.py")):
        if "examples" in path.parts:
            continue  # programs of their own, which fairseq does not import
        calls = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
        names = {call.func.id for call in calls if isinstance(call.func, ast.Name)}
        assert not names & {"exec", "__import__"}, path
        if "eval" in names:
            found.append(".".join(path.relative_to(root.parent).with_suffix("").parts))
    assert {"fairseq.utils", "fairseq.optim.adam"} <= set(found)
    for name in found:
        assert name in sys.modules, f"{name} is imported too late to have its eval replaced"
        assert vars(sys.modules[name]).get("eval") is evaluate_literal, name


def test_what_users_write_is_still_read() -> None:
    assert utils.eval_str_list("[1, 2]", int) == [1, 2]
    assert utils.eval_str_list("3") == [3.0]
    assert utils.eval_str_dict("{'name': 'scaled_dot_product'}") == {"name": "scaled_dot_product"}
    assert [utils.eval_bool(value) for value in ("True", "0", None, True)] == [True, False, False, False]


SMALL = [f"--{stack}-{name}=8" for stack in ("encoder", "decoder") for name in ("embed-dim", "ffn-embed-dim")]
TRAIN = [
    "--arch=dlcl_transformer",
    *SMALL,
    "--optimizer=adam",
    "--lr=1",
    "--batch-size=4",
    "--num-workers=0",
    "--cpu",
    "--disable-validation",
]
NO_VALID = "--disable-validation"
# deepnmt import takes tensors, no configuration, and says what it lacks of them.
COMMANDS: dict[str, tuple[Any, list[str]]] = {
    "deepnmt inspect": (cli.main, ["inspect", "{bad}", "--data", "{data}"]),
    "deepnmt grow": (cli.main, ["grow", "{bad}", "{out}", "--encoder-layers", "6"]),
    "deepnmt shrink": (cli.main, ["shrink", "{bad}", "{out}", "--encoder-every", "2"]),
    "deepnmt import": (cli.main, ["import", "{bad}", "{out}"]),
    "fairseq-generate": (
        generate.cli_main,
        ["{data}", "--path={bad}", "--gen-subset=train", "--batch-size=4", "--cpu"],
    ),
    "fairseq-train": (
        train.cli_main,
        ["{data}", *TRAIN, "--cpu", "--restore-file={bad}", "--save-dir={save}", NO_VALID],
    ),
    "deepnmt average": (cli.main, ["average", "{folder}", "{out}", "--last", "1"]),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("field", ["encoder_xformers_att_config", "adaptive_softmax_cutoff"])
def test_commands_refuse(
    command: str, field: str, toy: Toy, tmp_path: Path, marker: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad, out = tmp_path / "checkpoint1.pt", tmp_path / "out.pt"
    torch.save(with_value(load(toy.checkpoint), ("model", field), payload(marker)), bad)
    names = {"bad": bad, "out": out, "data": toy.data, "folder": tmp_path, "save": tmp_path / "save"}
    main, words = COMMANDS[command]
    # The package's commands show a fault and end; others leave that to whoever runs them.
    with pytest.raises((SystemExit, UserError), match=r"^2$|must be a literal") as raised:
        run_main(main, command, *(word.format(**names) for word in words))
    said = capsys.readouterr().err + str(raised.value)
    assert not marker.exists()
    assert not out.exists()
    assert "Traceback" not in said
    if command != "deepnmt import":
        assert f"{bad}: model.{field} must be a literal" in said


def test_generate_sh_refuses(toy: Toy, tmp_path: Path, marker: Path) -> None:
    bad = tmp_path / "bad.pt"
    torch.save(with_value(load(toy.checkpoint), ("model", "adaptive_softmax_cutoff"), payload(marker)), bad)
    with pytest.raises(UserError, match=r"bad\.pt: model\.adaptive_softmax_cutoff must be a literal"):
        check_model(bad, toy.data, ("de", "en"))
    assert not marker.exists()


@pytest.mark.parametrize("key", ["adam-betas", "adaptive-softmax-cutoff", "encoder-xformers-att-config"])
def test_recipes_refuse(key: str, tmp_path: Path, marker: Path) -> None:
    lines = ["arch: dlcl_transformer", "optimizer: adam", "lr: 1", "batch-size: 4", f'{key}: "{payload(marker)}"']
    path = tmp_path / "r.yaml"
    path.write_text("\n".join(lines), encoding="utf-8")
    must = r"(two numbers of at least 0.*|numbers|a literal such as.*)"
    with pytest.raises(UserError, match=rf"r\.yaml:5: {key} must be {must}, but is "):
        check_recipe(path, read_recipe(path), [])
    assert not marker.exists()
