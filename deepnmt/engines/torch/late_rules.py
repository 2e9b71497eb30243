"""Import torch without its rules for meta tensors, which take two fifths of the import's time.

They are for torch.compile and torch.export, and no translation needs them. Whoever asks for one of their names gets
all of them.
"""

import importlib
import sys
from types import ModuleType
from typing import Any

from deepnmt.console import is_command

RULES = "torch._meta_registrations"


class LateRules(ModuleType):
    """The module before it is needed."""

    def __getattr__(self, name: str) -> Any:
        # What inspect looks for in every module.
        if name.startswith("__"):
            raise AttributeError(name)
        if sys.modules.get(RULES) is self:
            del sys.modules[RULES]
        return getattr(importlib.import_module(RULES), name)


def leave_rules_for_later() -> None:
    """Have the first import of torch leave them out, in a command."""
    if "torch" not in sys.modules and is_command():
        sys.modules[RULES] = LateRules(RULES)
