"""Whether freed memory is kept: by the number of pages that the kernel has to give."""

from __future__ import annotations

import ctypes
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from support.slow import slow_but

from deepnmt.kernels import malloc

ROOT = Path(__file__).resolve().parents[3]
PAGES_OF_TENSORS = """
import resource, sys
import torch
from deepnmt.kernels.malloc import keep_freed_memory
{keep}
def pages():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
def touched():
    torch.empty(2**26)[::1024] = 1  # each page of more than is spared in any case
# Until the heap has its size: where small blocks lie between large ones, that takes some of them.
for _ in range(20):
    touched()
before = pages()
for _ in range(10):
    touched()
print(pages() - before)
"""


@pytest.mark.parametrize("keep", slow_but([True], [False, True]))
def test_memory_of_tensors_is_used_again(keep: bool) -> None:
    program = PAGES_OF_TENSORS.format(keep="assert keep_freed_memory()" if keep else "")
    result = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    pages = int(result.stdout)
    assert pages < 100 if keep else pages > 10 * 128  # of 2 MiB at most


PAGES_BETWEEN_BLOCKS = """
from pathlib import Path
from deepnmt.kernels.malloc import keep_freed_memory, return_freed_memory
def pages():
    return int(Path("/proc/self/statm").read_text().split()[1])
assert keep_freed_memory()
blocks = [bytes(2**16) for _ in range(2_000)]
full = pages()
del blocks[:-1]  # below one that stays, so that the heap cannot just shrink
freed = pages()
return_freed_memory()
print(full - freed, freed - pages())
"""


def test_freed_memory_goes_back_when_asked() -> None:
    command = [sys.executable, "-c", PAGES_BETWEEN_BLOCKS]
    kept, returned = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    pages = 2_000 * 2**16 // resource.getpagesize()
    assert int(kept) < pages / 10
    assert int(returned) > pages * 0.9


ARENAS = """
import ctypes, os, re, tempfile, threading
from deepnmt.kernels.malloc import share_one_arena
share_one_arena()
libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
meeting = threading.Barrier(4)
def take():
    meeting.wait()
    libc.malloc(1000)
    meeting.wait()
threads = [threading.Thread(target=take) for _ in range(4)]
[thread.start() for thread in threads], [thread.join() for thread in threads]
with tempfile.NamedTemporaryFile() as file:
    stream = ctypes.c_void_p(libc.fopen(file.name.encode(), b"w"))
    libc.malloc_info(0, stream), libc.fclose(stream)
    print(len(re.findall("<heap nr=", file.read().decode())))
"""


@pytest.mark.parametrize(("environment", "arenas"), [({}, 1), ({"MALLOC_ARENA_MAX": "3"}, 3)])
def test_threads_share_an_arena(environment: dict[str, str], arenas: int) -> None:
    command, variables = [sys.executable, "-c", ARENAS], {**os.environ, **environment}
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, env=variables)
    assert int(result.stdout) == arenas


def test_other_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    assert not malloc.keep_freed_memory()
    malloc.return_freed_memory()
    malloc.share_one_arena()


@pytest.mark.parametrize("name", malloc.CHOSEN)
def test_settings_of_the_environment_stay(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: pytest.fail("nothing must be set"))
    monkeypatch.setenv(name, "131072")
    assert not malloc.keep_freed_memory()
