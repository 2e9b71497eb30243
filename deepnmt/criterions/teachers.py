"""Teachers of a training: trained models, and what they predict for its batches.

Shapes: N target positions, K types that are kept of each prediction, V types.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from fairseq import checkpoint_utils
from torch import Tensor

from deepnmt.criterions.fused import obstacle
from deepnmt.errors import UserError
from deepnmt.kernels.projection import pieces

Predictions = tuple[Tensor, Tensor]


class Teachers:
    """Models whose weights do not change, without dropout, and the mean of their distributions.

    In each epoch the same batches come again, so that their predictions are kept: the types as int32, the probabilities
    as float16. They are rounded before they are used for the first time, and a batch is a batch of the same sentences
    in whatever order batches come, so that a training that is resumed repeats itself exactly.

    Args:
        models: one or more
        types: K; V - 1 are kept at most
        room: bytes that may be kept; what comes later is predicted again each time

    Attributes:
        kept: predictions by the digest of a batch
    """

    def __init__(self, models: Sequence[Any], types: int, room: int) -> None:
        self.models = [model.eval() for model in models]
        self.types = types
        self.room = room
        self.kept: dict[bytes, Predictions] = {}

    @torch.no_grad()
    def predict(self, sample: dict[str, Any], counted: tuple[Tensor, Tensor], prefix: int, like: Tensor) -> Predictions:
        """Return the likeliest types, N x K, and their probabilities, N x K.

        Args:
            sample: a batch
            counted: sentence and place of each of the N target positions
            prefix: places are counted from this one
            like: a tensor of the model that is trained; it says on which device teachers work, and in which type
        """
        key = digest(sample)
        found = self.kept.get(key)
        if found is None:
            types, probabilities = self._predict(sample["net_input"], counted, prefix, like)
            found = types.int().cpu(), probabilities.half().cpu()
            size = sum(each.numel() * each.element_size() for each in found)
            if size <= self.room:
                self.room -= size
                self.kept[key] = found
        return found[0].to(like.device).long(), found[1].to(like.device).float()

    def _predict(
        self, inputs: dict[str, Any], counted: tuple[Tensor, Tensor], prefix: int, like: Tensor
    ) -> Predictions:
        features, weights = [], []
        for model in self.models:
            model.to(device=like.device, dtype=like.dtype)
            features.append(model(**inputs, features_only=True)[0][:, prefix:][counted])
            weights.append(model.decoder.output_projection.weight)
        found = []
        for some in pieces(len(counted[0]), len(weights[0]), like.device):
            each = (torch.softmax(h[some] @ w.t(), dim=1, dtype=torch.float32) for h, w in zip(features, weights))
            mean = torch.stack(list(each)).mean(0)
            found.append(mean.topk(min(self.types, mean.size(1) - 1), dim=1))
        if not found:
            return counted[0].new_zeros(0, 1), like.new_zeros(0, 1)
        return torch.cat([each.indices for each in found]), torch.cat([each.values for each in found])


def digest(sample: dict[str, Any]) -> bytes:
    """Return what tells batches apart: a digest of their tokens, and of how they are padded."""
    result = hashlib.blake2b(digest_size=16)
    for tokens in (sample["net_input"]["src_tokens"], sample["net_input"]["prev_output_tokens"], sample["target"]):
        result.update(str(tuple(tokens.shape)).encode())
        result.update(tokens.cpu().numpy().tobytes())
    return result.digest()


def load_teachers(paths: str, task: Any) -> list[Any]:
    """Return the models of checkpoints.

    Args:
        paths: with colons between them
        task: of the training, which translates

    Raises:
        UserError: a checkpoint is missing or cannot be read, has other dictionaries or another direction, or its model
            is none whose features this package projects
    """
    models = []
    for path in paths.split(":"):
        if not Path(path).is_file():
            raise UserError(f"--teacher: must name checkpoints, but there is no file '{path}'")
        state = checkpoint_utils.load_checkpoint_to_cpu(path)
        _check_languages(path, state["cfg"], task)
        # A task of its own, since it learns from checkpoints.
        own = type(task)(copy.deepcopy(task.cfg), task.source_dictionary, task.target_dictionary)
        try:
            (model,), _ = checkpoint_utils.load_model_ensemble([path], task=own, state=state)
        except UserError as error:
            raise UserError(*(f"--teacher: {path}: {fault}" for fault in str(error).splitlines())) from None
        if getattr(own, "right_to_left", False) != getattr(task, "right_to_left", False):
            raise UserError(f"--teacher: {path} was trained with --right-to-left, which must then be given")
        if reason := obstacle(model):
            raise UserError(f"--teacher: {path} cannot be used: {reason}")
        models.append(model)
    return models


def _check_languages(path: str, cfg: Any, task: Any) -> None:
    source, target = (getattr(cfg.task, name, None) for name in ("source_lang", "target_lang"))
    wanted = f"{task.cfg.source_lang} to {task.cfg.target_lang}"
    if source and target and f"{source} to {target}" != wanted:
        raise UserError(f"--teacher: {path} must translate {wanted}, but translates {source} to {target}")
