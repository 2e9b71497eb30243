"""Makes checkpoints out of the parameters of the published DLCL and SDT code (Wang 2019; Li 2020).

    lines = import_checkpoint(Path("dlcl.pt"), Path("checkpoint.pt"), Path("data"), Given(heads={"encoder": 8}))

`deepnmt import` is the same as a command; `docs/importing.md` lists the known names.
"""

from deepnmt.checkpoints.importing.importer import import_checkpoint
from deepnmt.checkpoints.importing.inference import Given

__all__ = ["Given", "import_checkpoint"]
