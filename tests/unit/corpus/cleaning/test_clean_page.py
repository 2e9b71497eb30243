"""The histograms of the page: a bar for each bin that has pairs, orange where a filter does not let them pass."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from deepnmt.corpus.cleaning.clean_report import drawn
from deepnmt.corpus.cleaning.decisions import Histogram
from deepnmt.corpus.cleaning.filter_recipe import Filter
from deepnmt.pages import render


def test_bars_have_the_heights_and_colours_of_their_bins() -> None:
    histogram = Histogram(np.arange(6.0), np.array([1, 0, 16, 9, 4]))
    root = ElementTree.fromstring(
        render("histogram.svg", histogram=drawn(Filter("ratio", "2:4", 2, 4), "ratio <&>", histogram))
    )
    bars = [(bar.get("class"), float(str(bar.get("height"))), bar[0].text) for bar in root.iter("rect")]
    assert [(kind, text) for kind, _, text in bars] == [
        ("fails", "0.5: 1"), ("passes", "2.5: 16"), ("passes", "3.5: 9"), ("fails", "4.5: 4"),
    ]  # fmt: skip
    highest = bars[1][1]
    assert [height / highest for _, height, _ in bars] == pytest.approx([0.25, 1, 0.75, 0.5], abs=0.01)
    texts = [text.text for text in root.iter("text")]
    assert texts == [
        "0",
        "1.25",
        "2.5",
        "3.75",
        "5",
        "16",
        "0",
        "ratio <&>: words of the target for each word of the source",
    ]
    assert all(re.fullmatch(r"[\d.]+", str(bar.get(name))) for bar in root.iter("rect") for name in ("x", "y", "width"))
