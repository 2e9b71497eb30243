"""Paragraphs of LibreOffice's help, by page, identifier and occurrence.

A page has the same path in every language, and a paragraph, heading or cell the same identifier. One may stand
several times in a page, with other text: the occurrence tells them apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple, Optional

from deepnmt.text.lines import whole_text

BLOCKS = frozenset(("p", "h1", "h2", "h3", "h4", "h5", "h6"))
IDENTIFIERS = ("par_", "hd_")


class Place(NamedTuple):
    """Where a paragraph stands."""

    page: str
    identifier: str
    occurrence: int


def read_pages(folder: Path) -> Iterator[tuple[Place, str]]:
    """Yield the paragraphs of all pages below the folder `text` of a language."""
    for path in sorted(folder.rglob("*.html")):
        page = path.relative_to(folder).with_suffix("").as_posix()
        seen: Counter[str] = Counter()
        for identifier, text in paragraphs(whole_text(path, "replace")):
            yield Place(page, identifier, seen[identifier]), text
            seen[identifier] += 1


def paragraphs(page: str) -> list[tuple[str, str]]:
    """Return identifier and text of each paragraph of a page, in their order."""
    reader = _Reader()
    reader.feed(page)
    reader.close()
    return [(identifier, text) for identifier, words in reader.found if (text := " ".join("".join(words).split()))]


class _Reader(HTMLParser):
    """Collects the text of paragraphs; of words that differ by system, those of all systems but macOS."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, list[str]]] = []
        self._block = ""  # the element whose text is collected
        self._spans: list[bool] = []  # open spans, and whether each hides its text

    def handle_starttag(self, tag: str, attrs: list[tuple[str, Optional[str]]]) -> None:
        """Begin a paragraph, or a span of one."""
        given = dict(attrs)
        identifier = given.get("id") or ""
        if tag in BLOCKS and identifier.startswith(IDENTIFIERS):
            self.found.append((identifier, []))
            self._block, self._spans = tag, []
        elif tag == "span" and self._block:
            # A choice by system has a hidden span for each; that of the others alone has no class.
            self._spans.append("hidden" in given and bool(given.get("class")))
        elif tag == "br" and self._block:
            self._add(" ")

    def handle_endtag(self, tag: str) -> None:
        """End a paragraph, or a span of one."""
        if tag == self._block:
            self._block = ""
        elif tag == "span" and self._spans:
            self._spans.pop()

    def handle_data(self, data: str) -> None:
        """Collect text."""
        if self._block:
            self._add(data)

    def _add(self, text: str) -> None:
        if not any(self._spans):
            self.found[-1][1].append(text)
