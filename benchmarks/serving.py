"""`deepnmt serve` under load on loopback: sentences a second, latency, memory, and the processor time of a sentence.

    python3 benchmarks/serving.py MODEL FILE --seconds 60

FILE has raw sentences, a line each; the clients send them over and over. In this order:

1. `deepnmt translate` translates FILE: its processor time a sentence, without its start, is the measure.
2. 1, 8, 64 and 256 clients, each with one request at a time, for --seconds each.
3. half-sent requests, clients that read or write slowly, and --hostile hostile bodies, beside one usual client.
4. the server is killed under load and started again; clients repeat what was not answered.
5. 64 clients again; memory against the time before the hostile ones.

Each answer is compared with the line of `deepnmt translate`. Scores that differ by less than 1e-5 count as ties.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import time
from argparse import ArgumentParser
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from common import commit, note

from deepnmt.text.lines import whole_text

CLIENTS = (1, 8, 64, 256)
TIE = 1e-5
# Seconds that a server takes to start, on a busy machine.
RESTART = 30
HOSTILE = (
    b"", b"{", b"[" * 30_000, b'{"q": ' + b"9" * 30_000, b'{"q": "\\ud800"}', b'{"q": "\xff"}', b"\x00" * 5_000,
    b'{"q": "' + b"x" * 60_000 + b'", "target": "en"}', b'{"q": "a", "target": "../../etc/passwd"}', b"x" * 300_000,
    b'{"q": ["a", {}], "target": "en"}', b'{"q": "a", "target": "en", "alternatives": 1e9}',
)  # fmt: skip


@dataclass
class Load:
    """What clients saw."""

    latencies: list[float] = field(default_factory=list)
    wrong: dict[int, str] = field(default_factory=dict)
    repeated: int = 0


@dataclass
class Server:
    """A running server."""

    process: subprocess.Popen[str]
    port: int

    async def request(self, path: str, body: bytes = b"", kind: str = "application/json") -> tuple[int, bytes]:
        """Return status and body of an answer, on a connection of its own."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            return await exchange(reader, writer, head(path, body, kind) + body)
        finally:
            writer.close()

    async def metrics(self) -> dict[str, float]:
        """Return the server's counters without labels."""
        _, text = await self.request("/metrics")
        return {name: float(value) for name, value in re.findall(r"^(\w+) (\S+)$", text.decode(), re.MULTILINE)}


def head(path: str, body: bytes, kind: str = "application/json") -> bytes:
    """Return the head of a request."""
    method = "POST" if path == "/translate" else "GET"
    return (
        f"{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n"
    ).encode()


async def exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, data: bytes) -> tuple[int, bytes]:
    """Send a request, and return status and body of the answer."""
    writer.write(data)
    answer = await reader.readuntil(b"\r\n\r\n")
    size = re.search(rb"content-length: (\d+)", answer)
    return int(answer.split(b" ", 2)[1]), await reader.readexactly(int(size[1]) if size else 0)


@contextlib.contextmanager
def started(model: str, words: list[str], port: int = 0) -> Iterator[Server]:
    """Start a server, which must end with status 0 unless it was killed."""
    command = [sys.executable, "-m", "deepnmt", "serve", model, "--port", str(port), *words]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, encoding="utf-8")
    assert process.stderr
    match = re.search(r"http://127\.0\.0\.1:(\d+)$", line := process.stderr.readline().strip())
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


async def client(server: Server, fields: list[bytes], expected: list[str], end: float, found: Load) -> None:
    """Send one request after the other until the time is over; what was not answered is sent again."""
    order = itertools.cycle(random.sample(range(len(fields)), len(fields)))
    connection = None
    number = next(order)
    while time.monotonic() < end:
        start = time.monotonic()
        try:
            connection = connection or await asyncio.open_connection("127.0.0.1", server.port)
            status, body = await exchange(*connection, head("/translate", fields[number]) + fields[number])
        except (OSError, asyncio.IncompleteReadError):
            connection, status, body = None, 503, b""
        if status == 503:
            found.repeated += 1
            await asyncio.sleep(0.2)
            continue
        text = json.loads(body).get("translatedText")
        if status != 200 or text != expected[number]:
            found.wrong[number] = str(text)
        found.latencies.append(time.monotonic() - start)
        number = next(order)
    if connection:
        connection[1].close()


async def load(server: Server, clients: int, seconds: float, fields: list[bytes], expected: list[str]) -> Load:
    """Return what some clients saw."""
    found, end = Load(), time.monotonic() + seconds
    await asyncio.gather(*(client(server, fields, expected, end, found) for _ in range(clients)))
    return found


async def hostile(server: Server, number: int) -> dict[int, int]:
    """Send hostile bodies, 16 at a time, and return the statuses of their answers."""
    statuses: dict[int, int] = {}
    left = iter(range(number))

    async def send() -> None:
        for each in left:
            body = HOSTILE[each % len(HOSTILE)]
            kind = "application/json" if each % 7 else "text/plain"
            try:
                status, answer = await server.request("/translate", body, kind)
            except (OSError, asyncio.IncompleteReadError):
                status, answer = 0, b""
            assert b"Traceback" not in answer
            statuses[status] = statuses.get(status, 0) + 1

    await asyncio.gather(*(send() for _ in range(16)))
    return statuses


async def slow(server: Server, number: int, whole: bytes) -> int:
    """Open connections that send half a request, or a byte a second; return how many the server ended."""

    async def send(each: int) -> bool:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        data = head("/translate", whole) + whole
        with contextlib.suppress(ConnectionError):
            if each % 2:
                writer.write(data[: len(data) // 2 if each % 4 == 1 else 20])
                await asyncio.wait_for(reader.read(), 30)
            else:
                for byte in data:
                    writer.write(bytes([byte]))
                    await asyncio.sleep(1)
                    if reader.at_eof():
                        break
        ended = reader.at_eof() or writer.is_closing()
        writer.close()
        return ended

    return sum(await asyncio.gather(*(send(each) for each in range(number))))


def reference(model: str, lines: list[str]) -> tuple[list[str], list[float], float]:
    """Return the translations of deepnmt translate, their scores, and its processor seconds without its start."""
    command = [sys.executable, "-m", "deepnmt", "translate", model, "--scores"]
    times, output = [], b""
    for text in (lines[:1], lines):
        before = os.times()
        output = subprocess.run(command, input="".join(text).encode(), stdout=subprocess.PIPE, check=True).stdout
        after = os.times()
        times.append(sum(after[2:4]) - sum(before[2:4]))
    scored = [line.split("\t", 1) for line in output.decode().removesuffix("\n").split("\n")]
    return [text for _, text in scored], [float(score) for score, _ in scored], times[1] - times[0]


def row(
    name: str, found: Load, seconds: float, before: dict[str, float], after: dict[str, float], measure: float
) -> str:
    """Return a row of the table."""
    latencies = sorted(found.latencies) or [0.0]
    sentences = after["deepnmt_sentences_total"] - before["deepnmt_sentences_total"]
    processor = (after["process_cpu_seconds_total"] - before["process_cpu_seconds_total"]) / max(1, sentences)
    slowest = latencies[int(0.95 * (len(latencies) - 1))]
    return (
        f"| {name} | {sentences / seconds:.0f} | {1000 * statistics.median(latencies):.0f} | {1000 * slowest:.0f} | "
        f"{1000 * processor:.2f} | {processor / measure:.2f} | {after['process_resident_memory_bytes'] / 1e6:.0f} | "
        f"{len(found.wrong)} | {found.repeated} |"
    )


async def ties(server: Server, lines: list[str], wrong: dict[int, str], scores: list[float], direction: str) -> int:
    """Return how many of the lines with another translation have a score within 1e-5 (--scores prints four digits)."""
    source, target = direction.split("-")
    number = 0
    for line in wrong:
        fields = {"q": lines[line].strip(), "source": source, "target": target, "details": True}
        _, body = await server.request("/translate", json.dumps(fields).encode())
        sentences = json.loads(body).get("sentences", [])
        number += len(sentences) == 1 and abs(sentences[0]["translations"][0]["score"] - scores[line]) < TIE + 5e-5
    return number


async def measure(arguments: object, lines: list[str], direction: str) -> None:
    """Print the table."""
    model, seconds, words = arguments.model, arguments.seconds, arguments.server.split()  # type: ignore[attr-defined]
    source, target = direction.split("-")
    expected, scores, processor = reference(model, lines)
    each = processor / len(lines)
    print(f"deepnmt translate: {len(lines)} lines, {1000 * each:.2f} ms of the processor a sentence\n")
    print("| clients | sentences/s | median ms | 95 % ms | CPU ms a sentence | of translate's | MB | differ | again |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    fields = [json.dumps({"q": line.strip(), "source": source, "target": target}).encode() for line in lines]
    with started(model, words) as server:
        wrong: dict[int, str] = {}
        memory = {}
        await load(server, 4, min(5.0, seconds), fields, expected)
        for name in (*CLIENTS, "64 at the end"):
            clients = name if isinstance(name, int) else 64
            if name == "64 at the end":
                note("slow clients and hostile bodies")
                before = await server.metrics()
                beside, ended, statuses = await asyncio.gather(
                    load(server, 1, seconds, fields, expected),
                    slow(server, 64, fields[0]),
                    hostile(server, arguments.hostile),  # type: ignore[attr-defined]
                )
                print(row("1 beside hostile ones", beside, seconds, before, await server.metrics(), each))
            before = await server.metrics()
            found = await load(server, clients, seconds, fields, expected)
            after = await server.metrics()
            print(row(str(name), found, seconds, before, after, each), flush=True)
            wrong |= found.wrong
            memory[name] = after["process_resident_memory_bytes"] / 1e6
        tied = await ties(server, lines, wrong, scores, direction)
    print(f"\nhostile bodies by status (0: cut off): {statuses}; of 64 slow or half-sent requests {ended} were ended")
    first, largest, last = memory[64], memory[256], memory["64 at the end"]
    print(f"MB after the first 64 clients {first:.0f}, after 256 {largest:.0f}, at the end {last:.0f}: ", end="")
    print(f"{last / largest:.3f} of the time before hostile clients")
    print(f"lines with another translation than deepnmt translate's: {len(wrong)}, of them ties: {tied}")
    await killed(model, words, seconds, fields, expected)


async def killed(model: str, words: list[str], seconds: float, fields: list[bytes], expected: list[str]) -> None:
    """Kill a server under load and start another one."""
    with started(model, words) as first:
        loading = asyncio.ensure_future(load(first, 64, seconds + RESTART, fields, expected))
        await asyncio.sleep(seconds / 3)
        first.process.kill()
    with started(model, words, first.port):
        found = await loading
    answers = len(found.latencies)
    print(f"killed and started again: {answers} answers, {len(found.wrong)} differ, {found.repeated} sent again")


def main() -> None:
    """Measure."""
    parser = ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("model", help="folder made by deepnmt export")
    add("file", type=Path, help="raw sentences")
    add("--seconds", type=float, default=60.0, help="of each row (default: 60)")
    add("--hostile", type=int, default=10_000, help="hostile bodies (default: 10,000)")
    add("--server", default="", metavar="OPTIONS", help="further options of the server, as one word")
    arguments = parser.parse_args()
    record = json.loads((Path(arguments.model) / "model.json").read_bytes())
    lines = whole_text(arguments.file).splitlines(keepends=True)
    print(
        f"commit {commit()}, {record['engine']}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {time.ctime()}"
    )
    asyncio.run(measure(arguments, lines, f"{record['source_lang']}-{record['target_lang']}"))


if __name__ == "__main__":
    main()
