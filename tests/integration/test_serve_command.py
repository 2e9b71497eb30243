"""`deepnmt serve` as a process: the answers of deepnmt translate, SIGHUP, and SIGTERM in the middle of requests."""

from __future__ import annotations

import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from support.flow import GERMAN
from support.models import PLAIN
from support.processes import SECONDS, started
from support.served_sockets import connected, received
from support.slow import slow_but
from support.translation_models import write_checkpoint, write_data

from deepnmt.engines.engine import SearchSettings
from deepnmt.export.exporter import Export, export
from deepnmt.text.sentences import split_sentences
from deepnmt.translator import Translator

SENTENCES = sum(len(split_sentences(line, "de")) for line in GERMAN)
SEARCH = SearchSettings(beam=3, max_len_b=12)


@contextmanager
def server(*words: object) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Start a server, and give its port."""
    command = [sys.executable, "-m", "deepnmt", "serve", "--port", "0", *words]
    with started(command, stderr=subprocess.PIPE) as process:
        assert process.stderr
        line = process.stderr.readline()
        match = re.search(r" serves de-en at http://127\.0\.0\.\d:(\d+)$", line.strip())
        assert match, line + process.stderr.read()
        yield process, int(match[1])


def translate(port: int, text: object) -> object:
    body = json.dumps({"q": text, "source": "de", "target": "en"}).encode()
    request = Request(f"http://127.0.0.1:{port}/translate", body, {"content-type": "application/json"})
    with urlopen(request, timeout=SECONDS) as answer:
        return json.load(answer)["translatedText"]


def finish(process: subprocess.Popen[str]) -> str:
    assert process.stderr
    log = process.stderr.read()
    assert process.wait(SECONDS) == 0, log
    assert "Traceback" not in log
    return log


def exported(engine: str, seed: int, place: Path, **options: object) -> Path:
    data = place / "data" if (place / "data").exists() else write_data(place / "data")
    checkpoint = write_checkpoint(place / f"{seed}.pt", data, seed, **options)
    export(Export([checkpoint], data, engine, "float32", check=0, search=SEARCH), place / f"{engine}{seed}")
    return place / f"{engine}{seed}"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose server starts without torch."""
    return exported("onnx", 1, tmp_path_factory.mktemp("serve"))


@pytest.mark.parametrize("engine", slow_but(["onnx"], ["onnx", "torch"]))
def test_signals(engine: str, tmp_path: Path) -> None:
    model, other = (exported(engine, seed, tmp_path) for seed in (1, 2))
    served = tmp_path / "model"
    shutil.copytree(model, served)
    lines = [*GERMAN, " ".join(GERMAN[:3])]
    with server(served) as (process, port):
        assert process.stderr
        assert translate(port, lines) == Translator(model).translate(lines)
        process.send_signal(signal.SIGHUP)
        assert "loaded again: nothing, since no model folder was replaced" in process.stderr.readline()
        shutil.rmtree(served)
        process.send_signal(signal.SIGHUP)
        assert f"models are not loaded again: {served}: no folder made by deepnmt export" in process.stderr.readline()
        assert translate(port, lines[0]) == Translator(model).translate(lines[0])
        shutil.copytree(other, served)
        process.send_signal(signal.SIGHUP)
        assert process.stderr.readline().strip().endswith(f"loaded again: {served}")
        assert translate(port, lines) == Translator(other).translate(lines)
        process.send_signal(signal.SIGTERM)
        log = finish(process)
    assert [line.split(" ", 2)[2] for line in log.splitlines()] == ["stops when all requests are answered", "stopped"]


def test_a_reload_before_the_start(model: Path) -> None:
    code = """
import os, runpy, signal
from deepnmt.serving import directions
def hurried(*arguments, load=directions.Translator):
    os.kill(os.getpid(), signal.SIGHUP)
    return load(*arguments)
directions.Translator = hurried
runpy.run_module("deepnmt", run_name="__main__")
"""
    with started([sys.executable, "-c", code, "serve", model, "--port", "0"], stderr=subprocess.PIPE) as process:
        assert process.stderr
        assert " serves de-en at " in process.stderr.readline()
        assert " loaded again: nothing" in process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        finish(process)


def test_the_end_of_a_long_batch_is_not_waited_for(model: Path) -> None:
    code = """
import atexit, runpy, sys, time
from deepnmt.serving import worker
def search(*_):
    print("searches", file=sys.stderr)
    time.sleep(600)
worker.rated_search, worker.STOP_SECONDS = search, 0.1
atexit.register(print, "modules are taken down", file=sys.stderr)
runpy.run_module("deepnmt", run_name="__main__")
"""
    with started([sys.executable, "-c", code, "serve", model, "--port", "0"], stderr=subprocess.PIPE) as process:
        assert process.stderr
        port = int(process.stderr.readline().rsplit(":", 1)[1])
        with connected(port) as client:
            body = json.dumps({"q": GERMAN[0], "source": "de", "target": "en"})
            client.sendall(
                f"POST /translate HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
                f"content-length: {len(body)}\r\n\r\n{body}".encode()
            )
            assert process.stderr.readline() == "searches\n"
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGTERM)
        log = finish(process)
    assert log.endswith(" stopped in the middle of the last batch, for which no client waits\n")


def test_sigterm_answers_what_has_begun(model: Path) -> None:
    # The sentences would wait for others, if the server did not end.
    with server(model, "--wait", "10000") as (process, port):
        answers: list[object] = []
        threads = [threading.Thread(target=lambda: answers.append(translate(port, GERMAN))) for _ in range(4)]
        for thread in threads:
            thread.start()
        idle, half = connected(port), connected(port)
        half.sendall(b"POST /translate HTTP/1.1\r\nhost: localhost\r\n")
        until_waiting(port, 4 * SENTENCES)
        process.send_signal(signal.SIGTERM)
        for thread in threads:
            thread.join()
        assert answers == [Translator(model).translate(GERMAN)] * 4
        assert [received(idle), received(half)] == [b"", b""]
        finish(process)
    with pytest.raises(ConnectionRefusedError, match="refused"):
        socket.create_connection(("127.0.0.1", port))


def test_each_option_has_its_effect(tmp_path: Path) -> None:
    model = exported("ctranslate2", 1, tmp_path, **PLAIN)
    (tmp_path / "keys").write_text("first-key\nsecond-key\n")
    with socket.socket() as free:
        free.bind(("127.0.0.2", 0))
        given = free.getsockname()[1]
    words = ["--host", "127.0.0.2", "--port", given, "--wait", "10000", "--buckets", "3", "--max-tokens", "14"]
    words += ["--queue", "12", "--timeout", "3", "--max-body", "2000", "--api-key-file", tmp_path / "keys"]
    words += ["--allow-origin", "https://mt.example", "--no-split", "--threads", "40"]
    with server(model, *words) as (process, port):
        assert port == given

        def post(text: object, key: str = "second-key", origin: str | None = None, more: str = "") -> HTTPResponse:
            fields = {"q": text, "source": "de", "target": "en", "api_key": key, "more": more}
            headers = {"content-type": "application/json"} | ({"origin": origin} if origin else {})
            connection = HTTPConnection("127.0.0.2", port, timeout=SECONDS)
            connection.request("POST", "/translate", json.dumps(fields), headers)
            return connection.getresponse()

        def refusal(answer: HTTPResponse) -> tuple[int, str]:
            return answer.status, json.load(answer)["error"]

        # A text of white space has an answer at once.
        assert json.load(post("")) == {"translatedText": ""}
        assert refusal(post("", key="third-key"))[0] == 403
        assert post("", origin="https://mt.example").headers["access-control-allow-origin"] == "https://mt.example"
        assert refusal(post("", origin="https://other.example"))[0] == 403
        assert json.load(post("", more="x" * 1_500_000)) == {"translatedText": ""}
        assert refusal(post("", more="x" * 2_048_000)) == (413, "the body must have at most 2048000 bytes")
        assert refusal(post(["a"] * 13)) == (413, "a request must have at most 12 sentences, but has at least 13")
        # With the end, 2 and 7 subwords: 7 and 2 sentences fill a batch. The others wait until the time is over.
        short, long = "a", "Ja. Ja."
        assert [len(Translator(model).encoded(text).source) + 1 for text in (short, long)] == [2, 7]
        texts = [long, short, short, short, long, short, short, short, long, short, short]
        assert refusal(post(texts)) == (504, "no translation within 3 seconds")
        counts = metrics(f"127.0.0.2:{port}")
        assert "\ndeepnmt_batch_sentences_count 2\n" in counts
        assert "\ndeepnmt_batch_sentences_sum 9.000000\n" in counts
        # Each thread of the engine waits for its share of a batch.
        status = Path(f"/proc/{process.pid}/status").read_text("utf-8")
        assert int(re.search(r"^Threads:\s+(\d+)$", status, re.MULTILINE)[1]) > 40  # type: ignore[index]
        process.send_signal(signal.SIGTERM)
        finish(process)


@pytest.mark.slow
def test_a_second_signal_cuts_requests_off(model: Path) -> None:
    with server(model) as (process, port):
        assert process.stderr
        half = connected(port)
        half.sendall(b"POST /translate HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n{")
        assert translate(port, GERMAN[0])
        process.send_signal(signal.SIGINT)
        assert "stops when all requests are answered" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        assert "stops after the present batch" in finish(process)
        answer = received(half)
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert answer.endswith(b'{"error": "the server ends"}')


def until_waiting(port: int, number: int) -> None:
    """Wait until this number of sentences waits."""
    end = time.monotonic() + SECONDS
    while f"deepnmt_waiting_sentences {number}\n" not in (text := metrics(f"127.0.0.1:{port}")):
        assert time.monotonic() < end, text


def metrics(address: str) -> str:
    with urlopen(f"http://{address}/metrics", timeout=SECONDS) as answer:
        return str(answer.read().decode())
