"""`deepnmt serve`: translate over HTTP."""

import argparse
import logging
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Optional
from urllib.parse import urlsplit

from deepnmt.console import Parser, as_number, place, program, whole
from deepnmt.errors import UserError
from deepnmt.text.lines import whole_text

DESCRIPTION = "Translate over HTTP, with a web page at / and LibreTranslate's interface for programs."
EPILOG = """SIGTERM ends the server when all requests are answered. SIGHUP reloads all replaced model folders.

examples:
  deepnmt serve model
  deepnmt serve de-en en-de --host 0.0.0.0 --api-key-file keys
  curl --data-urlencode q='Ein Satz.' -d target=en http://127.0.0.1:5000/translate"""
# Options with whole numbers, and their ranges.
COUNTS = (
    ("port", 0, 65_535),
    ("wait", 0, 10_000),
    ("max-tokens", 1, 1_000_000),
    ("queue", 1, 1_000_000),
    ("max-body", 1, 65_536),
    ("threads", 1, 1024),
)


def main(words: Optional[Sequence[str]] = None) -> None:
    """Serve the models that the command line names."""
    arguments = parse(words)
    keys = _keys(arguments.api_key_file) if arguments.api_key_file else []
    from deepnmt.kernels.malloc import share_one_arena
    from deepnmt.serving.directions import Directions
    from deepnmt.serving.server import Settings, bound, early_reloads, serve

    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(message)s", level=logging.WARNING)
    logging.getLogger("deepnmt.serving").setLevel(logging.INFO)
    # Its messages tell of texts.
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    settings = Settings(
        arguments.host,
        arguments.port,
        arguments.wait / 1000,
        arguments.buckets,
        arguments.max_tokens,
        arguments.queue,
        arguments.timeout,
        arguments.max_body * 1024,
        keys,
        arguments.allow_origin,
        not arguments.no_split,
    )
    share_one_arena()
    # The models take longer than the address to be refused.
    with early_reloads() as early, bound(settings.host, settings.port) as sock:
        serve(Directions(arguments.models, arguments.threads), settings, sock, early)


def parse(words: Optional[Sequence[str]] = None) -> argparse.Namespace:
    """Return the command line."""
    parser = Parser(program("serve"), DESCRIPTION, EPILOG)
    add = parser.add_argument
    count = {name: whole(f"--{name}", low, high) for name, low, high in COUNTS}
    add("models", nargs="+", type=place, metavar="MODEL", help="folders made by deepnmt export, one per direction")
    add("--host", default="127.0.0.1", metavar="HOST", help="address to listen on (default: 127.0.0.1, this machine "
        "alone); 0.0.0.0: all IPv4 addresses")  # fmt: skip
    add("--port", type=count["port"], default=5000, metavar="PORT", help="port (default: 5000); 0: any free port")
    add("--wait", type=count["wait"], default=30, metavar="MS", help="longest wait of a sentence for others to "
        "join its batch, in milliseconds (default: 30)")  # fmt: skip
    add("--buckets", type=_lengths, default="16,32,64,128", metavar="N,N,...", help="upper limits in subwords of the "
        "ranges of length that share a batch (default: 16,32,64,128)")  # fmt: skip
    add("--max-tokens", type=count["max-tokens"], default=4096, metavar="N", help="maximum subwords of a batch, "
        "including padding (default: 4096)")  # fmt: skip
    add("--queue", type=count["queue"], default=1000, metavar="N", help="maximum sentences of all requests at a "
        "time; further requests get status 503 (default: 1000)")  # fmt: skip
    add("--timeout", type=_seconds, default=60.0, metavar="S", help="maximum seconds until the answer to a "
        "request (default: 60)")  # fmt: skip
    add("--max-body", type=count["max-body"], default=64, metavar="KIB", help="maximum size of a request's body "
        "in KiB (default: 64)")  # fmt: skip
    add("--api-key-file", type=place, metavar="FILE", help="file of API keys, one per line; requests need one "
        "of them")  # fmt: skip
    add("--allow-origin", type=_origin, action="append", default=[], metavar="ORIGIN", help="origin of web pages "
        "that may use the server, such as https://example.org; repeatable")  # fmt: skip
    add("--no-split", action="store_true", help="translate whole lines, not single sentences")
    add("--threads", type=count["threads"], metavar="N", help="threads per engine (default: the engine's)")
    return parser.parse_args(words)


def _lengths(text: str) -> list[int]:
    read = whole("--buckets", 1, 1_000_000)
    lengths = [read(part) for part in text.split(",")]
    if lengths != sorted(set(lengths)):
        raise UserError(f"--buckets must be ascending, but is '{text}'")
    return lengths


def _seconds(text: str) -> float:
    seconds = as_number(text)
    if not 0 < seconds <= 86_400:
        raise UserError(f"--timeout must be a number above 0 and at most 86400, but is '{text}'")
    return seconds


def _origin(text: str) -> str:
    try:
        port = urlsplit(text).port
    except ValueError:
        port = 0
    # Browsers send this form, which is compared as it stands.
    known = re.fullmatch(r"https?://([a-z0-9._-]+|\[[0-9a-f:.]+\])(:[1-9]\d*)?", text)
    if not known or port in (0, 443 if text.startswith("https:") else 80):
        form = "such as https://example.org, in lower case and without the default port"
        raise UserError(f"--allow-origin must be {form}, but is '{text}'")
    return text


def _keys(path: Path) -> list[str]:
    keys = [line.strip() for line in whole_text(path).split("\n") if line.strip()]
    if not keys:
        raise UserError(f"--api-key-file: {path} must have a key on each line, but is empty")
    if any(not re.fullmatch(r"[\x21-\x7e]{8,}", key) for key in keys):
        raise UserError(f"--api-key-file: each key in {path} must be 8 or more visible ASCII characters")
    return keys
