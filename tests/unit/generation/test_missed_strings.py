"""`deepnmt search-errors`: what is reported, resumed and refused; the search itself is in unit/search/test_exact.py."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from support.data_folders import TYPES, data_folder
from support.models import SIZE, dictionary, scramble, task

from deepnmt.checkpoints.state import new_contents
from deepnmt.cli.search_errors import main
from deepnmt.errors import UserError
from deepnmt.generation.missed_strings import Sentence, report
from deepnmt.jobs import job
from deepnmt.jobs.job import locked
from deepnmt.model.config import DLCLTransformerConfig
from deepnmt.model.transformer import DLCLTransformerModel


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder and a checkpoint."""
    return data_and_model(tmp_path_factory.mktemp("search_errors"))


def data_and_model(result: Path, **given: Any) -> Path:
    data_folder(result / "data")
    torch.manual_seed(5)
    config = DLCLTransformerConfig(**{**SIZE, "dropout": 0.0, **given})
    model = DLCLTransformerModel.build_model(config, task(dictionary(TYPES - 4)))
    scramble(model)
    with torch.no_grad():
        model.decoder.output_projection.weight *= 5
    options = {**dataclasses.asdict(config), "_name": "dlcl_transformer"}
    languages = {"_name": "translation", "data": "", "source_lang": "de", "target_lang": "en"}
    languages |= {"train_subset": "train", "dataset_impl": None, "required_seq_len_multiple": 1}
    torch.save(new_contents({"model": options, "task": languages}, model.state_dict()), result / "model.pt")
    return result


def run(folder: Path, out: str, *words: str) -> None:
    options = ["--beams=1,3", "--max-len=4", "--limit=60", *words]
    main([str(folder / "model.pt"), str(folder / "data"), "--out", str(folder / out), *options])


def lines(folder: Path) -> list[Sentence]:
    """What was found, without what depends on the clock."""
    found = map(Sentence.of, (folder / "sentences.tsv").read_text().splitlines())
    return [each._replace(seconds=0) for each in found]


def test_resumed_after_half_a_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(folder, "whole")
    whole = lines(folder / "whole")
    assert [each.number for each in whole] == [0, 1, 2]
    assert all(each.complete for each in whole)
    assert all(each.best >= max(each.beams) for each in whole)
    assert all(each.beams[1] >= each.beams[0] - 1e-4 or each.best > each.beams[1] for each in whole)
    run(folder, "parts", "--sentences=1")
    with (folder / "parts" / "sentences.tsv").open("a") as file:
        file.write("1\t0.5\t1")
    capsys.readouterr()
    run(folder, "parts")
    assert lines(folder / "parts") == whole
    text = capsys.readouterr().out
    assert text.startswith("3 sentences; out of time: 0.0%")
    assert "search_errors.json is ready" in text
    figures = json.loads((folder / "parts" / "search_errors.json").read_text())
    assert figures["sentences"] == 3
    assert [each["beam"] for each in figures["beams"]] == [1, 3]
    expected = sum(each.best > each.beams[0] + 1e-4 for each in whole) / 3
    assert figures["beams"][0]["search_errors"] == pytest.approx(expected)


def test_a_report_of_fewer_sentences_is_of_these_alone(folder: Path) -> None:
    run(folder, "fewer")
    text = (folder / "fewer" / "sentences.tsv").read_text()
    run(folder, "fewer", "--sentences=1")
    figures = json.loads((folder / "fewer" / "search_errors.json").read_text())
    first = lines(folder / "fewer")[0]
    assert (figures["sentences"], figures["beams"][0]["mean_log_prob"]) == (1, first.beams[0])
    assert (folder / "fewer" / "sentences.tsv").read_text() == text


@pytest.mark.parametrize("name", ["model.pt", "data/test.de-en.de.bin"])
def test_results_of_a_file_that_was_replaced_are_refused(name: str, folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "data", tmp_path / "data")
    shutil.copy(folder / "model.pt", tmp_path)
    run(tmp_path, "out")
    before = (tmp_path / "out" / "sentences.tsv").read_text()
    if name == "model.pt":
        state = torch.load(folder / name, weights_only=False)
        state["model"]["decoder.output_projection.weight"] *= 2
        torch.save(state, tmp_path / name)
    else:
        # The first two numbers of the first sentence.
        content = (folder / name).read_bytes()
        (tmp_path / name).write_bytes(content[2:4] + content[:2] + content[4:])
    message = rf"out was begun with another input: .*{name}; remove it or choose another --out$"
    with pytest.raises(UserError, match=message):
        run(tmp_path, "out")
    assert (tmp_path / "out" / "sentences.tsv").read_text() == before
    # As earlier versions left it.
    record = json.loads((tmp_path / "out" / "search_errors.json").read_text())
    del record["inputs"]
    (tmp_path / "out" / "search_errors.json").write_text(json.dumps(record))
    run(tmp_path, "out")
    assert (tmp_path / "out" / "sentences.tsv").read_text() == before


def test_sentences_longer_than_the_positions_are_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # The sentences have 4, 2 and 6 tokens; translations have at most one before the end symbol.
    sizes = {"max_source_positions": 4, "max_target_positions": 2}
    data_and_model(tmp_path, encoder_learned_pos=True, decoder_learned_pos=True, **sizes)
    run(tmp_path, "out")
    assert [each.number for each in lines(tmp_path / "out")] == [0, 1]
    assert all(each.length <= 1 and each.complete for each in lines(tmp_path / "out"))
    figures = json.loads((tmp_path / "out" / "search_errors.json").read_text())
    assert (figures["sentences"], figures["too_long"]) == (2, 1)
    assert "warning: 1 of 3 sentences were not searched, for they are longer than the mod" in capsys.readouterr().err
    data_and_model(tmp_path / "short", encoder_learned_pos=True, **{**sizes, "max_source_positions": 1})
    with pytest.raises(UserError, match=r"^test must have sentences within the model's 1 positions, but"):
        run(tmp_path / "short", "out")


def test_report() -> None:
    """A sentence each: an error of the first beam, the empty string, no error, out of time with and without one."""
    done = [
        Sentence(0, 1.0, 1, 9, -2.0, 5, (-3.0, -2.0)),
        Sentence(1, 1.0, 1, 9, -1.0, 0, (-4.0, -3.0)),
        Sentence(2, 1.0, 1, 9, -1.5, 2, (-1.50005, -1.5)),
        Sentence(3, 1.0, 0, 9, -5.0, 4, (-6.0, -5.0)),
        Sentence(4, 1.0, 0, 9, -5.0, 4, (-5.0, -5.0)),
    ]
    figures = report(done, [1, 5])
    assert (figures["sentences"], figures["out_of_time"]) == (5, 0.4)
    assert figures["empty_is_best"] == pytest.approx(1 / 3)
    first, second = figures["beams"]
    assert (first["search_errors"], first["unknown"]) == (0.6, 0.2)
    assert (second["search_errors"], second["unknown"]) == (0.2, 0.4)
    assert first["mean_log_prob"] == pytest.approx(-3.90001)
    assert [Sentence.of(each.line()) for each in done] == done


def test_refused(folder: Path, tmp_path: Path) -> None:
    run(folder, "refused", "--sentences=1")
    (tmp_path / "file").write_text("")
    for out, words, message in (
        ("refused", ["--limit=5"], ".*refused was begun with limit 60.0, not 5.0; remove it or choose another --out$"),
        ("data", [], ".*data exists, and was not made by deepnmt search-errors; remove it or choose another --out$"),
        ("new", ["--limit=0"], "--limit must be a number of seconds above 0, but is '0'"),
        ("new", ["--limit=soon"], "--limit must be a number of seconds above 0, but is 'soon'"),
        ("new", ["--beams=0,5"], "--beams must be whole numbers from 1 to 256 with commas between them, but is '0,5'"),
        ("new", ["--beams=a"], "--beams must be whole numbers from 1 to 256 with commas between them, but is 'a'"),
    ):
        with pytest.raises(UserError, match=f"^{message}"):
            run(folder, out, *words)
        assert not (folder / "new").exists()


def test_two_at_a_time_do_not_count_twice(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "WAIT", 0)
    run(folder, "held", "--sentences=1")
    before = (folder / "held" / "sentences.tsv").read_bytes()
    fault = r"^--out must not be in use, but a command of an earlier run is still running in '.*held'$"
    with locked(folder / "held", "OUT"), pytest.raises(UserError, match=fault):
        run(folder, "held", "--sentences=2")
    assert (folder / "held" / "sentences.tsv").read_bytes() == before
    run(folder, "held", "--sentences=2")
    assert len(lines(folder / "held")) == 2


@pytest.mark.parametrize("option", ["--lenpen=1", "--length-penalty=gnmt", "--unnormalized"])
def test_length_penalties_are_refused(option: str) -> None:
    rest = "cannot be used here: sums of log P are compared, without a length penalty"
    with pytest.raises(UserError, match=f"^{option.split('=')[0]} {rest}$"):
        main(["a", "b", option])


def test_results_are_beside_the_checkpoint(folder: Path) -> None:
    main([str(folder / "model.pt"), str(folder / "data"), "--beams=1", "--max-len=2", "--sentences=1"])
    assert (folder / "model.pt.search_errors" / "search_errors.json").is_file()
