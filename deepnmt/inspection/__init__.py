"""Looks into a model: gradients, activations, residual branches, weights and DLCL weights, on a few real batches.

    report = inspect_recipe(Path("configs/depth/post.yaml"), Path("data"), options={"encoder-layers": "12"})
    report.by_layer("encoder", "gradient_norm")

`inspect_model` measures a model that is built already, `deepnmt.inspection.page` draws (matplotlib), and
`deepnmt inspect` is all of it as a command. Everything runs on the CPU in single precision.
"""

from deepnmt.inspection.measure import inspect_model
from deepnmt.inspection.sources import inspect_checkpoint, inspect_recipe
from deepnmt.inspection.table import Report, Sublayer, read_json, summary, table, write_json

__all__ = [
    "Report",
    "Sublayer",
    "inspect_checkpoint",
    "inspect_model",
    "inspect_recipe",
    "read_json",
    "summary",
    "table",
    "write_json",
]
