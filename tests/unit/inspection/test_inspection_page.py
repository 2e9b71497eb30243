"""The objects, JSON, tables, pictures and pages of an inspection."""

from __future__ import annotations

import io
import json
import math
import re

import numpy as np
import pytest
from PIL import Image
from support.inspected import ODD, Reader, made_up

from deepnmt.errors import UserError
from deepnmt.inspection import (
    Report,
    Sublayer,
    page,
    read_json,
    summary,
    table,
    write_json,
)


def refuse_constant(name: str) -> float:
    raise AssertionError(f"{name} is not standard JSON")


def test_json_is_standard_and_brings_everything_back() -> None:
    report = made_up("NaN", **ODD)
    values = json.loads(report.to_json(), parse_constant=refuse_constant)
    first = values["sublayers"][0]
    assert [first[name] for name in ODD] == ["Infinity", "NaN", None, "-Infinity"]
    back = Report.from_json(report.to_json())
    assert math.isnan(back.sublayers[0].error_norm or 0)
    assert back.to_json() == report.to_json()
    assert (back.label, back.sublayers[1:], back.dlcl) == ("NaN", report.sublayers[1:], report.dlcl)
    assert back.sublayers[0].gradient_norm == math.inf
    assert Report.from_json(made_up().to_json()) == made_up()
    both = write_json([made_up(), made_up("two")], {"seed": "1"})
    assert read_json(both) == [made_up(), made_up("two")]
    assert json.loads(both)["about"] == {"seed": "1"}


def test_json_of_something_else_is_refused() -> None:
    for text in ("[]", '{"label": "a"}', "null", '{"label": "a", "sublayers": [{"x": 1}]}'):
        with pytest.raises(UserError, match="a report must be as deepnmt inspect writes it, but is not"):
            Report.from_json(text)
    with pytest.raises(UserError, match="a report must be JSON, but is not"):
        Report.from_json("{")
    with pytest.raises(UserError, match="must hold a list of reports"):
        read_json("{}")


def test_one_number_a_layer() -> None:
    report = made_up(**{**ODD, "gradient_norm": 4.0})
    assert report.by_layer("encoder", "gradient_norm") == [5.0, math.hypot(6, 6)]
    assert report.by_layer("encoder", "error_norm") == [4.0, 8.0]
    assert report.by_layer("encoder", "branch_share") == [0.25, 0.25]
    assert report.by_layer("decoder", "gradient_norm") == [pytest.approx(math.sqrt(27))]
    assert report.by_layer("decoder", "activation_variance") == [1.0]


def test_table_and_summary() -> None:
    lines = table(made_up(**ODD)).splitlines()
    assert lines[0] == "one: 2 encoder and 1 decoder layers, loss 9.5, batches 4"
    assert re.split(r"\s{2,}", lines[1])[:5] == ["stack", "layer", "name", "gradient norm", "error norm"]
    assert [line.split() for line in lines[2:4]] == [
        ["encoder", "1", "self_attn", "inf", "nan", "1", "-", "0.125", "-inf", "7"],
        ["encoder", "1", "final", "3", "4", "1", "0.25", "0.125", "0.5", "7"],
    ]
    assert lines[-4].startswith("encoder DLCL weights: row l")
    assert [line.split() for line in lines[-3:]] == [["1", "1"], ["2", "-0.5", "0.5"], ["3", "0.2", "0.3", "0.5"]]
    assert len(lines) == 2 + 7 + 1 + 4

    rows = [re.split(r"\s{2,}", line) for line in summary([made_up(), made_up("b", 3)]).splitlines()]
    assert rows[0][:4] == ["setting", "stack", "layers", "loss"]
    assert rows[1] == ["one", "encoder", "2", "9.5", "4.24", "8.49", "0.5", "4", "8", "0.5"]
    assert rows[2][:3] == ["one", "decoder", "1"]
    assert rows[3] == ["b", "encoder", "3", "9.5", "4.24", "12.7", "0.333", "4", "12", "0.333"]
    assert "nan" in summary([made_up(factor=0.0)])


def colours(picture: bytes) -> set[str]:
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    return {f"#{r:02x}{g:02x}{b:02x}" for _, (r, g, b) in image.getcolors(1 << 24)}


def rgb(colour: str) -> tuple[int, ...]:
    return tuple(int(colour[place : place + 2], 16) for place in (1, 3, 5))


def test_pictures_show_every_setting() -> None:
    reports = [made_up(f"setting {i}", 5, i + 1.0, i == 1) for i in range(8)]
    drawn = page.pictures(reports)
    assert list(drawn) == [
        "gradient_norm.png",
        "error_norm.png",
        "activation_variance.png",
        "branch_share.png",
        f"dlcl_weights_setting_1_{b'setting 1'.hex()}.png",
    ]
    for name in list(drawn)[:2]:
        found = [rgb(colour) for colour in colours(drawn[name])]
        for wanted in page.COLOURS:
            # With a palette, colours are only nearly what they were.
            assert min(math.dist(rgb(wanted), other) for other in found) < 12, (name, wanted)
    assert sum(map(len, drawn.values())) < 200_000
    few = page.pictures(reports[:1])
    assert list(few) == list(drawn)[:4]
    assert colours(few["gradient_norm.png"]) != colours(drawn["gradient_norm.png"])


def test_lines_and_heat_map_have_the_numbers() -> None:
    reports = [made_up("a", 5, dlcl=False), made_up("b", 2), made_up("c", 2, 0.0, False)]
    quantity = page.QUANTITIES[0]
    figure = page.against_depth(reports, quantity)
    panels = {(p.get_xlabel(), i): p for i, p in enumerate(figure.axes)}
    assert [name for name, _ in panels] == ["encoder layer"] * 2 + ["decoder layer"] * 2
    shallow, deep = figure.axes[:2]
    assert (shallow.get_title(), deep.get_title()) == (
        "2 encoder and 1 decoder layers",
        "5 encoder and 1 decoder layers",
    )
    assert [line.get_label() for line in shallow.lines] == ["b", "c"]
    assert list(shallow.lines[0].get_xdata()) == [1, 2]
    assert list(shallow.lines[0].get_ydata()) == pytest.approx([math.sqrt(18), math.sqrt(72)])
    assert len(deep.lines[0].get_xdata()) == 5
    assert shallow.get_yscale() == "log"
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", "b", "c"]

    (panel, bar) = page.heat_maps([made_up()]).axes
    shown = panel.images[0].get_array()
    assert np.ma.getmaskarray(shown).tolist() == [[False, True, True], [False, False, True], [False] * 3]
    assert shown.compressed().tolist() == [1.0, -0.5, 0.5, 0.2, 0.3, 0.5]
    assert panel.images[0].get_extent() == [-0.5, 2.5, 3.5, 0.5]
    assert (panel.images[0].norm.vmin, panel.images[0].norm.vmax) == (-1.0, 1.0)
    assert bar.get_ylabel() == "weight W[l, k]"


def test_numbers_that_are_none_or_not_finite_are_left_out() -> None:
    odd = made_up("odd", 2, 1.0, True, **ODD)
    nothing = Report("nothing", 1, math.nan, [Sublayer("decoder", 1, "final", *[None] * 4, 0.0, 0.0, 0.0)], {})
    infinite = Report("nan", 1, 1.0, odd.sublayers, {"encoder": [[math.nan]]})
    for figure in (page.against_depth([odd, nothing], page.QUANTITIES[0]), page.heat_maps([odd, infinite])):
        assert len(colours(page.png(figure, 256))) > 20
    values = page.against_depth([odd], page.QUANTITIES[0]).axes[0].lines[0].get_ydata()
    assert np.isnan(values[0])
    assert np.isfinite(values[1])


def test_page_is_self_contained() -> None:
    reports = [made_up("a<b>&", 2), made_up("plain", 3, dlcl=False, **ODD)]
    drawn = page.pictures(reports)
    text = page.page(reports, {"command": "deepnmt inspect <x>", "date": "today"}, drawn)
    assert text.startswith("<!DOCTYPE html>")
    assert not re.search(r"https?:|//|@import|url\(", re.sub(r"base64,[A-Za-z0-9+/=]*", "", text))
    reader = Reader(text)
    assert reader.open == []
    assert len(reader.addresses) == len(drawn) == 5
    assert all(address.startswith("data:image/png;base64,") for address in reader.addresses)
    assert "script" not in reader.tags
    for wanted in ("a<b>&", "deepnmt inspect <x>", "today", "inf", "Error norm against depth"):
        assert wanted in "\n".join(reader.texts)
    assert reader.tags.count("details") == 2
    assert reader.tags.count("td") == 10 * (7 + 9)


def test_names_of_pictures_differ_where_labels_do() -> None:
    assert page.dlcl_name("dlcl_48") == "dlcl_weights_dlcl_48.png"
    assert page.dlcl_name("a/b") != page.dlcl_name("a b") != page.dlcl_name("a_b")
    assert "/" not in page.dlcl_name("../a/b")
