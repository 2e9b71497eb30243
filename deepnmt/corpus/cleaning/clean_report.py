"""The report of a cleaning as text and as one HTML page, which loads nothing from elsewhere: a table of the filters,
examples of what each has removed, and on the page the histograms of all measures.
"""

from collections.abc import Sequence
from html import escape

from tabulate import tabulate

from deepnmt.corpus.cleaning.decisions import Decisions, Histogram
from deepnmt.corpus.cleaning.filter_recipe import Filter
from deepnmt.corpus.cleaning.outcome import Outcome

WIDTH = 110


def summary(pairs: int, kept: int, unseen: int) -> str:
    """Return how many pairs are kept, in a line, and how many of them for their words alone."""
    line = f"{kept:,} of {pairs:,} pairs kept ({kept / pairs:.2%})"
    return f"{line}, {unseen:,} of them for words that would be unseen" if unseen else line


def table(outcomes: Sequence[Outcome], kept: int) -> str:
    """Return the table of the filters: how many pairs each has met and removed."""
    rows = [
        (each.filter.label, f"{each.reached:,}", f"{each.removed:,}", f"{each.removed / max(each.reached, 1):.2%}")
        for each in outcomes
    ]
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


WIDE, HIGH, LEFT, TOP, BOTTOM = 460, 150, 52, 8, 34
HEAD = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>
<style>
:root {{ --ink: #1a1a1a; --paper: #fff; --soft: #666; --line: #ddd; --kept: #0072b2; --gone: #d55e00 }}
@media (prefers-color-scheme: dark) {{
:root {{ --ink: #eee; --paper: #161616; --soft: #aaa; --line: #444; --kept: #56b4e9; --gone: #e69f00 }} }}
body {{ font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 64rem;
       margin: 2rem auto; padding: 0 1rem }}
h2 {{ margin-top: 2.5rem }} .soft {{ color: var(--soft) }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums }}
td, th {{ padding: .2rem .8rem; text-align: right; border-bottom: 1px solid var(--line) }}
td:first-child, th:first-child, .examples td, td.left {{ text-align: left; vertical-align: top }}
.examples {{ font-size: .9rem; margin-top: .6rem }} .examples td {{ overflow-wrap: anywhere }}
svg {{ max-width: 100%; height: auto; margin-right: 1rem }} text {{ font-size: 11px; fill: var(--soft) }}
.passes {{ fill: var(--kept) }} .fails {{ fill: var(--gone) }} .axis {{ stroke: var(--soft) }}
.bar {{ display: inline-block; height: .7rem; background: var(--gone); min-width: 1px }}
</style></head><body>
"""


def html_page(outcomes: Sequence[Outcome], decisions: Decisions, name: str) -> str:
    """Return the page.

    Args:
        outcomes: what each filter did
        decisions: about all pairs
        name: of the corpus
    """
    title = escape(f"Cleaning of {name}")
    line = summary(len(decisions.reasons), decisions.kept, decisions.unseen)
    parts = [HEAD.format(title=title), f"<h1>{title}</h1><p>{line}.</p>", _table(outcomes, decisions.kept)]
    parts.append(
        '<p class="soft">A pair that goes is counted once, by the first filter that it does not pass. The histograms '
        "are of all pairs of the corpus, by the square root of their number; what a filter does not let pass is "
        "orange. The first and the last bar have all pairs beyond them too.</p>"
    )
    for number, each in enumerate(outcomes):
        parts.append(f"<h2>{escape(each.filter.label)}</h2><p>{escape(_sentence(each))}</p>")
        for key, histogram in decisions.histograms.items():
            place, _, column = key.partition(" ")
            if int(place) == number:
                parts.append(svg_histogram(each.filter, column, histogram))
        parts.append(_examples(each))
    return "".join(parts) + "</body></html>\n"


def _sentence(each: Outcome) -> str:
    what = each.filter.text
    return f"{what[0].upper()}{what[1:]}: {each.removed:,} of {each.reached:,} pairs removed."


def _table(outcomes: Sequence[Outcome], kept: int) -> str:
    most = max((each.removed for each in outcomes), default=0) or 1
    rows = "".join(
        f"<tr><td>{escape(each.filter.label)}</td><td>{each.reached:,}</td><td>{each.removed:,}</td>"
        f"<td>{each.removed / max(each.reached, 1):.2%}</td>"
        f'<td class="left"><span class="bar" style="width:{12 * each.removed / most:.2f}rem"></span></td></tr>'
        for each in outcomes
    )
    head = "<tr><th>filter</th><th>pairs</th><th>removed</th><th>share</th><th></th></tr>"
    return f"<table><thead>{head}</thead><tbody>{rows}<tr><td>kept</td><td>{kept:,}</td></tr></tbody></table>"


def _examples(each: Outcome) -> str:
    if not each.examples:
        return ""
    rows = "".join(
        f"<tr><td>{example.line}</td><td>{escape(shortened(example.source))}</td>"
        f"<td>{escape(shortened(example.target))}</td></tr>"
        for example in each.examples
    )
    return f'<table class="examples"><thead><tr><th>line</th><th>source</th><th>target</th></tr></thead>{rows}</table>'


def svg_histogram(each: Filter, column: str, histogram: Histogram) -> str:
    """Return a histogram whose bars are orange where the filter does not let pairs pass."""
    edges, counts = histogram.edges, histogram.counts
    middles = (edges[1:] + edges[:-1]) / 2
    passes = (middles >= each.low) & (middles <= each.high)
    plot_wide, plot_high = WIDE - LEFT - 10, HIGH - TOP - BOTTOM
    step = plot_wide / len(counts)
    highest = max(int(counts.max()), 1)
    bars = "".join(
        f'<rect class="{"passes" if good else "fails"}" x="{LEFT + place * step:.1f}" '
        f'width="{max(step - 0.5, 0.5):.1f}" y="{TOP + plot_high * (1 - share):.1f}" height="{plot_high * share:.1f}">'
        f"<title>{middles[place]:g}: {count:,}</title></rect>"
        for place, (count, good) in enumerate(zip(counts.tolist(), passes))
        if (share := (count / highest) ** 0.5) > 0
    )
    base = TOP + plot_high
    ticks = "".join(
        f'<text x="{LEFT + plot_wide * place / 4:.1f}" y="{base + 14}" text-anchor="middle">'
        f"{round(float(edges[0] + (edges[-1] - edges[0]) * place / 4), 2):g}</text>"
        for place in range(5)
    )
    label = escape(f"{column}: {each.text}")
    return (
        f'<svg role="img" aria-label="histogram of {label}" width="{WIDE}" height="{HIGH}" viewBox="0 0 {WIDE} {HIGH}">'
        f'<line class="axis" x1="{LEFT}" x2="{LEFT + plot_wide}" y1="{base}" y2="{base}"/>{bars}{ticks}'
        f'<text x="{LEFT - 6}" y="{TOP + 8}" text-anchor="end">{highest:,}</text>'
        f'<text x="{LEFT - 6}" y="{base}" text-anchor="end">0</text>'
        f'<text x="{LEFT + plot_wide / 2}" y="{HIGH - 4}" text-anchor="middle">{label}</text></svg>'
    )
