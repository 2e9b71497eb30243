"""From raw text to translations: model folders, the engines that compute them, and `Translator`.

Imports neither fairseq nor torch; the engine of a model folder is imported when the folder is opened.
"""

from deepnmt.translator.translator import Translation, Translator

__all__ = ["Translation", "Translator"]
