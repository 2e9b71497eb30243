"""Deep Transformers for machine translation, as a plug-in of fairseq (`--user-dir deepnmt`).

Importing the package registers the model and its named architectures, the learning-rate schedules and the criterions.
"""

from deepnmt import distributed_compat, fairseq_compat, patience_compat, tensorboard_compat

fairseq_compat.apply()
distributed_compat.apply()
patience_compat.apply()
tensorboard_compat.apply()

from deepnmt import adam, admin, architectures, criterions, decoding, lr_schedulers, memory, model, nonfinite  # noqa: E402

adam.apply()
admin.apply()
decoding.apply()
memory.apply()
nonfinite.apply()

__version__ = "0.1.0"
__all__ = ["architectures", "criterions", "lr_schedulers", "model"]
