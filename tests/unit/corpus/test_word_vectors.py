"""Vectors of types: counts, information and SVD against loops and numpy's own decomposition; the command."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from support.flow import in_process
from support.substitution import substitution_data

from deepnmt.corpus.word_vectors import neighbours, positive_information, vectors

TYPES = ["<s>", "<pad>", "</s>", "<unk>", "a", "b", "c", "d", "e"]
LINES = ["a b c a", "b d", "", "c x b e", "e a a d b c", "<unk> a"]


def counted(window: int) -> dict[tuple[str, str], int]:
    """Each ordered pair of known types at most `window` apart in a line."""
    result: dict[tuple[str, str], int] = {}
    for line in LINES:
        words = line.split()
        for i, one in enumerate(words):
            for j, other in enumerate(words):
                if i != j and abs(i - j) <= window and {one, other} <= set(TYPES[4:]):
                    result[one, other] = result.get((one, other), 0) + 1
    return result


@pytest.mark.parametrize("window", [1, 2, 5])
def test_counts_and_information(window: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deepnmt.corpus.word_vectors.BLOCK", 2)
    counts = neighbours(iter(LINES), TYPES, window)
    expected = counted(window)
    found = {(TYPES[i], TYPES[j]): counts[i, j] for i, j in zip(*counts.nonzero())}
    assert found == expected
    total = sum(expected.values())
    sums = {name: sum(count for (one, _), count in expected.items() if one == name) for name in TYPES}
    information = positive_information(counts)
    for (one, other), count in expected.items():
        right = max(0.0, math.log(count * total / (sums[one] * sums[other])))
        assert information[TYPES.index(one), TYPES.index(other)] == pytest.approx(right, abs=1e-12)
    assert information.nnz == sum(count * total > sums[one] * sums[other] for (one, other), count in expected.items())


def test_vectors_are_the_largest_part_of_the_decomposition() -> None:
    information = positive_information(neighbours(LINES, TYPES, 2))[4:][:, 4:]
    found = vectors(information, 3)
    left, values, _ = np.linalg.svd(information.toarray())
    right = left[:, :3] * np.sqrt(values[:3])
    right *= 3**-0.5 / np.sqrt((right**2).mean())
    assert found @ found.T == pytest.approx(right @ right.T, abs=1e-9)
    assert np.abs(found) == pytest.approx(np.abs(right), abs=1e-9)
    assert (found[np.abs(found).argmax(axis=0), range(3)] > 0).all()


def test_the_command(tmp_path: Path) -> None:
    data = substitution_data(tmp_path / "data")
    out = tmp_path / "de.vec"
    done = in_process("embeddings", data, out, "--lang", "de", "--width", 4, "--window", 2, "--subset", "train")
    assert (done.returncode, done.stderr) == (0, "")
    header, *rows = out.read_text("utf-8").splitlines()
    words = set((data / "text" / "train.bpe.de").read_text("utf-8").split())
    assert header == f"{len(rows)} 4"
    assert {row.split()[0] for row in rows} <= words
    numbers = np.array([[float(number) for number in row.split()[1:]] for row in rows])
    assert numbers.shape == (len(rows), 4)
    assert (numbers**2).mean() == pytest.approx(0.25, abs=1e-4)
    before = out.read_bytes()
    assert in_process("embeddings", data, out, "--lang", "de", "--width", 4, "--window", 2).returncode == 0
    assert out.read_bytes() == before


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            ["--width", "0", "--window", "-1"],
            "--width must be from 1 to 100000, but is 0\nembeddings.sh: error: --window",
        ),
        (["--width", "900"], "--width must be below the number of types with neighbours, "),
        (["--width", "4", "--subset", "mono"], "text/mono.bpe.de: no such file"),
    ],
)
def test_refusals(words: list[str], line: str, tmp_path: Path) -> None:
    data = substitution_data(tmp_path / "data")
    done = in_process("embeddings", data, tmp_path / "out", "--lang", "de", *words)
    assert done.returncode == 2
    assert line.partition("\n")[0] in done.stderr
    assert not (tmp_path / "out").exists()


def test_each_folder_has_text_of_the_same_types(tmp_path: Path) -> None:
    data, other = substitution_data(tmp_path / "data"), substitution_data(tmp_path / "other")
    words = [tmp_path / "out", "--lang", "de", "--width", "4"]
    assert in_process("embeddings", f"{data}:{other}", *words).returncode == 0
    lines = (other / "dict.de.txt").read_text("utf-8").splitlines()
    (other / "dict.de.txt").write_text("\n".join([*lines[1:], lines[0]]) + "\n", encoding="utf-8")
    for folder, line in (
        (other, f"{other}/dict.de.txt: must have the types of {data}/dict.de.txt, but has others"),
        (tmp_path / "none", f"{tmp_path}/none/text/mono.bpe.de: no such file"),
    ):
        done = in_process("embeddings", f"{data}:{folder}", *words)
        assert done.returncode == 2
        assert done.stderr.rstrip().endswith(line)
