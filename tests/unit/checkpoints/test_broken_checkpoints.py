"""Broken checkpoints, made up at random: never a traceback, never half a result."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fairseq import checkpoint_utils
from hypothesis import given, settings
from hypothesis import strategies as st
from support.checkpoints import BAD_STATES, checkpoint, model_of, with_model_options, with_optimizer

from deepnmt.checkpoints.grow import Growth, grow_state
from deepnmt.checkpoints.rewrite import rewritten
from deepnmt.checkpoints.shrink import Shrinking, shrink_state
from deepnmt.checkpoints.state import CheckpointState
from deepnmt.errors import UserError
from deepnmt.fairseq_patches.checks.resumable import check_resumable
from deepnmt.model.transformer import NAME

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 10**30),
    st.floats(),
    st.sampled_from(["", "model", "1,2", "__import__('os')", "0,99999999999"]),
    st.just([]),
    st.just({}),
    st.just([{}]),
    st.just({"x": 1}),
    st.sampled_from([torch.zeros(()), torch.zeros(0), torch.full((3, 2), float("nan")), torch.zeros(2, 2, 2)]),
)
USES: dict[str, Callable[[Path], object]] = {
    "grow": lambda path: rewritten(
        CheckpointState.of(path), lambda *old: grow_state(*old, Growth({"encoder": 2}), True, False)
    ),
    "shrink": lambda path: rewritten(
        CheckpointState.of(path), lambda *old: shrink_state(*old, Shrinking(every={"decoder": 2}), False)
    ),
    "load": lambda path: checkpoint_utils.load_checkpoint_to_cpu(str(path)),
    "resume": lambda path: check_resumable(CheckpointState.of(path, numbers=False), trainer(), False),
}


@functools.cache
def trainer() -> SimpleNamespace:
    """What a checkpoint is held against before fairseq resumes from it."""
    model = model_of(checkpoint(encoder_layers=1, decoder_layers=2))
    return SimpleNamespace(
        cfg=SimpleNamespace(optimizer=SimpleNamespace(_name="adam")),
        get_criterion=lambda: None,
        get_model=lambda: model,
        task=None,
    )


def whole() -> dict[str, Any]:
    """Return a checkpoint whose dictionaries and lists may be changed; its tensors may not."""
    state = with_optimizer(checkpoint(encoder_layers=1, decoder_layers=2), 1)
    state["cfg"] = {**state["cfg"], "lr_scheduler": {"_name": "inverse_sqrt_reset"}}
    return copied(state)


def copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: copied(inner) for key, inner in value.items()}
    return [copied(inner) for inner in value] if isinstance(value, list) else value


def places(values: Any, depth: int = 0) -> list[tuple[Any, Any]]:
    """Every dictionary or list of a checkpoint, with each key in it."""
    if depth > 4 or not isinstance(values, (dict, list)):
        return []
    keys = list(values) if isinstance(values, dict) else list(range(len(values)))
    return [*((values, key) for key in keys), *(place for key in keys for place in places(values[key], depth + 1))]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("broken")


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_broken_checkpoint_is_used_or_named_in_a_line(folder: Path, data: st.DataObject) -> None:
    state = whole()
    for _ in range(data.draw(st.integers(1, 2))):
        found = places(state)
        # The tensors are many, and the rest matters more.
        rest = [place for place in found if place[0] is not state.get("model")]
        holder, key = data.draw(st.sampled_from(rest if data.draw(st.booleans()) else found))
        if isinstance(holder, dict) and data.draw(st.booleans()):
            del holder[key]
        else:
            holder[key] = data.draw(VALUES)
    path = folder / "in.pt"
    torch.save(state, path)
    with suppress(UserError):
        USES[data.draw(st.sampled_from(sorted(USES)))](path)
    assert [each.name for each in folder.iterdir()] == ["in.pt"]


@pytest.mark.parametrize("name", sorted({*BAD_STATES} - {"stock", "pruned", "base-layers",
                                                        "two-groups-of-parameters"}))  # fmt: skip
def test_the_loader_names_what_is_wrong(name: str, tmp_path: Path) -> None:
    change, line = BAD_STATES[name]
    # The loader loads fairseq's own models too.
    line = line.replace(f"{NAME} or one of its architectures", "a model that is known here")
    path = tmp_path / "in.pt"
    torch.save(change(checkpoint(encoder_groups="3", decoder_groups="none")), path)
    with pytest.raises(UserError, match="^" + re.escape(line.format(path=path))):
        checkpoint_utils.load_checkpoint_to_cpu(str(path))


def test_a_table_that_is_a_number_is_not_resumed(tmp_path: Path) -> None:
    state, table = checkpoint(encoder_layers=1, decoder_layers=2), "encoder.embed_tokens.weight"
    torch.save({**state, "model": {**state["model"], table: torch.zeros(())}}, tmp_path / "in.pt")
    with pytest.raises(UserError, match=rf"in\.pt: model\.{re.escape(table)} must have the shape .*, but"):
        USES["resume"](tmp_path / "in.pt")


def test_another_model_with_more_layers_than_tensors_is_not_built(tmp_path: Path) -> None:
    state = with_model_options(checkpoint(), _name="transformer_lm", decoder_layers=10**9)
    torch.save(state, tmp_path / "in.pt")
    tensors = len(state["model"])
    message = rf"in\.pt: cfg\.model\.decoder_layers must be at most {tensors}, the number .*, but is 1000000000$"
    with pytest.raises(UserError, match=message):
        checkpoint_utils.load_checkpoint_to_cpu(str(tmp_path / "in.pt"))


def in_training(state: dict[str, Any], folder: Path, reset_optimizer: bool = False, **task: Any) -> None:
    """Check a checkpoint for a training whose task has these options."""
    torch.save(state, folder / "in.pt")
    now = SimpleNamespace(**{**vars(trainer()), "task": SimpleNamespace(cfg=SimpleNamespace(**task))})
    check_resumable(CheckpointState.of(folder / "in.pt", numbers=False), now, reset_optimizer)


def test_a_training_of_other_languages_is_not_resumed(tmp_path: Path) -> None:
    state, named = whole(), {"source_lang": "de", "target_lang": "en"}
    state["cfg"]["task"] = {"_name": "translation", "source_lang": "en", "target_lang": "de"}
    with pytest.raises(UserError, match=r"in\.pt: must translate de to en, as .*, but translates en to de; give"):
        in_training(state, tmp_path, **named)
    in_training(state, tmp_path, **named, reset_optimizer=True)
    in_training(state, tmp_path, source_lang="en", target_lang="de")
    # Languages that were not named are those of the folder, if that is still there.
    data = tmp_path / "data"
    data.mkdir()
    (data / "train.de-en.de.idx").touch()
    state["cfg"]["task"] = {"_name": "translation", "source_lang": None, "target_lang": None, "data": f"{data}:x"}
    with pytest.raises(UserError, match=r"in\.pt: must translate en to de, as .*, but translates de to en; give"):
        in_training(state, tmp_path, source_lang="en", target_lang="de")
    in_training(state, tmp_path, **named)
    state["cfg"]["task"]["data"] = str(tmp_path / "gone")
    in_training(state, tmp_path, source_lang="en", target_lang="de")


@pytest.mark.parametrize("flat", [False, True])
def test_moments_of_another_shape_are_not_resumed(flat: bool, tmp_path: Path) -> None:
    """Adam's kernel reads as many numbers of them as the parameter has, whatever they are."""
    shapes = [parameter.shape for parameter in trainer().get_model().parameters()]
    if flat:
        shapes = [torch.Size([sum(shape.numel() for shape in shapes)])]
    state = whole()
    kept: dict[int, dict[str, Any]] = {
        number: {"step": 3, **{name: torch.zeros(shape) for name in ("exp_avg", "exp_avg_sq")}}
        for number, shape in enumerate(shapes)
    }
    state["last_optimizer_state"] = {"state": kept, "param_groups": [{"params": list(range(len(shapes)))}]}
    in_training(state, tmp_path)
    last = len(shapes) - 1
    # Of a parameter that is new, there is nothing; of others, all.
    whole_moments, kept[last] = kept[last], {}
    in_training(state, tmp_path)
    for name in ("step", "exp_avg", "exp_avg_sq"):
        kept[last] = {key: value for key, value in whole_moments.items() if key != name}
        must = rf"in\.pt: last_optimizer_state\.state\[{last}\]\.{name} must be there, but is not; give --reset-opt"
        with pytest.raises(UserError, match=must):
            in_training(state, tmp_path)
    # Some kernels of Adam for GPUs count in the group.
    state["last_optimizer_state"]["param_groups"][0]["step"] = 3
    kept[last] = {key: value for key, value in whole_moments.items() if key != "step"}
    in_training(state, tmp_path)
    del state["last_optimizer_state"]["param_groups"][0]["step"]
    kept[last] = whole_moments
    kept[last]["exp_avg_sq"] = torch.zeros(2)
    must = rf"in\.pt: last_optimizer_state\.state\[{last}\]\.exp_avg_sq must have the shape .*, but is \(2,\); give"
    with pytest.raises(UserError, match=must):
        in_training(state, tmp_path)
    in_training(state, tmp_path, reset_optimizer=True)


def test_a_missing_history_of_the_optimizer_is_named(tmp_path: Path) -> None:
    state = checkpoint()
    del state["optimizer_history"]
    torch.save(state, tmp_path / "in.pt")
    with pytest.raises(UserError, match=r"in\.pt: optimizer_history must be a list of results, .*, but is missing$"):
        checkpoint_utils.load_checkpoint_to_cpu(str(tmp_path / "in.pt"))


@pytest.mark.parametrize("use", ["grow", "shrink"])
def test_two_sided_models_keep_their_depth(use: str, tmp_path: Path) -> None:
    torch.save(checkpoint(two_sided=True), tmp_path / "in.pt")
    with pytest.raises(UserError, match=r"in\.pt: cfg\.model\.two_sided must be false, but is true$"):
        USES[use](tmp_path / "in.pt")
    assert checkpoint_utils.load_checkpoint_to_cpu(str(tmp_path / "in.pt"))["model"]


def test_half_precision_is_fine(tmp_path: Path) -> None:
    state = checkpoint()
    state["model"] = {name: tensor.half() for name, tensor in state["model"].items()}
    torch.save(state, tmp_path / "in.pt")
    loaded = checkpoint_utils.load_checkpoint_to_cpu(str(tmp_path / "in.pt"))
    assert loaded["model"]["encoder.layers.0.fc1.weight"].dtype == torch.float16


@pytest.mark.parametrize("name", ["encoder_embed_dim", "decoder_embed_dim", "encoder_layers"])
def test_a_size_that_is_none(name: str, tmp_path: Path) -> None:
    state = whole()
    state["cfg"]["model"][name] = None
    torch.save(state, tmp_path / "in.pt")
    with pytest.raises(UserError, match=rf"in\.pt: cfg\.model\.{name} must be a whole number below 2\^31, but is "):
        USES["grow"](tmp_path / "in.pt")
