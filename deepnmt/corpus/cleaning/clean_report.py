"""The report of a cleaning as text and as one self-contained HTML page. It has a table of the filters, and examples of
the pairs that each has removed; on the page, it has histograms of all measures.
"""

from collections.abc import Sequence
from typing import Any

from tabulate import tabulate

from deepnmt.corpus.cleaning.decisions import Decisions, Histogram
from deepnmt.corpus.cleaning.filter_recipe import Filter
from deepnmt.corpus.cleaning.outcome import Outcome
from deepnmt.pages import render

WIDTH = 110


def summary(pairs: int, kept: int, unseen: int) -> str:
    """Return how many pairs are kept, in a line, and how many of them for their words alone."""
    line = f"{kept:,} of {pairs:,} pairs kept ({kept / pairs:.2%})"
    return f"{line}, {unseen:,} of them for words that would be unseen" if unseen else line


def table(outcomes: Sequence[Outcome], kept: int) -> str:
    """Return the table of the filters: how many pairs each has met and removed."""
    rows = [(each.filter.label, f"{each.reached:,}", f"{each.removed:,}", f"{each.share:.2%}") for each in outcomes]
    headers = ("filter", "pairs", "removed", "share")
    align = ("left", "right", "right", "right")
    return str(tabulate([*rows, ("kept", f"{kept:,}", "", "")], headers, disable_numparse=True, colalign=align))


def text_report(outcomes: Sequence[Outcome], pairs: int, kept: int, unseen: int) -> str:
    """Return the whole report."""
    parts = [summary(pairs, kept, unseen), "", table(outcomes, kept)]
    for each in outcomes:
        if each.examples:
            parts += ["", f"{each.filter.label}: examples of the {each.removed:,} pairs removed"]
            for example in each.examples:
                parts += [
                    f"  line {example.line}",
                    f"    {shortened(example.source)}",
                    f"    {shortened(example.target)}",
                ]
    return "\n".join(parts) + "\n"


def shortened(text: str) -> str:
    """Return a text that fits into a line, without control characters."""
    plain = "".join(sign if sign.isprintable() else " " for sign in text)
    return plain if len(plain) <= WIDTH else plain[: WIDTH - 3] + "..."


def html_page(outcomes: Sequence[Outcome], decisions: Decisions, name: str) -> str:
    """Return the page of a cleaning of the corpus `name`."""
    histograms: list[list[dict[str, Any]]] = [[] for _ in outcomes]
    for key, histogram in decisions.histograms.items():
        number, _, column = key.partition(" ")
        histograms[int(number)].append(drawn(outcomes[int(number)].filter, column, histogram))
    return render(
        "cleaning.html",
        title=f"Cleaning of {name}",
        summary=summary(len(decisions.reasons), decisions.kept, decisions.unseen),
        outcomes=outcomes,
        kept=decisions.kept,
        most=max((each.removed for each in outcomes), default=0) or 1,
        histograms=histograms,
        shortened=shortened,
    )


def drawn(each: Filter, column: str, histogram: Histogram) -> dict[str, Any]:
    """Return the figure for `histogram.svg`: bars, in orange where pairs fail the filter."""
    edges, counts = histogram.edges, histogram.counts
    middles = (edges[1:] + edges[:-1]) / 2
    passes = (middles >= each.low) & (middles <= each.high)
    return {
        "label": f"{column}: {each.text}",
        "bars": list(zip(middles.tolist(), counts.tolist(), passes.tolist())),
        "highest": max(int(counts.max()), 1),
        "low": float(edges[0]),
        "width": float(edges[-1] - edges[0]),
    }
