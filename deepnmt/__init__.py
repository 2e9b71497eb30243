"""Deep Transformers for machine translation, as a plug-in of fairseq (`--user-dir deepnmt`).

Importing the package registers the model and its named architectures, the learning-rate schedules and the criterions.
"""

from deepnmt.fairseq_patches import distributed_compat, fairseq_compat, patience_compat, tensorboard_compat

fairseq_compat.apply()
distributed_compat.apply()
patience_compat.apply()
tensorboard_compat.apply()

from deepnmt import criterions, lr_schedulers, search  # noqa: E402
from deepnmt.kernels import adam, malloc  # noqa: E402
from deepnmt.model import architectures, transformer  # noqa: E402
from deepnmt.model.initializers import from_batches  # noqa: E402
from deepnmt.training import nonfinite  # noqa: E402

adam.apply()
from_batches.apply()
search.apply()
malloc.apply()
nonfinite.apply()

__version__ = "0.1.0"
__all__ = ["architectures", "criterions", "lr_schedulers", "transformer"]
