"""`deepnmt serve` under load on loopback: sentences a second, latency, memory, and the processor time of a sentence.

    python3 benchmarks/serving.py MODEL FILE

FILE has raw sentences, a line each; the clients send them over and over, and compare each answer with the line of
`deepnmt translate`. All of this runs in this order, and makes one table:

1. `deepnmt translate` translates FILE: its processor time a sentence, without its start, is the measure.
2. 1, 8, 64 and 256 clients, each with one request at a time, for --seconds each.
3. half-sent requests, slow and silent clients, and --hostile hostile requests, beside one usual client.
4. 64 clients again.
5. a new server is killed under the load of 64 clients, and started again; they repeat unanswered requests.

Scores that differ by less than 1e-5 count as ties.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import math
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

from common import header, note
from hostile_clients import SLOW, hostile, slow

from deepnmt.text.lines import read_text
from deepnmt.text.sentences import split_sentences

CLIENTS = (1, 8, 64, 256)
TIE = 1e-5
# Seconds that a server takes to start, on a busy machine.
RESTART = 60
# Seconds before memory is measured; the server returns what it no longer needs.
PAUSE = 3
HEAD = """
| clients | sentences/s | median ms | 95 % ms | CPU ms a sentence | of translate's | MB | differ | sent again | lost |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"""


@dataclass
class Load:
    """What clients saw: seconds of each answer, other translations by line, and requests without an answer."""

    latencies: list[float] = field(default_factory=list)
    wrong: dict[int, str] = field(default_factory=dict)
    repeated: int = 0
    lost: int = 0
    seconds: float = 0.0


@dataclass
class Server:
    """A running server."""

    process: subprocess.Popen[str]
    port: int

    async def request(self, path: str, body: bytes = b"") -> tuple[int, bytes]:
        """Return status and body of an answer, on a connection of its own."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            return await exchange(reader, writer, request(path, body))
        finally:
            writer.close()

    async def metrics(self) -> dict[str, float]:
        """Return the server's counters without labels."""
        _, text = await self.request("/metrics")
        return {name: float(value) for name, value in re.findall(r"^(\w+) (\S+)$", text.decode(), re.MULTILINE)}


@dataclass
class Bench:
    """All that the rows share.

    Attributes:
        options: of the command line
        fields: body of the request for each line
        expected: translation of each line
        scores: of these
        measure: processor seconds of `deepnmt translate` for a sentence
    """

    options: Namespace
    fields: list[bytes]
    expected: list[str]
    scores: list[float]
    measure: float

    async def load(self, server: Server, clients: int, seconds: float) -> Load:
        """Return what some clients saw."""
        found, start = Load(), time.monotonic()
        await asyncio.gather(*(self._client(server, start + seconds, found) for _ in range(clients)))
        found.seconds = time.monotonic() - start
        return found

    async def _client(self, server: Server, end: float, found: Load) -> None:
        """Send one request after the other until the time is over; an unanswered request is sent again."""
        connection = None
        for number in itertools.cycle(random.sample(range(len(self.fields)), len(self.fields))):
            start = time.monotonic()
            if start >= end:
                break
            status, body = 503, b""
            while status == 503 and time.monotonic() < end + RESTART:
                try:
                    connection = connection or await asyncio.open_connection("127.0.0.1", server.port)
                    status, body = await exchange(*connection, request("/translate", self.fields[number]))
                except (OSError, asyncio.IncompleteReadError):
                    connection = None
                if status == 503:
                    found.repeated += 1
                    await asyncio.sleep(0.2)
            if status == 503:
                found.lost += 1
                continue
            text = json.loads(body).get("translatedText")
            if status != 200 or text != self.expected[number]:
                found.wrong[number] = str(text)
            found.latencies.append(time.monotonic() - start)
        if connection:
            connection[1].close()

    def row(self, name: str, found: Load, before: dict[str, float], after: dict[str, float]) -> None:
        """Print a row; without counters before, the server has not counted all of the answers."""
        latencies = sorted(found.latencies) or [0.0]
        slowest = latencies[math.ceil(0.95 * len(latencies)) - 1]
        sentences, share = float(len(found.latencies)), "- | -"
        if before:
            sentences = after["deepnmt_sentences_total"] - before["deepnmt_sentences_total"]
            each = (after["process_cpu_seconds_total"] - before["process_cpu_seconds_total"]) / max(1, sentences)
            share = f"{1000 * each:.2f} | {each / self.measure:.2f}"
        print(
            f"| {name} | {sentences / found.seconds:.0f} | {1000 * statistics.median(latencies):.0f} | "
            f"{1000 * slowest:.0f} | {share} | {megabytes(after):.0f} | {len(found.wrong)} | {found.repeated} | "
            f"{found.lost} |",
            flush=True,
        )


def megabytes(counters: dict[str, float]) -> float:
    """Return the memory of a server."""
    return counters["process_resident_memory_bytes"] / 1e6


def request(path: str, body: bytes) -> bytes:
    """Return a usual request."""
    method = "POST" if path == "/translate" else "GET"
    lines = (f"{method} {path} HTTP/1.1", "host: localhost", "content-type: application/json")
    return "\r\n".join((*lines, f"content-length: {len(body)}", "", "")).encode() + body


async def exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, data: bytes) -> tuple[int, bytes]:
    """Send a request, and return status and body of the answer."""
    writer.write(data)
    answer = await reader.readuntil(b"\r\n\r\n")
    size = re.search(rb"content-length: (\d+)", answer)
    return int(answer.split(b" ", 2)[1]), await reader.readexactly(int(size[1]) if size else 0)


@contextlib.asynccontextmanager
async def started(options: Namespace, port: int = 0) -> AsyncIterator[Server]:
    """Start a server, which must end with status 0 unless it was killed."""
    command = [sys.executable, "-m", "deepnmt", "serve", options.model, "--port", str(port), *options.server.split()]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, encoding="utf-8")
    assert process.stderr
    # In a thread, since the clients of a killed server go on.
    match = re.search(r"http://127\.0\.0\.1:(\d+)$", line := (await asyncio.to_thread(process.stderr.readline)).strip())
    if not match:
        raise SystemExit(line + process.stderr.read())
    try:
        yield Server(process, int(match[1]))
    finally:
        process.send_signal(signal.SIGTERM)
        log = process.stderr.read()
        status = process.wait()
        if status not in (0, -signal.SIGKILL) or "Traceback" in log:
            raise SystemExit(f"status {status}: {log}")


def reference(model: str, lines: list[str]) -> tuple[list[str], list[float], float]:
    """Return the translations of deepnmt translate, their scores, and its processor seconds without its start."""
    command = [sys.executable, "-m", "deepnmt", "translate", model, "--scores"]
    times, output = [], b""
    for text in (lines[:1], lines):
        before = os.times()
        given = "".join(f"{line}\n" for line in text).encode()
        output = subprocess.run(command, input=given, stdout=subprocess.PIPE, check=True).stdout
        after = os.times()
        times.append(sum(after[2:4]) - sum(before[2:4]))
    scored = [line.split("\t", 1) for line in output.decode().removesuffix("\n").split("\n")]
    return [text for _, text in scored], [float(score) for score, _ in scored], times[1] - times[0]


async def ties(server: Server, bench: Bench, wrong: dict[int, str]) -> int:
    """Return how many of the lines with another translation have a score within 1e-5 (--scores prints four digits)."""
    number = 0
    for line in wrong:
        _, body = await server.request(
            "/translate", json.dumps({**json.loads(bench.fields[line]), "details": True}).encode()
        )
        sentences = json.loads(body).get("sentences", [])
        number += (
            len(sentences) == 1 and abs(sentences[0]["translations"][0]["score"] - bench.scores[line]) < TIE + 5e-5
        )
    return number


async def measure(bench: Bench, source: str, target: str) -> None:
    """Print the table, and the figures to compare with limits."""
    options, wrong, counters = bench.options, dict[int, str](), list[dict[str, float]]()
    print(HEAD, flush=True)
    async with started(options) as server:

        async def minute(name: str, clients: int) -> None:
            before = await server.metrics()
            found = await bench.load(server, clients, options.seconds)
            await asyncio.sleep(PAUSE)
            counters.append(await server.metrics())
            bench.row(name, found, before, counters[-1])
            wrong.update(found.wrong)

        await bench.load(server, 4, min(5.0, options.seconds))
        for clients in CLIENTS:
            await minute(str(clients), clients)
        note("slow clients and hostile requests")
        before = await server.metrics()
        beside, ended, (statuses, unexpected) = await asyncio.gather(
            bench.load(server, 1, options.seconds),
            slow(server.port, request("/translate", bench.fields[0])),
            hostile(server.port, options.hostile, source, target),
        )
        bench.row("1 beside hostile ones", beside, before, await server.metrics())
        wrong |= beside.wrong
        await minute("64 at the end", 64)
        tied = await ties(server, bench, wrong)
    await killed(bench)
    print(f"\nhostile requests by status: {dict(sorted(statuses.items()))}; wrong: {dict(unexpected) or 'none'}")
    print(f"slow, silent or half-sent requests that the server ended: {ended} of {SLOW}")
    print(f"lines with another translation than deepnmt translate's: {len(wrong)}, of them ties: {tied}")
    last = megabytes(counters[-1])
    for name, earlier in zip((*CLIENTS, ""), counters[:-1]):
        print(f"memory at the end / after {name} clients: {last / megabytes(earlier):.3f}")


async def killed(bench: Bench) -> None:
    """Kill a server under load, start another one, and print the row."""
    seconds = bench.options.seconds
    async with started(bench.options) as first:
        loading = asyncio.ensure_future(bench.load(first, 64, seconds))
        await asyncio.sleep(seconds / 3)
        first.process.kill()
    async with started(bench.options, first.port) as second:
        found = await loading
        bench.row("64, killed and started again", found, {}, await second.metrics())


def main() -> None:
    """Measure."""
    parser = ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("model", help="folder made by deepnmt export")
    add("file", type=Path, help="raw sentences")
    add("--seconds", type=float, default=60.0, help="of each row (default: 60)")
    add("--hostile", type=int, default=10_000, help="hostile requests (default: 10,000)")
    add("--server", default="", metavar="OPTIONS", help="further options of the server, as one word")
    options = parser.parse_args()
    record = json.loads((Path(options.model) / "model.json").read_bytes())
    source, target = record["source_lang"], record["target_lang"]
    lines = [line.strip() for line in read_text(options.file)]
    expected, scores, processor = reference(options.model, lines)
    sentences = sum(len(split_sentences(line, source)) for line in lines if line)
    fields = [json.dumps({"q": line, "source": source, "target": target}).encode() for line in lines]
    bench = Bench(options, fields, expected, scores, processor / sentences)
    print(header(os.cpu_count() or 1))
    print(f"{record['engine']}, {time.ctime()}: deepnmt translate takes {1000 * bench.measure:.2f} ms of the processor "
          f"for each of {sentences} sentences")  # fmt: skip
    asyncio.run(measure(bench, source, target))


if __name__ == "__main__":
    main()
