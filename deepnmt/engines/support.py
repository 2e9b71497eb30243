"""Which models an engine with graphs of its own can express, option by option.

An option that is not at its default is computed by the engine (`Support.takes`), changes nothing in a trained model
(`deepnmt/options/option_table.py`), or is refused. A new option of a model is refused until an engine takes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from deepnmt.model.config import DLCLTransformerConfig
from deepnmt.options.option_table import OPTIONS, Row, option


@dataclass(frozen=True)
class Support:
    """An engine's support for the options of models.

    Attributes:
        takes: options with every value computed, or refused by rules of the engine's own
        only: the computed value of other options, where it is not the default
    """

    takes: frozenset[str]
    only: Mapping[str, object] = field(default_factory=dict)

    def faults(self, options: Any, others: Mapping[str, Support]) -> Iterator[str]:
        """Yield a line for each option of a model that the engine cannot express; missing ones have their defaults.

        The line names one of `others` that takes the option, otherwise torch.
        """
        for each in fields(options if isinstance(options, DLCLTransformerConfig) else DLCLTransformerConfig):
            value = getattr(options, each.name, each.default)
            # fairseq's older checkpoints have an empty text, a list or 0 in the place of "not given".
            expressed = self.only.get(each.name, each.default)
            if self._ignores(each.name) or value == expressed or not (value or expressed):
                continue
            engine = next((name for name, other in others.items() if each.name in other.takes), "torch")
            yield f"{given(each.name, value)}: use --engine {engine}"

    def _ignores(self, name: str) -> bool:
        row = OPTIONS.get(name, Row(""))
        refused_itself = row.part_of and row.part_of not in self.takes
        return name in self.takes or name == "_name" or not row.inference or bool(refused_itself)


def given(name: str, value: object) -> str:
    """Return an option with its value, as a command line has them."""
    return option(name) if value is True else f"{option(name)} {value}"
