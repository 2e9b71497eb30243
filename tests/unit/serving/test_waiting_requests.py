"""Requests that wait: a bounded queue, timeouts, and clients that leave."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from support.serving import Echo, echo, run, serving, until

from deepnmt.serving import endpoints
from deepnmt.translator.translator import Translated


def test_the_queue_is_bounded(tmp_path: Path) -> None:
    async def work() -> None:
        translator = echo(tmp_path)
        assert isinstance(translator.engine, Echo)
        translator.engine.open.clear()
        async with serving(translator, queue=5) as served:
            first = asyncio.ensure_future(served.client.translate(["a", "b"]))
            await until(lambda: served.metrics.waiting == 2)
            second = asyncio.ensure_future(served.client.translate(["c", "d", "e"]))
            await until(lambda: served.metrics.waiting == 5)
            third = await served.client.translate("f")
            assert (third.status, third.headers["retry-after"]) == (503, "1")
            assert third.json() == {"error": "too many sentences wait; try again"}
            # The operator still gets answers.
            assert (await served.client.request("GET", "/health")).json() == {"status": "ok"}
            assert b"deepnmt_waiting_sentences 5\n" in (await served.client.request("GET", "/metrics")).body
            translator.engine.open.set()
            assert (await first).json()["translatedText"] == ["a", "b"]
            assert (await second).json()["translatedText"] == ["c", "d", "e"]
            assert (await served.client.translate("f")).json()["translatedText"] == "f"

    run(work())


def test_a_request_times_out_and_leaves_the_queue(tmp_path: Path) -> None:
    async def work() -> None:
        translator = echo(tmp_path)
        assert isinstance(translator.engine, Echo)
        translator.engine.open.clear()
        async with serving(translator, timeout=0.2) as served:
            answers = await asyncio.gather(served.client.translate("a"), served.client.translate("b"))
            for answer in answers:
                assert (answer.status, answer.json()) == (504, {"error": "no translation within 0.2 seconds"})
            assert served.metrics.waiting == 0
            translator.engine.open.set()
            await until(lambda: bool(translator.engine.batches))
            assert (await served.client.translate("c")).json()["translatedText"] == "c"
        # The search of the first had begun; whoever waited behind it is not translated.
        assert ["b"] not in translator.engine.batches

    run(work())


def test_a_client_that_leaves_takes_no_other_one_of_its_batch_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoints, "POLL", 0.01)

    async def work() -> None:
        translator = echo(tmp_path)
        assert isinstance(translator.engine, Echo)
        begun, search = threading.Event(), translator.engine.search

        def searched(sentences: Any, settings: Any) -> Any:
            begun.set()
            return search(sentences, settings)

        monkeypatch.setattr(translator.engine, "search", searched)
        translator.engine.open.clear()
        async with serving(translator, wait=0.05) as served:
            left = asyncio.Event()
            body = b'{"q": "a", "source": "de", "target": "en"}'
            headers = {"content-type": "application/json"}
            first = asyncio.ensure_future(served.client.request("POST", "/translate", body, headers, left))
            second = asyncio.ensure_future(served.client.translate("b"))
            await until(begun.is_set)
            left.set()
            assert (await first).status == 0
            translator.engine.open.set()
            assert (await second).json()["translatedText"] == "b"
        assert translator.engine.batches == [["a", "b"]]

    run(work())


def test_a_client_that_leaves_is_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints, "POLL", 0.01)

    async def work() -> None:
        translator = echo(tmp_path)
        assert isinstance(translator.engine, Echo)
        translator.engine.open.clear()
        async with serving(translator) as served:
            first = asyncio.ensure_future(served.client.translate("a"))
            await until(lambda: served.metrics.waiting == 1)
            await asyncio.sleep(0.05)
            left = asyncio.Event()
            body = b'{"q": ["b", "c"], "source": "de", "target": "en"}'
            headers = {"content-type": "application/json"}
            second = asyncio.ensure_future(served.client.request("POST", "/translate", body, headers, left))
            await until(lambda: served.metrics.waiting == 3)
            left.set()
            assert (await second).status == 0
            assert (served.metrics.waiting, served.metrics.cancelled) == (1, 1)
            translator.engine.open.set()
            assert (await first).json()["translatedText"] == "a"
            assert (await served.client.translate("d")).json()["translatedText"] == "d"
        assert translator.engine.batches == [["a"], ["d"]]

    run(work())


@pytest.mark.parametrize("end", ["the client leaves", "the time is over", "another sentence is too long"])
def test_what_ends_while_its_sentences_are_encoded_is_not_translated(
    end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoints, "POLL", 0.01)
    translator = echo(tmp_path)
    assert isinstance(translator.engine, Echo)
    encoded, texts, encoding, goes_on = translator.encoded, list[str](), threading.Event(), threading.Event()

    def slowly(text: str) -> Translated:
        texts.append(text)
        if text == "b":
            encoding.set()
            assert goes_on.wait(60)
        return encoded(text)

    monkeypatch.setattr(translator, "encoded", slowly)

    async def work() -> None:
        timeout = 0.2 if end == "the time is over" else 30.0
        async with serving(translator, timeout=timeout) as served:
            left = asyncio.Event()
            text = "x" * 41 if end == "another sentence is too long" else "a"
            body = json.dumps({"q": [text, "b", "c"], "source": "de", "target": "en"}).encode()
            headers = {"content-type": "application/json"}
            first = asyncio.ensure_future(served.client.request("POST", "/translate", body, headers, left))
            # The fault of a sentence that is too long may be told before the next one is encoded.
            await until(lambda: encoding.is_set() or first.done())
            if end == "the client leaves":
                left.set()
            assert (await first).status == {"the client leaves": 0, "the time is over": 504}.get(end, 400)
            goes_on.set()
            assert (await served.client.translate("d")).json()["translatedText"] == "d"
        # Nor is the last one encoded.
        assert [each for each in texts if each != "b"] == [text, "d"]
        assert translator.engine.batches == [["d"]]

    run(work())
