"""The documentation site: the Markdown files of this repository as they are, with the README as the first page.

`make docs` builds it into build/docs. Pages that FIRST does not name come after those that it does.
"""

from __future__ import annotations

import re
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).parent.parent
FIRST = [
    "docs/methods",
    "docs/results",
    "docs/depth",
    "docs/progressive",
    "docs/performance",
    "docs/distributed",
    "docs/importing",
    "docs/data",
    "docs/languages",
    "docs/search",
    "docs/synthetic",
    "docs/translating",
    "docs/surprises",
    "docs/glossary",
    "docs/security",
    "docs/architecture",
    "docs/extending",
    "docs/terms",
]
PAGES = sorted(
    str(path.relative_to(ROOT).with_suffix(""))
    for pattern in ("docs/*.md", "examples/**/*.md", "benchmarks/**/*.md", "[A-Z]*.md")
    for path in ROOT.glob(pattern)
)

project = "deepnmt"
author = "the deepnmt authors"
copyright = "2026, the deepnmt authors"
release = re.findall(r'__version__ = "(.+)"', (ROOT / "deepnmt" / "__init__.py").read_text(encoding="utf-8"))[0]

extensions = ["myst_parser"]
root_doc = "README"
include_patterns = [f"{page}.md" for page in PAGES]
exclude_patterns = [".*", "build", "output", "data", "checkpoints"]
myst_heading_anchors = 3
highlight_language = "text"
html_theme = "furo"
html_title = f"deepnmt {release}"


def add_contents(app: Sphinx, name: str, source: list[str]) -> None:
    """Append the list of contents to the README, which GitHub would show as a block of code."""
    if name == root_doc:
        pages = [page for page in FIRST if page in PAGES] + [page for page in PAGES if page not in [*FIRST, name]]
        source[0] += "\n```{toctree}\n:hidden:\n\n" + "\n".join(pages) + "\n```\n"


def add_index(app: Sphinx, error: Exception | None) -> None:
    """Write index.html, which leads a web server's visitors to the first page."""
    if error is None:
        refresh = f'<meta http-equiv="refresh" content="0; url={root_doc}.html">\n'
        (app.outdir / "index.html").write_text(refresh, encoding="utf-8")


def setup(app: Sphinx) -> None:
    """Connect both."""
    app.connect("source-read", add_contents)
    app.connect("build-finished", add_index)
