"""fairseq's dropout modules with the random numbers of `deepnmt/kernels/dropout.py` (`--fast-dropout`)."""

from fairseq.modules import FairseqDropout
from torch import Tensor, nn

from deepnmt.kernels.dropout import dropout_noise
from deepnmt.kernels.fast_path import may_take


class FastDropout(FairseqDropout):  # type: ignore[misc]
    """fairseq's dropout module; on devices other than the CPU it behaves the same in every respect."""

    def forward(self, x: Tensor, inplace: bool = False) -> Tensor:
        """As fairseq's, for a tensor of any shape."""
        if not self.p > 0 or not (self.training or self.apply_during_inference):
            return x
        if not may_take("fast dropout", None if x.device.type == "cpu" else "it is for the CPU"):
            result: Tensor = super().forward(x, inplace)
            return result
        noise = dropout_noise(x, self.p)
        return x.mul_(noise) if inplace else x * noise


def use_fast_dropout(model: nn.Module) -> None:
    """Make all of a model's dropout modules fast."""
    for module in list(model.modules()):
        for name, child in module.named_children():
            if type(child) is FairseqDropout:
                setattr(module, name, FastDropout(child.p, child.module_name))
