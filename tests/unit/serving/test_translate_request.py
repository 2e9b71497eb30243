"""POST /translate: answers and their order, batches over requests, and whatever is refused, late or cancelled."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from support.serving import FORM, Echo, echo, run, serving, until

from deepnmt.serving import worker
from deepnmt.serving.directions import Direction
from deepnmt.serving.layout import Layout
from deepnmt.translator.translator import Translated


def test_an_answer_is_that_of_translate(tmp_path: Path) -> None:
    async def work() -> None:
        translator = echo(tmp_path)
        lines = ["Eins. Zwei!  Drei?", "", "nur ein Satz", "Die 2. Auflage. Am 3. Mai kam er."]
        async with serving(translator) as served:
            answers = [await served.client.translate(line) for line in lines]
            listed = await served.client.translate(lines)
        expected = translator.translate(lines)
        assert [answer.json() for answer in answers] == [{"translatedText": line} for line in expected]
        assert listed.json() == {"translatedText": expected}
        assert {answer.headers["content-type"] for answer in answers} == {"application/json"}

    run(work())


@pytest.mark.parametrize(
    "text",
    [
        "  Eins.\n\n\tZwei. Drei.  \r\nVier\n", "\n", "", "Eins.\u3000Zwei.", "\r\n a \r\n", "<b>Eins.</b> &amp;",
        "\u2003\n \n\n\na\u2003\n\u2003\nb\x1c", "a\n", "\na", "a\n\rc\r\n", " " * 4_000 + "a" + "\n " * 400,
    ],
)  # fmt: skip
def test_white_space_and_signs_are_those_of_the_text(text: str, tmp_path: Path) -> None:
    async def work() -> None:
        async with serving(echo(tmp_path)) as served:
            assert (await served.client.translate(text)).json()["translatedText"] == text

    run(work())


def test_lines_of_tokenised_text_remain_whole(tmp_path: Path) -> None:
    translator = echo(tmp_path)
    translator.pipeline.settings = dataclasses.replace(translator.pipeline.settings, pretokenized=True)
    assert Layout.of("Ab . Cd .\nE .", Direction(tmp_path, b"", translator), True).sentences == ["Ab . Cd .", "E ."]


@pytest.mark.parametrize("split", [True, False])
def test_lines_may_be_translated_whole(split: bool, tmp_path: Path) -> None:
    async def work() -> list[list[str]]:
        translator = echo(tmp_path)
        async with serving(translator, split=split) as served:
            assert (await served.client.translate("Ab. Cd.\nE.")).json()["translatedText"] == "Ab. Cd.\nE."
        assert isinstance(translator.engine, Echo)
        return translator.engine.batches

    assert sorted(chain.from_iterable(run(work()))) == (["Ab.", "Cd.", "E."] if split else ["Ab.Cd.", "E."])


def test_texts_of_one_request_keep_their_order(tmp_path: Path) -> None:
    async def work() -> None:
        translator = echo(tmp_path)
        assert isinstance(translator.engine, Echo)
        texts = ["a" * 15, "b", "c" * 15, "", "d", "e" * 30, "f"]
        async with serving(translator, wait=0.05) as served:
            assert (await served.client.translate(texts)).json()["translatedText"] == texts
        # In another order, by buckets of lengths.
        assert sorted(map(len, translator.engine.batches)) == [1, 2, 3]

    run(work())


def test_memory_is_returned_once_in_each_pause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        translator = echo(tmp_path)
        engine = translator.engine
        assert isinstance(engine, Echo)
        batches: list[int] = []  # translated until each return
        monkeypatch.setattr(worker, "return_freed_memory", lambda: batches.append(len(engine.batches)))
        monkeypatch.setattr(worker, "IDLE_SECONDS", 0.05)
        async with serving(translator) as served:
            for number in (1, 2):
                await asyncio.sleep(0.2)
                assert len(batches) == number - 1
                await served.client.translate("Eins.")
                await until(lambda: len(batches) == number)  # noqa: B023
            assert batches == [1, 2]

    run(work())


def test_requests_share_batches_and_each_gets_its_own_answer(tmp_path: Path) -> None:
    async def work() -> None:
        translator = echo(tmp_path)
        assert isinstance(translator.engine, Echo)
        texts = ["abcdefghijkl"[: 1 + number % 12] for number in range(40)]
        async with serving(translator, wait=0.2) as served:
            answers = await asyncio.gather(*map(served.client.translate, texts))
        assert [answer.json()["translatedText"] for answer in answers] == texts
        # Two buckets of lengths, up to 10 subwords with the end and up to 20, in one batch each.
        assert sorted(map(len, translator.engine.batches)) == [9, 31]
        assert {len(text) > 9 for text in translator.engine.batches[0]} != {True, False}
        assert served.metrics.waiting == 0

    run(work())


def test_lengths_are_equal_where_a_translation_depends_on_its_neighbours(tmp_path: Path) -> None:
    async def work() -> None:
        translator = echo(tmp_path, max_len_a=1.0)
        assert isinstance(translator.engine, Echo)
        async with serving(translator, wait=0.1) as served:
            await asyncio.gather(*map(served.client.translate, ("ab", "abc", "cd", "xyz")))
        assert sorted(map(sorted, translator.engine.batches)) == [["ab", "cd"], ["abc", "xyz"]]

    run(work())


def test_requests_of_one_batch_each_have_their_number_of_alternatives(tmp_path: Path) -> None:
    async def work() -> None:
        async with serving(echo(tmp_path, beam=3), wait=0.1) as served:
            numbers = (0, 2, 1)
            found = await asyncio.gather(*(served.client.translate("abc", alternatives=each) for each in numbers))
        assert [answer.json().get("alternatives") for answer in found] == [None, ["bc", "c"], ["bc"]]

    run(work())


def test_several_directions(tmp_path: Path) -> None:
    async def work() -> None:
        models = [echo(tmp_path / name, (name[:2], name[3:])) for name in ("de-en", "en-de", "de-fr", "xx-de")]
        engines: list[Any] = [model.engine for model in models]
        async with serving(*models) as served:
            for source, target, number in (("de", "en", 0), ("en", "de", 1), ("de-AT", "fr", 2), ("en-GB", "de", 1)):
                await served.client.translate("Wort", source=source, target=target)
                assert engines[number].batches.pop() == ["Wort"]
            assert [engine.batches for engine in engines] == [[]] * 4
            languages = (await served.client.request("GET", "/languages")).json()
            assert languages == [
                {"code": "de", "name": "German", "targets": ["en", "fr"]},
                {"code": "en", "name": "English", "targets": ["de"]},
                {"code": "xx", "name": "xx", "targets": ["de"]},
            ]
            answer = (await served.client.translate("Das ist doch nicht wahr", source="auto")).json()
            assert answer["translatedText"] == "Das ist doch nicht wahr"
            assert answer["detectedLanguage"]["language"] == "de"
            assert answer["detectedLanguage"]["confidence"] > 60
            # The text is English, which is not translated into English.
            answer = await served.client.translate("this is not the right language", source="auto")
            names = "de-en, en-de, de-fr, xx-de"
            expected = f"'source' and 'target' must be one of {names}; 'source' may be auto"
            assert (answer.status, answer.json()) == (400, {"error": expected})
            found = (await served.client.post("/detect", {"q": "Das ist doch nicht wahr"})).json()
            assert [each["language"] for each in found] == ["de", "en"]
            assert found[0]["confidence"] + found[1]["confidence"] == pytest.approx(100, abs=0.11)

    run(work())


def test_alternatives_and_details(tmp_path: Path) -> None:
    async def work() -> None:
        async with serving(echo(tmp_path, beam=3)) as served:
            plain = (await served.client.translate("abc. Köln!", alternatives=2)).json()
            assert plain == {"translatedText": "abc. Köln!", "alternatives": ["bc. öln!", "c. ln!"]}
            found = (await served.client.translate("abc. Köln!", alternatives=1, details=True)).json()
            assert found["sentences"] == [
                {
                    "source": "abc. ",
                    "unknown": [],
                    "translations": [
                        {"text": "abc.", "score": -4.0, "copied": ["abc"]},
                        {"text": "bc.", "score": -4.0, "copied": []},
                    ],
                },
                {
                    "source": "Köln!",
                    "unknown": ["Köln"],
                    "translations": [
                        {"text": "Köln!", "score": -5.0, "copied": ["Köln"]},
                        {"text": "öln!", "score": -5.0, "copied": []},
                    ],
                },
            ]
            # "a" has one translation, which stands in each alternative.
            lines = (await served.client.translate("a\nabc", alternatives=2)).json()
            assert lines == {"translatedText": "a\nabc", "alternatives": ["a\nbc", "a\nc"]}
            # A line without any subword has no details.
            blank = (await served.client.translate("\x01\na", details=True)).json()
            assert [each["source"] for each in blank["sentences"]] == ["a"]
            several = (await served.client.translate(["a", ""], alternatives=1, details=True)).json()
            assert several["alternatives"] == [[], []]
            assert [len(each) for each in several["sentences"]] == [1, 0]
            answer = await served.client.translate("a", alternatives=3)
            assert (answer.status, answer.json()) == (400, {"error": "'alternatives' must be from 0 to 2, but is 3"})

    run(work())


def test_forms(tmp_path: Path) -> None:
    async def work() -> None:
        async with serving(echo(tmp_path)) as served:

            async def post(*fields: tuple[str, str]) -> Any:
                given = [("source", "de"), ("target", "en"), *fields]
                answer = await served.client.request(
                    "POST", "/translate", urlencode(given).encode(), {"content-type": f"{FORM}; charset=utf-8"}
                )
                return answer.json()

            assert await post(("q", "Ein Wort & 1+1=2 ä")) == {"translatedText": "Ein Wort & 1+1=2 ä"}
            assert await post(("q", "a"), ("q", "b")) == {"translatedText": ["a", "b"]}
            assert await post(("q", "")) == {"translatedText": ""}
            assert await post(("q", "ab"), ("alternatives", "1")) == {"translatedText": "ab", "alternatives": ["b"]}
            # As the text that libretranslatepy makes of a list.
            assert await post(("q", "['a', 'b']")) == {"translatedText": "['a', 'b']"}

    run(work())


def test_a_text_that_is_too_long(tmp_path: Path) -> None:
    async def work() -> None:
        async with serving(echo(tmp_path)) as served:
            answer = await served.client.translate(f"Kurz. {'X' * 41}. Kurz.")
            expected = "sentence 2 is too long: 42 subwords; the model has 40"
            assert (answer.status, answer.json()) == (400, {"error": expected})
            for text in (["a"] * 101, "a\n" * 101, ["Ab. Cd! Ef? " * 9] * 12):
                assert (await served.client.translate(text)).status == 413
            answer = await served.client.translate(["a"] * 101)
            expected = "a request must have at most 100 sentences, but has at least 101"
            assert (answer.status, answer.json()) == (413, {"error": expected})
            assert (await served.client.translate(["a"] * 100)).json() == {"translatedText": ["a"] * 100}

    run(work())


class PanicException(BaseException):
    """As of a library in Rust."""


@pytest.mark.parametrize("kind", [ValueError, StopIteration, PanicException])
@pytest.mark.parametrize("part", ["search", "encoding"])
def test_a_fault_takes_no_other_sentence_with_it(
    part: str, kind: type[BaseException], tmp_path: Path, caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    translator = echo(tmp_path)
    search, encoded = translator.engine.search, translator.encoded

    def failing_search(sentences: Any, settings: Any) -> Any:
        if part == "search" and any("♥" in sentence for sentence in sentences):
            raise kind("a secret text")
        return search(sentences, settings)

    def failing_encoding(text: str) -> Translated:
        if part == "encoding" and "♥" in text:
            raise kind("a secret text")
        return encoded(text)

    monkeypatch.setattr(translator.engine, "search", failing_search)
    monkeypatch.setattr(translator, "encoded", failing_encoding)

    async def work() -> None:
        async with serving(translator, wait=0.1) as served:
            answers = await asyncio.gather(*map(served.client.translate, ("one", "♥", "two")))
        assert [answer.status for answer in answers] == [200, 500, 200]
        assert [answer.json() for answer in answers] == [
            {"translatedText": "one"}, {"error": "internal error"}, {"translatedText": "two"},
        ]  # fmt: skip

    with caplog.at_level(logging.DEBUG):
        run(work())
    (line,) = [record.getMessage() for record in caplog.records if record.name.startswith("deepnmt")]
    name = "ValueError" if kind is ValueError else "RuntimeError"
    assert line.startswith(f"internal error: {name} at test_translate_request.py:")
    assert "secret" not in caplog.text
    assert "Traceback" not in caplog.text
