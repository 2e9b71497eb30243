"""deepnmt serve: what is refused before a model is loaded."""

from __future__ import annotations

import contextlib
import re
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from deepnmt.cli import serve
from deepnmt.errors import UserError, user_message
from deepnmt.kernels import malloc
from deepnmt.serving import server


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], r"^the following arguments are required: MODEL \(see --help\)$"),
        (["m", "--port", "65536"], r"^--port must be a whole number from 0 to 65535, but is '65536'$"),
        (["m", "--wait", "-1"], r"^--wait must be a whole number from 0 to 10000, but is '-1'$"),
        (["m", "--wait", "0.5"], r"^--wait must be a whole number from 0 to 10000, but is '0.5'$"),
        (["m", "--buckets", "10,x"], r"^--buckets must be a whole number from 1 to 1000000, but is 'x'$"),
        (["m", "--buckets", "20,10"], r"^--buckets must be ascending, but is '20,10'$"),
        (["m", "--buckets", "10,10"], r"^--buckets must be ascending, but is '10,10'$"),
        (["m", "--max-tokens", "0"], r"^--max-tokens must be a whole number from 1 to 1000000, but is '0'$"),
        (["m", "--queue", "0"], r"^--queue must be a whole number from 1 to 1000000, but is '0'$"),
        (["m", "--max-body", "0"], r"^--max-body must be a whole number from 1 to 65536, but is '0'$"),
        (["m", "--threads", "0"], r"^--threads must be a whole number from 1 to 1024, but is '0'$"),
        (["m", "--timeout", "0"], r"^--timeout must be a number above 0 and at most 86400, but is '0'$"),
        (["m", "--timeout", "nan"], r"^--timeout must be a number above 0 and at most 86400, but is 'nan'$"),
        (
            ["m", "--allow-origin", "*"],
            r"^--allow-origin must be such as https://example.org, in lower case and without "
            r"the default port, but is '\*'$",
        ),
        (["m", "--api-key-file", "{}/empty"], r"^--api-key-file: .*/empty must have a key on each line, but is empty$"),
        (["m", "--api-key-file", "{}/short"], r"^--api-key-file: each key in .*/short must be 8 or more visible "),
        *(
            (["m", "--allow-origin", origin], rf"^--allow-origin must be such as .*, but is '{re.escape(origin)}'$")
            for origin in (
                "https://a.b/",
                "https://A.example",
                "https://a.example:443",
                "http://a.example:80",
                "http://a:0",
                "http://a:65536",
                "http://a:x",
                "http://[::1",
                "http://[:::]",
                "http://u@a",
                "file:///a",
                "null",
                "a.b",
            )
        ),
        (["{}/none", "--port", "0"], r"none: no folder made by deepnmt export was found$"),
    ],
)
def test_refused(words: list[str], message: str, tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n \n")
    (tmp_path / "short").write_text("long-enough\nshort\n")
    with pytest.raises(UserError, match=message):
        serve.main([word.format(tmp_path) for word in words])


def test_options_reach_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "keys").write_text("first-key\n\n second-key \n")
    given: list[Any] = []
    monkeypatch.setattr("deepnmt.serving.directions.Directions", lambda folders, threads: (folders, threads))
    monkeypatch.setattr(server, "serve", lambda *arguments: given.extend(arguments))
    monkeypatch.setattr(server, "bound", lambda *address: contextlib.nullcontext(address))
    serve.main(["a", "b"])
    assert given[0] == ([Path("a"), Path("b")], None)
    assert given[1] == server.Settings(
        "127.0.0.1", 5000, 0.03, [16, 32, 64, 128], 4096, 1000, 60.0, 65_536, [], [], split=True
    )
    assert given[2] == ("127.0.0.1", 5000)
    given.clear()
    words = ["a", "--host", "0.0.0.0", "--port", "0", "--wait", "250", "--buckets", "7", "--max-tokens", "9", "--queue"]
    words += ["5", "--timeout", "0.5", "--max-body", "1", "--api-key-file", str(tmp_path / "keys"), "--no-split"]
    words += ["--threads", "2", "--allow-origin", "https://a.example", "--allow-origin", "http://b.example:81"]
    words += ["--allow-origin", "http://[::1]:81"]
    serve.main(words)
    assert given[0] == ([Path("a")], 2)
    assert given[1] == server.Settings(
        "0.0.0.0", 0, 0.25, [7], 9, 5, 0.5, 1024, ["first-key", "second-key"],
        ["https://a.example", "http://b.example:81", "http://[::1]:81"], split=False,
    )  # fmt: skip


def test_an_address_that_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    with server.bound("127.0.0.1", 0) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        # Before a model is loaded, and even before a missing one is noticed.
        with pytest.raises(UserError, match=rf"^cannot listen on --host 127.0.0.1 --port {port}: Address already in "):
            serve.main(["none", "--port", str(port)])
    for name in ("a..b", "x" * 64):
        with pytest.raises(UserError, match=rf"^cannot listen on --host {name} --port 0: .*label"):
            server.bound(name, 0)
    with pytest.raises(UserError, match=r"^cannot listen on --host 192.0.2.1 --port 0: Cannot assign requested addr"):
        server.bound("192.0.2.1", 0)

    def unknown(*arguments: object, **options: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(UserError, match=r"^cannot listen on --host no.invalid --port 0: Name or service not known$"):
        server.bound("no.invalid", 0)


@pytest.mark.parametrize("library", ["starlette", "uvicorn", "httptools", "py3langid"])
def test_a_library_is_missing(library: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in sys.modules if name.startswith(("deepnmt.serving", "uvicorn", library))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ModuleNotFoundError, match=library) as caught:
        serve.main([str(tmp_path)])
    assert user_message(caught.value) == f"{library} is not installed: pip install 'deepnmt[serve]'"


def test_threads_of_a_server_share_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.setattr(malloc, "share_one_arena", lambda: calls.append("before any model is loaded"))
    with pytest.raises(UserError, match="no folder made by deepnmt export was found"):
        serve.main(["none", "--port", "0"])
    assert calls == ["before any model is loaded"]
