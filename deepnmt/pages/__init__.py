"""HTML pages from templates, each one file that loads nothing from elsewhere. Whatever text a page shows is escaped."""

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment


@cache
def _templates() -> "Environment":
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("deepnmt.pages", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def render(template: str, **values: Any) -> str:
    """Return a page.

    Args:
        template: name of a file of this folder
        values: what stands in it
    """
    return _templates().get_template(template).render(values)
