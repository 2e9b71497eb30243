"""The report of a cleaning as text: a table of the filters, and examples of what each has removed."""

from collections.abc import Sequence

from tabulate import tabulate

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
