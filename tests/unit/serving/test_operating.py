"""What operators and programs read: metrics, the description, languages, marks."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from support.serving import Models, echo, run, serving

from deepnmt.serving.detection import Detector
from deepnmt.serving.language_names import language_name
from deepnmt.serving.layout import details
from deepnmt.serving.metrics import Histogram
from deepnmt.translator.translator import Translated, Translation


def test_histograms() -> None:
    histogram = Histogram((0.5, 1, 2))
    for value in (0.1, 0.5, 1.5, 9.0):
        histogram.observe(value)
    assert list(histogram.lines("x", "Some."))[2:] == [
        'x_bucket{le="0.5"} 2', 'x_bucket{le="1"} 2', 'x_bucket{le="2"} 3', 'x_bucket{le="+Inf"} 4',
        "x_sum 11.100000", "x_count 4",
    ]  # fmt: skip


def test_metrics_are_in_the_text_format(tmp_path: Path) -> None:
    async def work() -> str:
        async with serving(echo(tmp_path)) as served:
            await served.client.translate(["Köln", "", "ab"])
            await served.client.translate("x" * 99)
            answer = await served.client.request("GET", "/metrics")
            assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
            return answer.body.decode()

    values = {}
    for line in run(work()).splitlines():
        if not line.startswith("#"):
            match = re.fullmatch(r'([a-z_]+(?:\{[a-z_]+="[^"]*"(?:,[a-z_]+="[^"]*")*\})?) (\S+)', line)
            assert match
            values[match[1]] = float(match[2])
    assert values['deepnmt_requests_total{path="/translate",status="200"}'] == 1
    assert values['deepnmt_requests_total{path="/translate",status="400"}'] == 1
    # K@@ ö@@ l@@ n, a@@ b: one batch; the long text is searched by nobody.
    assert values["deepnmt_sentences_total"] == 3
    assert values["deepnmt_batch_sentences_count"] == 1
    assert values["deepnmt_batch_sentences_sum"] == 2
    assert values["deepnmt_subwords_total"] == 4 + 2 + 99
    assert values["deepnmt_unknown_subwords_total"] == 1
    assert values["deepnmt_waiting_sentences"] == 0
    assert values["process_resident_memory_bytes"] > 10_000_000
    assert values["process_cpu_seconds_total"] > 0


def test_the_description_names_all_paths_for_programs(tmp_path: Path) -> None:
    async def work() -> None:
        async with serving(echo(tmp_path)) as served:
            description = (await served.client.request("GET", "/openapi.json")).json()
            routes = {route.path: route for route in served.endpoints.routes()}
        own = {"/", "/page.css", "/page.js", "/openapi.json"}
        assert set(description["paths"]) == set(routes) - own
        for path, operations in description["paths"].items():
            assert {name.upper() for name in operations} == (routes[path].methods or set()) - {"HEAD"}
            for operation in operations.values():
                assert operation["summary"]
                assert operation["responses"]["200"]["content"]
        assert description["openapi"] == "3.1.0"
        body = description["paths"]["/translate"]["post"]["requestBody"]["content"]
        assert set(body) == {"application/json", "application/x-www-form-urlencoded"}
        fields = {"q", "source", "target", "format", "alternatives", "details", "api_key"}
        assert set(body["application/json"]["schema"]["properties"]) == fields
        assert json.dumps(description)

    run(work())


def test_one_language_needs_no_detection(tmp_path: Path) -> None:
    assert Detector(["de"]).ranked("This is English.") == [("de", 1.0)]
    # The library does not know the second.
    assert Detector(["de", "xx"]).ranked("This is English.") == [("de", 1.0)]

    async def work() -> None:
        async with serving(echo(tmp_path)) as served:
            answer = await served.client.post("/detect", {"q": "Hallo"})
            assert answer.json() == [{"language": "de", "confidence": 100.0}]

    run(work())


def test_detection_follows_a_reload(tmp_path: Path) -> None:
    async def work() -> None:
        async with serving(echo(tmp_path / "de-en")) as served:
            models = served.endpoints.directions
            models._all |= Models(echo(tmp_path / "fr-en", ("fr", "en")))._all
            served.endpoints.reloaded()
            found = (await served.client.post("/detect", {"q": "L'homme ne dort pas."})).json()
            assert [each["language"] for each in found] == ["fr", "de"]

    run(work())


def test_detection() -> None:
    detector = Detector(["fr", "en", "de-AT", "xx"])
    texts = {"de-AT": "Der Mann schläft nicht.", "en": "The man does not sleep.", "fr": "L'homme ne dort pas."}
    for language, text in texts.items():
        ranked = detector.ranked(text)
        assert ranked[0][0] == language
        assert sorted(name for name, _ in ranked) == ["de-AT", "en", "fr"]
        assert sum(share for _, share in ranked) == pytest.approx(1, abs=1e-6)
        assert [share for _, share in ranked] == sorted((share for _, share in ranked), reverse=True)


def test_names() -> None:
    assert [language_name(name) for name in ("de", "zh", "de-AT", "xx", "zh_Hant")] == [
        "German", "Chinese", "German (de-AT)", "xx", "Chinese (zh_Hant)",
    ]  # fmt: skip


def test_marks() -> None:
    result = Translated(
        [Translation("Mr. Zorp-Blick met an Ü3 in 2024 <unk>", -1.0, [])],
        ["Z@@", "o@@", "rp", "-", "Bl@@", "ick", "sah", "Z@@", "o@@", "rp", "&amp;"],
        ["o@@", "ick", "o@@", "&amp;"],
    )
    found = details("Zorp-Blick sah ein in-Ü3x im 2024", result)
    # Words of one sentence are compared as a whole; numbers and short words are the same in many languages.
    assert found["unknown"] == ["Zorp", "Blick", "&"]
    assert found["translations"] == [{"text": result.translations[0].text, "score": -1.0, "copied": ["Zorp", "Blick"]}]
