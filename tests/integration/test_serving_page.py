"""The page of `deepnmt serve` in a real browser: by keyboard, with what a screen reader gets, without a fault."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.browser import CHROMIUM, Browser
from support.served_sockets import sockets
from support.serving import echo

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
IDLE = "!document.getElementById('result').hasAttribute('aria-busy')"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    found = Browser(tmp_path_factory.mktemp("profile"))
    yield found
    found.close()


@contextmanager
def page(browser: Browser, folder: Path, **options: Any) -> Iterator[None]:
    models = [echo(folder / name, (name[:2], name[3:])) for name in ("de-en", "en-de")]
    with sockets(*models, **options) as port:
        browser.events.clear()
        browser.call("Page.navigate", url=f"http://127.0.0.1:{port}/")
        browser.until("document.readyState == 'complete' && document.getElementById('direction').options.length > 0")
        yield
        faults = ("Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled")
        reported = [event["params"] for event in browser.events if event["method"] in faults]
        # A refusal is an entry of the log, and the only one.
        assert [each for each in reported if each.get("entry", {}).get("source") != "network"] == []
        sent = [event["params"]["request"]["url"] for event in browser.events
                if event["method"] == "Network.requestWillBeSent"]  # fmt: skip
        assert {url.split("/")[2] for url in sent if not url.startswith("data:")} == {f"127.0.0.1:{port}"}


def text(browser: Browser, part: str) -> str:
    found: str = browser.evaluate(f"document.getElementById('{part}').textContent")
    return found


def focus(browser: Browser) -> str:
    found: str = browser.evaluate("document.activeElement.id")
    return found


def test_a_translation_by_keyboard(browser: Browser, tmp_path: Path) -> None:
    with page(browser, tmp_path):
        assert focus(browser) == "source"
        browser.write("Peter sah <b>Köln</b>.\n\n<img src=x onerror=alert(1)> Ende.")
        browser.press("Enter", control=True)
        browser.until(f"document.getElementById('status').textContent.startsWith('Translated') && {IDLE}")
        # Markup is text, in and out.
        assert text(browser, "result") == "Peter sah <b>Köln</b>.\n\n<img src=x onerror=alert(1)> Ende."
        assert browser.evaluate("document.querySelectorAll('#result *:not(mark)').length") == 0
        marks = browser.evaluate("[...document.querySelectorAll('#result mark')].map((mark) => mark.textContent)")
        assert marks == ["Peter", "sah", "Köln", "img", "src", "onerror", "alert", "Ende"]
        assert text(browser, "unknown").startswith("<b>Köln</b>")
        assert "8 copied" in text(browser, "status")
        assert browser.evaluate("document.getElementById('result').lang") == "en"
        # The order of the keyboard is that of the eye.
        order = []
        for _ in range(4):
            browser.press("Tab")
            order.append(focus(browser))
        assert order == ["result", "translate", "more", "copy"]
        browser.evaluate("document.getElementById('more').focus()")
        browser.press("Space")
        browser.until("!document.getElementById('alternatives').hidden")
        assert browser.evaluate("document.getElementById('more').getAttribute('aria-expanded')") == "true"
        lists = browser.evaluate("[...document.querySelectorAll('#lists ol')].map((each) => each.children.length)")
        assert lists == [5, 5]
        width, height = struct.unpack(">II", browser.screenshot()[16:24])
        assert (width > 300, height > 300) == (True, True)
        browser.press("Space")
        browser.until("document.getElementById('alternatives').hidden")


def test_what_a_screen_reader_gets(browser: Browser, tmp_path: Path) -> None:
    with page(browser, tmp_path):
        browser.write("Wort")
        browser.press("Enter", control=True)
        browser.until(f"document.getElementById('result').textContent == 'Wort' && {IDLE}")
        nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
        seen = {(node["role"]["value"], node.get("name", {}).get("value", "")) for node in nodes if not node["ignored"]}
        assert seen >= {
            ("heading", "Translate"), ("combobox", "Direction"), ("textbox", "Text"), ("textbox", "Translation"),
            ("button", "Swap the languages and the texts"), ("button", "Translate"), ("button", "Alternatives"),
            ("button", "Copy"),
        }  # fmt: skip
        named = [
            node for node in nodes if not node["ignored"] and node["role"]["value"] in ("button", "textbox", "combobox")
        ]
        assert all(node["name"]["value"] for node in named)
        live = [node["role"]["value"] for node in nodes for each in node.get("properties", [])
                if each["name"] == "live" and each["value"]["value"] == "polite"]  # fmt: skip
        assert "status" in live


def test_directions(browser: Browser, tmp_path: Path) -> None:
    with page(browser, tmp_path):
        options = browser.evaluate("[...document.getElementById('direction').options].map((each) => each.text)")
        assert options == [
            "German → English", "English → German", "Detect language → English", "Detect language → German",
        ]  # fmt: skip
        browser.write("Das ist ein Satz")
        browser.press("Enter", control=True)
        browser.until(f"document.getElementById('result').textContent == 'Das ist ein Satz' && {IDLE}")
        browser.evaluate("document.getElementById('swap').click()")
        browser.until("document.getElementById('direction').value == 'en|de'")
        browser.until(f"document.getElementById('result').lang == 'de' && {IDLE}")
        browser.evaluate("document.getElementById('direction').value = 'auto|en'")
        browser.evaluate("document.getElementById('direction').dispatchEvent(new Event('change'))")
        # The answer before has no detected language, whose model's beam limits the alternatives.
        assert browser.evaluate("document.getElementById('more').disabled") is True
        browser.evaluate("document.getElementById('translate').click()")
        browser.until("document.getElementById('status').textContent.includes('Detected language: German')")
        browser.evaluate("document.getElementById('more').click()")
        browser.until("!document.getElementById('alternatives').hidden")
        assert browser.evaluate("document.querySelectorAll('#lists li').length") == 5


def test_faults_are_said(browser: Browser, tmp_path: Path) -> None:
    with page(browser, tmp_path, keys=("secret-key",)):
        assert browser.evaluate("document.getElementById('key-part').hidden") is False
        browser.write("Wort")
        browser.press("Enter", control=True)
        browser.until("!document.getElementById('fault').hidden")
        assert text(browser, "fault").startswith("a valid API key is needed")
        assert browser.evaluate("document.getElementById('fault').getAttribute('role')") == "alert"
        browser.evaluate("document.getElementById('key').focus()")
        browser.write("secret-key")
        # Enter in this field sends the form.
        browser.press("Enter")
        browser.until(f"document.getElementById('result').textContent == 'Wort' && {IDLE}")
        assert browser.evaluate("document.getElementById('fault').hidden") is True
