"""Text and data folders: from raw lines to subwords and back, and whether a data folder is whole.

Imports neither fairseq nor torch. `TextPipeline` has the steps of `preprocess` for a line, and of `generate` for a
translation. `check_data_folder` finds the faults of a folder before anything is built from it.
"""

from deepnmt.text.data_folder import check_data_folder, languages_of
from deepnmt.text.pipeline import TextPipeline
from deepnmt.text.settings import TextSettings

__all__ = ["TextPipeline", "TextSettings", "check_data_folder", "languages_of"]
