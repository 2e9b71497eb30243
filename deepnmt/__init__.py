"""Deep Transformers for machine translation, as a plug-in of fairseq (`--user-dir deepnmt`).

The package registers itself if fairseq was imported first, as `--user-dir` does. Registration changes fairseq, but not
the exception hook, signals, environment, warnings or logging of the process. Otherwise importing it is cheap and
changes nothing. A program that needs the model, the criterions or the schedules then calls

    deepnmt.register()

Importing a single module never registers anything, so fairseq never knows half of the package.
"""

import functools
import logging
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deepnmt.translator import Translation as Translation
    from deepnmt.translator import Translator as Translator

__version__ = "0.2.0"


@functools.cache
def register() -> None:
    """Apply the changes to fairseq, then register everything with it; a second call does nothing."""
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    from deepnmt import criterions, fairseq_patches, lr_schedulers, translation_task
    from deepnmt.console import is_command
    from deepnmt.dual import dual_task
    from deepnmt.model import architectures
    from deepnmt.pretraining import pretraining_tasks

    fairseq_patches.install()
    architectures.register()
    criterions.register()
    lr_schedulers.register()
    translation_task.register()
    dual_task.register()
    pretraining_tasks.register()
    if not is_command():
        # Importing fairseq and its programs sets both.
        root.setLevel(level)
        root.handlers[:] = handlers


def __getattr__(name: str) -> Any:
    """Return `Translator` or `Translation`, which are imported on demand."""
    if name not in ("Translation", "Translator"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from deepnmt import translator

    return getattr(translator, name)


if "fairseq" in sys.modules:
    register()
