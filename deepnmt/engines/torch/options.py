"""The models that the torch engine computes without fairseq, and their description in a model folder's record.

`inference_model.py` builds a model from it:

    {"left_pad_source": true, "models": [{"encoder_layers": 6, ...}, ...]}
"""

from enum import Enum
from typing import Any

from deepnmt.engines.ctranslate2.options import options_of
from deepnmt.engines.onnx.options import SUPPORT as onnx
from deepnmt.engines.onnx.options import encoder_obstacle
from deepnmt.engines.support import Support
from deepnmt.engines.torch.fairseq_engine import TorchEngine
from deepnmt.engines.torch.inference_model import ACTIVATIONS, LATER
from deepnmt.model.stack import STACKS
from deepnmt.search.supported import model_obstacle

# Both read the same facts; here nothing looks at modules of fairseq's.
SUPPORT = Support(onnx.takes - {"quant_noise_pq", *(f"{stack}_layers_to_keep" for stack in STACKS)})


def describe(engine: TorchEngine) -> dict[str, Any]:
    """Return the description of an engine's models; empty: one of them needs fairseq."""
    options = [_options(model) for model in engine.models]
    if engine.right_to_left or not all(options):
        return {}
    return {"left_pad_source": engine.left_pad, "models": options}


def _options(model: Any) -> dict[str, Any]:
    config = options_of(model)
    if config is None or any(SUPPORT.faults(config, {})) or str(config.activation_fn) not in ACTIVATIONS:
        return {}
    if model_obstacle(model) or encoder_obstacle(model.encoder):
        return {}
    values = {name: getattr(config, name) for name in sorted(SUPPORT.takes)}
    # Choices of fairseq's are enumerations, which JSON lacks.
    plain = {name: str(value) if isinstance(value, Enum) else value for name, value in values.items()}
    return {name: value for name, value in plain.items() if name not in LATER or value != LATER[name]}
