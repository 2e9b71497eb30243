"""A table with notes as Markdown and as a page of HTML that needs nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape

STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;margin:2rem;color-scheme:light dark}"
    "table{border-collapse:collapse}"
    "th,td{padding:.3rem .7rem;border-bottom:1px solid #8886;text-align:left;vertical-align:top;"
    "font-variant-numeric:tabular-nums}"
    "thead th{position:sticky;top:0;background:Canvas}"
    # The heads of the columns stay in sight of whichever scrolls, so it has to be the table that does.
    "div{overflow:auto;max-height:90vh}"
)


@dataclass
class Table:
    """Columns, rows of cells, and lines of text to stand below."""

    columns: list[str]
    rows: list[list[str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def to_markdown(title: str, table: Table) -> str:
    """The table in Markdown."""
    lines = [table.columns, ["---"] * len(table.columns), *table.rows]
    text = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
    notes = "".join(f"- {note}\n" for note in table.notes)
    return f"# {title}\n\n{text}\n\n{notes}"


def to_html(title: str, table: Table) -> str:
    """The table as a page."""
    head = _cells("th", table.columns)
    body = "\n".join(_cells("td", row) for row in table.rows)
    notes = "\n".join(f"<li>{escape(note)}</li>" for note in table.notes)
    return (
        f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width">\n<title>{escape(title)}</title>\n'
        f"<style>{STYLE}</style>\n<h1>{escape(title)}</h1>\n"
        f"<div><table>\n<thead>{head}</thead>\n<tbody>\n{body}\n</tbody>\n</table></div>\n<ul>\n{notes}\n</ul>\n</html>\n"
    )


def _cells(tag: str, texts: list[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{escape(text)}</{tag}>" for text in texts) + "</tr>"
