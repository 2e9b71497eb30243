"""The documentation site: the Markdown files of this repository as they are, with the README as the first page.

`make docs` builds it into build/docs. Two pages are filled from the code: the help of each subcommand, and the table of
options.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))
SHELVES = {
    "Start": ["docs/start/install", "docs/start/first-translation", "docs/start/training-folder"],
    "How to": [
        "docs/how-to/clean-a-corpus",
        "docs/how-to/train-deep",
        "docs/how-to/many-gpus",
        "docs/how-to/export",
        "docs/how-to/small-models",
        "docs/how-to/serve",
        "docs/how-to/few-pairs",
        "docs/how-to/back-translate",
        "docs/how-to/pre-train",
        "docs/how-to/rerank",
        "docs/how-to/resume",
        "docs/how-to/debug-a-divergence",
    ],
    "Reference": [
        "docs/reference/commands",
        "docs/reference/options",
        "docs/reference/python",
        "docs/reference/files",
        "docs/reference/errors",
        "docs/data",
        "docs/search",
        "docs/synthetic",
        "docs/dual",
        "docs/translating",
        "docs/glossary",
        "docs/distributed",
        "docs/importing",
        "docs/plugin",
        "docs/fairseq",
        "docs/languages",
        "docs/security",
        "docs/terms",
    ],
    "Theory and studies": [
        "docs/methods",
        "docs/progressive",
        "docs/depth",
        "docs/depth-map",
        "docs/few-pairs",
        "docs/results",
        "docs/performance",
        "docs/architecture",
        "docs/theory/reading-the-code",
        "docs/extending",
        "docs/surprises",
    ],
}
PAGES = sorted(
    str(path.relative_to(ROOT).with_suffix(""))
    for pattern in ("docs/**/*.md", "examples/**/*.md", "benchmarks/**/*.md", "[A-Z]*.md")
    for path in ROOT.glob(pattern)
)

project = "deepnmt"
author = "the deepnmt authors"
copyright = "2026, the deepnmt authors"
release = re.findall(r'__version__ = "(.+)"', (ROOT / "deepnmt" / "__init__.py").read_text(encoding="utf-8"))[0]

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "README"
include_patterns = [f"{page}.md" for page in PAGES]
exclude_patterns = [".*", "build", "output", "data", "checkpoints"]
myst_heading_anchors = 3
highlight_language = "text"
html_theme = "furo"
html_title = f"deepnmt {release}"


def contents() -> str:
    """Return the shelves; pages of none stand under `More`."""
    shelved = {page for pages in SHELVES.values() for page in pages}
    more = [page for page in PAGES if page not in shelved and page != root_doc]
    shelves = {**SHELVES, "More": more}
    return "".join(
        f"\n```{{toctree}}\n:hidden:\n:caption: {name}\n\n" + "\n".join(pages) + "\n```\n"
        for name, pages in shelves.items()
    )


def commands() -> str:
    """Return a section for each subcommand, with its help."""
    from deepnmt.cli import SUBCOMMANDS, call

    os.environ["COLUMNS"] = "100"
    sections = []
    for name in SUBCOMMANDS:
        with contextlib.redirect_stdout(io.StringIO()) as text, contextlib.suppress(SystemExit):
            call(name, ["--help"])
        sections.append(f"\n## deepnmt {name}\n\n```text\n{text.getvalue()}```\n")
    return "".join(sections)


def training_help(criterion: str, schedule: str) -> list[str]:
    """Return the help of `fairseq-train` for a choice, in sections."""
    from fairseq import options

    words = ["--arch", "dlcl_transformer", "--task", "deep_translation", "--criterion", criterion]
    with contextlib.redirect_stdout(io.StringIO()) as text, contextlib.suppress(SystemExit):
        options.parse_args_and_arch(options.get_training_parser(), [*words, "--lr-scheduler", schedule, "--help"])
    return re.split(r"\n\n(?=\w[^\n]*:\n)", text.getvalue())


def options() -> str:
    """Return the help of `fairseq-train`, the sections of this package's choices first, and a table of all ranges."""
    import fairseq_cli.train  # noqa: F401  before the package, as in fairseq-train
    from fairseq.registry import REGISTRIES

    from deepnmt import register
    from deepnmt.options.option_table import OPTIONS, option

    register()
    own = {
        part: [name for name, kind in REGISTRIES[part]["registry"].items() if kind.__module__.startswith("deepnmt")]
        for part in ("criterion", "lr_scheduler")
    }
    pairs = [(name, own["lr_scheduler"][0]) for name in own["criterion"]]
    pairs += [(own["criterion"][0], name) for name in own["lr_scheduler"][1:]]
    sections: dict[str, None] = {}
    for pair in pairs:
        sections |= dict.fromkeys(training_help(*pair)[1:])
    sections = dict(sorted(sections.items(), key=lambda section: not section[0].startswith("deepnmt")))
    rows = [
        f"| `{option(name)}` | {row.role} | {row.rule.words} |" for name, row in sorted(OPTIONS.items()) if row.rule
    ]
    return "\n".join(
        [
            "\n## Ranges\n\n| option | role | value |\n| --- | --- | --- |",
            *rows,
            "\n## fairseq-train\n\n```text",
            "\n\n".join(sections),
            "```\n",
        ]
    )


FILLED = {root_doc: contents, "docs/reference/commands": commands, "docs/reference/options": options}


def fill(app: Sphinx, name: str, source: list[str]) -> None:
    """Append what the code says to the pages that ask for it, and the contents to the first page."""
    if name in FILLED:
        source[0] += FILLED[name]()


def add_index(app: Sphinx, error: Exception | None) -> None:
    """Write index.html, which leads a web server's visitors to the first page."""
    if error is None:
        refresh = f'<meta http-equiv="refresh" content="0; url={root_doc}.html">\n'
        (app.outdir / "index.html").write_text(refresh, encoding="utf-8")


def setup(app: Sphinx) -> None:
    """Connect both."""
    app.connect("source-read", fill)
    app.connect("build-finished", add_index)
