"""What is changed in fairseq."""


def install() -> None:
    """Put all changes in place."""
    from deepnmt import search
    from deepnmt.fairseq_patches import (
        data_compat,
        distributed_compat,
        fairseq_compat,
        patience_compat,
        tensorboard_compat,
    )
    from deepnmt.kernels import adam, malloc
    from deepnmt.model.initializers import from_batches
    from deepnmt.training import nonfinite

    fairseq_compat.apply()
    data_compat.apply()
    distributed_compat.apply()
    patience_compat.apply()
    tensorboard_compat.apply()
    adam.apply()
    from_batches.apply()
    search.apply()
    malloc.apply()
    nonfinite.apply()
