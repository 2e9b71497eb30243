"""Let `fairseq-hydra-train common.user_dir=deepnmt` know this package's groups before it composes or shows them.

fairseq imports a plug-in after Hydra has composed the configuration and printed its help. In every other program that
uses Hydra, and without `common.user_dir`, nothing is imported.
"""

import sys
from pathlib import Path

from hydra.core.config_search_path import ConfigSearchPath
from hydra.plugins.search_path_plugin import SearchPathPlugin

OPTION, PACKAGE = "common.user_dir=", "deepnmt"


class Groups(SearchPathPlugin):
    """Called by Hydra before anything else."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Register models, criterions, schedules and the task if they are asked for."""
        given = [word.partition(OPTION)[2] for word in sys.argv[1:] if word.lstrip("+").startswith(OPTION)]
        fairseq = "fairseq_cli.hydra_train" in sys.modules or Path(sys.argv[0]).stem == "hydra_train"
        if fairseq and PACKAGE in [Path(folder).name for folder in given]:
            import deepnmt

            deepnmt.register()
