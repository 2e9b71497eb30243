"""All changes to fairseq, a file per subject; `python -m deepnmt.fairseq_patches` prints the list.

Registering them with fairseq instead would change users' commands. An optimizer, task or data class of another name
needs another `--optimizer` or `--task`, even in existing checkpoints. fairseq refuses to register a name twice.
Everything else has no registry: the trainer, files, batches, processes.
"""

import importlib
import pkgutil

ROOMS = ("checks", "fixes", "hooks", "process")


def install() -> None:
    """Make all changes; a second call does nothing.

    Raises:
        UserError: the installed fairseq is not one that they are made for
    """
    for room in ROOMS:
        package = importlib.import_module(f"{__name__}.{room}")
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)  # which declares its changes
    from deepnmt.fairseq_patches.patch import install_declared

    install_declared()
