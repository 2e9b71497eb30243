"""Whether freed memory is kept: by the number of pages that the kernel has to give."""

from __future__ import annotations

import ctypes
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


def test_other_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    assert not malloc.keep_freed_memory()
    malloc.return_freed_memory()


@pytest.mark.parametrize("name", malloc.CHOSEN)
def test_settings_of_the_environment_stay(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: pytest.fail("nothing must be set"))
    monkeypatch.setenv(name, "131072")
    assert not malloc.keep_freed_memory()
