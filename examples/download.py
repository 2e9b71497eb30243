"""Download a file into memory: the corpora of the examples are small, and a download that was cut starts anew."""

from __future__ import annotations

import http.client
import urllib.request

from deepnmt import console
from deepnmt.errors import UserError

TIMEOUT = 60


def download(address: str) -> bytes:
    """Return the content of a file, with a progress bar on standard error.

    Raises:
        UserError: it did not come, or not all of it
    """
    content = bytearray()
    try:
        with urllib.request.urlopen(address, timeout=TIMEOUT) as answer:
            total = int(answer.headers.get("Content-Length") or 0)
            with console.progress(total, address.rpartition("/")[2], "B") as bar:
                while chunk := answer.read(1 << 16):
                    content += chunk
                    bar.update(len(chunk))
        if len(content) < total:
            raise OSError(f"ended after {len(content)} of {total} bytes")
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise UserError(f"{address} cannot be fetched: {error}") from None
    return bytes(content)
