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

from deepnmt.checkpoints.grow import Growth
from deepnmt.checkpoints.grow.grow_model import grow_state
from deepnmt.checkpoints.rewrite import rewritten
from deepnmt.checkpoints.shrink import Shrinking
from deepnmt.checkpoints.shrink.shrink_model import shrink_state
from deepnmt.checkpoints.state import CheckpointState
from deepnmt.errors import UserError
from deepnmt.fairseq_patches.checkpoint_files import check_resumable

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
    return SimpleNamespace(get_criterion=lambda: None, get_model=lambda: model, task=None)


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


@pytest.mark.parametrize("name", sorted({*BAD_STATES} - {"stock", "unknown", "pruned", "base-layers",
                                                        "two-groups-of-parameters"}))  # fmt: skip
def test_the_loader_names_what_is_wrong(name: str, tmp_path: Path) -> None:
    change, line = BAD_STATES[name]
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
