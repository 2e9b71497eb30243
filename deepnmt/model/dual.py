"""`dlcl_dual`: a model from source to target, one from target to source, and one optimizer for both.

    fwd   a `dlcl_transformer` from source to target
    bwd   a `dlcl_transformer` with the same options, from target to source

They share no parameter. Criterions and tasks let each learn from the other (`criterions/dual_supervised.py`,
`dual_task.py`); `deepnmt split` writes each as a checkpoint of its own.
"""

# No postponed annotations here: fairseq builds its command line from the types of the fields.

import dataclasses
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

import torch
from fairseq import checkpoint_utils
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models import BaseFairseqModel
from torch import Tensor

import deepnmt
from deepnmt.errors import UserError
from deepnmt.model.config import DLCLTransformerConfig
from deepnmt.model.initializers import INITIALIZERS
from deepnmt.model.initializers.initializer import BatchInitializer
from deepnmt.model.transformer import DLCLTransformerModel
from deepnmt.options.dual_rules import ARCH, model_faults
from deepnmt.options.option_table import dashed, described

DIRECTIONS = FWD, BWD = ("fwd", "bwd")
STARTS = ("fwd_from", "bwd_from")
# Options of a language, which exchange their places in `bwd`.
EXCHANGED = (("encoder_embed_path", "decoder_embed_path"), ("max_source_positions", "max_target_positions"))


@dataclass
class DualConfig(DLCLTransformerConfig):
    """The options of both models, and their starts."""

    fwd_from: Optional[str] = described(None, "checkpoint that the model from source to target starts from")
    bwd_from: Optional[str] = described(None, "checkpoint that the model from target to source starts from")


def exchanged_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of `bwd` for the options of `fwd`, and the other way round."""
    pairs = [*EXCHANGED, *((second, first) for first, second in EXCHANGED)]
    return {**options, **{name: options[other] for name, other in pairs if other in options}}


def option_faults(config: DualConfig) -> Iterator[str]:
    """Yield the options of the models that two directions exclude."""
    yield from (f"--{name} {rest}" for name, rest in model_faults(vars(config)))
    if isinstance(INITIALIZERS[str(config.initializer)], BatchInitializer):
        yield f"--initializer must need no batches with arch {ARCH}, but is {config.initializer}"


class DualModel(BaseFairseqModel):  # type: ignore[misc]
    """See the top of this file."""

    def __init__(self, config: DualConfig, fwd: DLCLTransformerModel, bwd: DLCLTransformerModel) -> None:
        super().__init__()
        self.cfg, self.fwd, self.bwd = config, fwd, bwd

    @classmethod
    def add_args(cls, parser: ArgumentParser) -> None:
        """Add the options of `DualConfig`."""
        gen_parser_from_dataclass(parser, DualConfig(), delete_default=True)

    @classmethod
    def build_model(cls, cfg: Any, task: Any) -> "DualModel":
        """Build both models, and load the starts that exist; a resumed training may have lost its starts.

        Raises:
            UserError: options are out of range or exclude each other, or a start is no checkpoint of such a model
        """
        deepnmt.register()
        config = DualConfig.from_options(cfg)
        if faults := list(option_faults(config)):
            raise UserError(*faults)
        turned = Namespace(source_dictionary=task.target_dictionary, target_dictionary=task.source_dictionary)
        own = {each.name: getattr(config, each.name) for each in dataclasses.fields(DLCLTransformerConfig)}
        backward = DLCLTransformerConfig(**exchanged_options(own))
        # With the random numbers with which each would begin alone.
        with torch.random.fork_rng(devices=[]):
            fwd = DLCLTransformerModel.build_model(DLCLTransformerConfig(**own), task)
        bwd = DLCLTransformerModel.build_model(backward, turned)
        model = cls(config, fwd, bwd)
        for name, part in zip(STARTS, (fwd, bwd)):
            path = getattr(config, name)
            if path and Path(path).is_file():
                load_start(part, path, f"--{dashed(name)}")
        return model

    def max_positions(self) -> tuple[int, int]:
        """Return the most tokens of a source and of a target."""
        source, target = self.fwd.max_positions()
        return source, target

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Optional[Tensor],
        prev_output_tokens: Tensor,
        others: Sequence[tuple[str, Mapping[str, Tensor]]] = (),
    ) -> list[Tensor]:
        """Return the features, B x T x C each, of `fwd` for these inputs, then of `others`.

        Others are a direction and the inputs of its model. One call has all passes of an update, as distributed
        training requires. The first of the others has the dropout that it would have alone.
        """
        devices = [src_tokens.device] if src_tokens.device.type == "cuda" else []
        with torch.random.fork_rng(devices, enabled=bool(others)):
            found = [self.fwd(src_tokens, src_lengths, prev_output_tokens, features_only=True)[0]]
        found += [getattr(self, direction)(**inputs, features_only=True)[0] for direction, inputs in others]
        return found


def load_start(model: DLCLTransformerModel, path: str, option: str) -> None:
    """Load the tensors of a checkpoint into one of the models. Raises `UserError`, with the option, if they differ."""
    try:
        tensors = checkpoint_utils.load_checkpoint_to_cpu(path)["model"]
    except UserError as error:
        raise UserError(*(f"{option}: {line}" for line in str(error).splitlines())) from None
    model.upgrade_state_dict(tensors)
    own = model.state_dict()
    for name in (*own, *tensors):
        mine, given = (None if name not in of else tuple(of[name].shape) for of in (own, tensors))
        if mine != given:
            raise UserError(f"{option}: {path}: {name} must have the shape {mine}, but has {given}")
    model.load_state_dict(tensors)
