"""Real and synthetic pairs in one folder: `deepnmt mix`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from fairseq.data.indexed_dataset import MMapIndexedDataset
from support.flow import Result, contents, errors, in_process
from support.substitution import LANGUAGES, SIZES, substitution_data, write_lines

from deepnmt.preparation.mixing import Mixture
from deepnmt.text.data_folder import check_data_folder
from deepnmt.text.data_record import check_same
from deepnmt.text.dictionary import append_types, read_types
from deepnmt.text.like_folder import binarise_text

TAG = "<BT>"


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Real pairs, and seven others whose sources have a tag."""
    folder = tmp_path_factory.mktemp("mix")
    real = substitution_data(folder / "real")
    synthetic = shutil.copytree(real, folder / "synthetic")
    for language in LANGUAGES:
        append_types(synthetic / f"dict.{language}.txt", [TAG])
        for kind in ("tok", "bpe"):
            path = synthetic / "text" / f"train.{kind}.{language}"
            lines = path.read_text("utf-8").splitlines()[:7]
            write_lines(path, [f"{TAG} {line}" for line in lines] if language == "de" else lines)
    record = json.loads((synthetic / "preprocess.json").read_text())
    record["types"] = {language: number + 1 for language, number in record["types"].items()}
    (synthetic / "preprocess.json").write_text(json.dumps(record))
    binarise_text(synthetic, "train")
    return real, synthetic


def mix(*words: object) -> Result:
    return in_process("mix", *words)


def test_counts_are_exact_and_real_sources_untouched(parts: tuple[Path, Path], tmp_path: Path) -> None:
    real, synthetic = parts
    out = tmp_path / "mixed"
    result = mix(out, real, synthetic, synthetic, "--upsample", 3)
    assert result.returncode == 0, result.stderr
    pairs = SIZES["train"]
    for language in LANGUAGES:
        sides = [MMapIndexedDataset(str(folder / f"train.de-en.{language}")) for folder in (out, real, synthetic)]
        whole, first, other = ([sentence.tolist() for sentence in side] for side in sides)
        assert whole == first * 3 + other * 2
        for kind in ("tok", "bpe"):
            name = f"text/train.{kind}.{language}"
            assert (out / name).read_bytes() == (real / name).read_bytes() * 3 + (synthetic / name).read_bytes() * 2
    tag = read_types(out / "dict.de.txt").index(TAG)
    sources = [sentence.tolist() for sentence in MMapIndexedDataset(str(out / "train.de-en.de"))]
    assert [sentence.count(tag) for sentence in sources] == [0] * 3 * pairs + [1] * 14
    check_data_folder(out, ["train", "valid", "test"], LANGUAGES)
    record = json.loads((out / "preprocess.json").read_text())
    assert record["counts"]["train"] == {"kept": 3 * pairs + 14, "real": pairs, "synthetic": 14}
    assert (out / "valid.de-en.en.bin").read_bytes() == (real / "valid.de-en.en.bin").read_bytes()

    before = contents(out)
    assert "is up to date" in mix(out, real, synthetic, synthetic, "--upsample", 3).stdout
    assert contents(out) == before
    (line,) = errors(mix(out, real, synthetic, synthetic))
    assert "was made with upsample 3, not 1" in line


def test_texts_that_parts_were_selected_on_are_kept(parts: tuple[Path, Path], tmp_path: Path) -> None:
    news, talks = ({"file": name, "sha256": name * 8} for name in ("news", "talks"))
    real, one, two = (
        shutil.copytree(part, tmp_path / name) for part, name in zip((parts[0], *parts), ("real", "one", "two"))
    )
    for part, said in ((one, news), (two, [talks, news])):
        record = json.loads((part / "preprocess.json").read_text())
        (part / "preprocess.json").write_text(json.dumps({**record, "selected_on": said}))
    for number, (given, expected) in enumerate([((one,), news), ((one, two), [news, talks]), ((real,), None)]):
        record = Mixture([real, *given]).record()
        assert record.get("selected_on") == expected
        # What an earlier version has made did not say so.
        earlier = tmp_path / str(number) / "preprocess.json"
        earlier.parent.mkdir()
        earlier.write_text(json.dumps({key: value for key, value in record.items() if key != "selected_on"}))
        check_same(earlier, record, "OUT")


def test_refused(parts: tuple[Path, Path], tmp_path: Path) -> None:
    real, synthetic = parts
    shifted = shutil.copytree(synthetic, tmp_path / "shifted")
    for language in LANGUAGES:
        path = shifted / f"dict.{language}.txt"
        path.write_text(path.read_text("utf-8").replace(TAG, "<XX>"), encoding="utf-8")
    alone = shutil.copytree(real, tmp_path / "alone")
    for path in alone.glob("train.*"):
        path.unlink()
    other = substitution_data(tmp_path / "other", seed=3)
    copies = shutil.copytree(real, tmp_path / "copies")
    record = json.loads((copies / "preprocess.json").read_text("utf-8"))
    (copies / "preprocess.json").write_text(json.dumps({**record, "copies": 2, "bpe_dropout": 0.1}), "utf-8")
    for words, fault in [
        ((real, synthetic, "--upsample", 0), "--upsample must be a whole number from 1 to 1000, but is '0'"),
        ((real,), "the following arguments are required: SYNTHETIC"),
        ((real, tmp_path / "none"), "no such file; is"),
        ((real, alone), "the subset must be one of"),
        ((real, other), f"codes: must be the codes of {real}, but are others"),
        ((real, synthetic, shifted), "must be the beginning of"),
        ((copies, synthetic), "copies: must be without copies, but was made by deepnmt preprocess --copies"),
        ((real, synthetic, copies), "copies: must be without copies, but was made by deepnmt preprocess --copies"),
    ]:
        (line,) = errors(mix(tmp_path / "out", *words))
        assert fault in line
        assert not list(tmp_path.glob("out*"))
    (line,) = errors(mix("", real, synthetic))
    assert "the name of a file or folder must not be empty" in line
