"""fairseq's attention as the base of this package's."""

from typing import Any

from fairseq.modules import MultiheadAttention


class NamedAttention(MultiheadAttention):  # type: ignore[misc]
    """fairseq's module, in subclasses too known to `--retain-dropout-modules` by its own name."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.dropout_module.module_name = MultiheadAttention.__name__
