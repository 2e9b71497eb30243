"""Deep Transformers for machine translation, as a plug-in of fairseq (`--user-dir deepnmt`).

Importing the package registers the model and its named architectures.
"""

from deepnmt import fairseq_compat

fairseq_compat.apply()

from deepnmt import architectures, model  # noqa: E402

__version__ = "0.1.0"
__all__ = ["architectures", "model"]
