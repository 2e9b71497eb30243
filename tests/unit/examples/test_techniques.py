"""The measurements of search.sh: what is chosen, what is compared, and the folder to try them with."""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
import techniques.__main__
import techniques.runs
import techniques.trainings
from sacrebleu.metrics.bleu import BLEU
from support.data_folders import data_folder
from techniques.__main__ import job_of, main, shares
from techniques.curves import EXPONENTS, over_length_penalty
from techniques.findings import HEADER, findings, repeated, settings_of
from techniques.first_pairs import first_pairs
from techniques.picture import draw
from techniques.plan import Models, Search, Technique, lists, model_options, samples
from techniques.plan import techniques as planned
from techniques.runs import Row, Runs
from techniques.table import as_list, as_markdown, compared, rows_of_table
from techniques.trainings import checkpoint, place

from deepnmt.errors import UserError
from deepnmt.jobs import job
from deepnmt.jobs.job import locked
from deepnmt.text.data_folder import check_dictionaries, check_subset

EVERY = Models(Path("a.pt"), (Path("b.pt"),), Path("r.pt"), Path("t.pt"), Path("v.pt"), Path("l.pt"))


def test_each_search_has_a_folder_of_its_own() -> None:
    found = list(planned(EVERY))
    searches = [search for each in found for search in each.searches] + lists(EVERY) + [samples(EVERY)]
    by_name = {search.name: search for search in searches}
    assert len(set(searches)) == len(by_name)
    assert all("/" not in name and " " not in name for name in by_name)
    assert found[0].searches == (Search("beam-5", "a.pt", ("--beam", "5"), listed=5),)
    few = {each.name for each in planned(Models(Path("a.pt")))}
    further = {"ensemble", "ensemble, weighted", "language model", "right to left", "two-sided decoder"}
    assert {each.name for each in found} - few == further
    for search in searches:
        weights = dict(zip(search.options, search.options[1:])).get("--ensemble-weights", "1")
        assert sum(map(float, weights.split(","))) == pytest.approx(1)
    assert [search.path for search in lists(EVERY)] == ["a.pt", "b.pt", "r.pt"]
    words = ["--score", "fwd1=a.pt", "--score", "fwd2=b.pt", "--score", "r2l=r.pt", "--reverse", "rev=v.pt"]
    assert model_options(EVERY) == [*words, "--lm", "lm=l.pt"]


def test_validation_chooses_and_only_the_chosen_sees_the_test_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    valid = {"one": 20.0, "two": 30.0, "three": 30.0}
    asked: list[tuple[str, str]] = []
    listed = []

    def run(*words: object) -> None:
        if "rerank" in words:
            folder = Path(str(words[-1]))
            assert not folder.exists(), "what a killed command left is in no one's seconds"
            asked.append((folder.parent.name, folder.name))
            folder.mkdir(parents=True)
            (folder / "rerank.json").write_text('{"seconds": 100}')
        elif "generate.sh" in str(words[0]):
            listed.append("--nbest" in words)
            folder = Path(str(words[3]))
            asked.append((folder.parent.name, folder.name))
            folder.mkdir(parents=True)
            log = f"Translated 1,000 sentences (9,000 tokens) in {len(asked)}.5s (10.0 sentences/s, 9 tokens/s)\n"
            (folder / "generate.log").write_text(log)
        else:
            folder = Path(str(words[1]))
            score = valid.get(folder.parent.name, 25.0) if folder.name == "valid" else 99.0
            (folder / "scores.json").write_text(json.dumps({"BLEU": {"score": score}, "chrF": {"score": 1.0}}))

    monkeypatch.setattr(techniques.runs, "run", run)
    runs = Runs(tmp_path / "data", tmp_path / "out", EVERY)
    technique = Technique("some", tuple(Search(name, "a.pt", listed=number) for number, name in enumerate(valid, 1)))
    row = runs.technique(technique)
    assert (row.setting, row.folders["test"]) == ("two", tmp_path / "out" / "searches" / "two" / "test")
    assert asked == [("one", "valid"), ("two", "valid"), ("three", "valid"), ("two", "test")]
    assert row.seconds == {"valid": 2.5, "test": 4.5}
    assert row.tried == {name: tmp_path / "out" / "searches" / name / "valid" for name in valid}
    assert listed == [True, True, True, False]
    # A second time, nothing is run.
    assert Runs(tmp_path / "data", tmp_path / "out", EVERY).technique(technique) == row
    assert len(asked) == 4
    # Likewise among lists: one of the two similarities alone sees the test set, and its time counts the searches'.
    valid["most-bleu"] = 26.0
    (tmp_path / "out" / "most-bleu" / "valid" / "scores").mkdir(parents=True)
    row = runs.consensus("most", technique.searches[:2])
    assert asked[4:] == [("most-chrf", "valid"), ("most-bleu", "valid"), ("one", "test"), ("most-bleu", "test")]
    # Where it was killed before it was scored, it is scored.
    (tmp_path / "out" / "most-bleu" / "test" / "scores.json").unlink()
    assert runs.consensus("most", technique.searches[:2]) == row
    assert len(asked) == 8
    assert row.setting == "bleu"
    assert row.seconds == {"valid": 104.0, "test": pytest.approx(100 + 7.5 + 4.5)}


def result(folder: Path, texts: list[str], references: list[str]) -> Path:
    folder.mkdir(parents=True)
    (folder / "hyp.en").write_text("".join(f"{text}\n" for text in texts))
    (folder / "ref.en").write_text("".join(f"{text}\n" for text in references))
    (folder / "generate.json").write_text('{"target_lang": "en", "lowercase": false}')
    return folder


def test_differences_and_their_significance(tmp_path: Path) -> None:
    references = [f"this is the sentence number {number} of a text ." for number in range(40)]
    bad = [text.replace("sentence", "word").replace("of a", "in some") for text in references]
    folders = [
        result(tmp_path / name, texts, references) for name, texts in (("a", bad), ("b", bad), ("c", references))
    ]
    first, same, better = compared(folders)
    expected = BLEU().corpus_score(bad, [references]).score
    assert first[:3] == [f"{expected:.2f}", "", ""]
    assert same[:2] == [f"{expected:.2f}", "+0.00"]
    assert float(same[2]) > 0.5
    assert better[:2] == ["100.00", f"{100 - expected:+.2f}"]
    assert float(better[2]) < 0.01
    # Another text of the same BLEU: none of the changed words is right in either.
    other = result(tmp_path / "d", [text.replace("word", "term") for text in bad], references)
    assert compared([folders[0], other])[1][:3] == [f"{expected:.2f}", "+0.00", "1.000"]
    rows = [
        Row(path.name, "x", {"valid": path, "test": path}, {"valid": 1.0, "test": 2.0 + n})
        for n, path in enumerate(folders)
    ]
    table = rows_of_table(rows)
    assert len({len(line) for line in table}) == 1
    assert [line[-1] for line in table] == ["time", "1.00", "1.50", "2.00"]
    assert as_markdown(table).splitlines()[1].count("---") == len(table[0])


@pytest.mark.parametrize(("language", "tokens"), [("en", "13a"), ("zh", "zh"), ("ja", "char")])
def test_words_of_the_table_are_those_of_its_language(language: str, tokens: str, tmp_path: Path) -> None:
    # What 13a takes for one word, wholly right or wholly wrong.
    texts, references = ["我们今天去看电影吧.", "他昨天来了."], ["我们今天去看电影了.", "他昨天来过."]
    folder = result(tmp_path / "a", texts, references)
    for name in ("hyp", "ref"):
        (folder / f"{name}.en").rename(folder / f"{name}.{language}")
    (folder / "generate.json").write_text(json.dumps({"target_lang": language, "lowercase": False}))
    expected = BLEU(tokenize=tokens).corpus_score(texts, [references]).score
    assert compared([folder])[0][0] == f"{expected:.2f}"


def test_a_folder_of_the_first_pairs(tmp_path: Path) -> None:
    data = data_folder(tmp_path / "data")
    (data / "codes").write_text("#version: 0.2\na b\n")
    for language in ("de", "en"):
        for subset in ("valid", "test"):
            (data / "text" / f"{subset}.bpe.{language}").write_text("w0 w1 w2\nw3 other\nw4\n")
    first_pairs(data, 2, tmp_path / "few")
    dictionaries = check_dictionaries(tmp_path / "few", ("de", "en"))
    assert check_subset(tmp_path / "few", "test", ("de", "en"), dictionaries) == 2
    assert (tmp_path / "few" / "text" / "valid.raw.en").read_text() == "en 1.\nen 2.\n"
    # 16-bit numbers, the end symbol last, the unknown word 3.
    assert (tmp_path / "few" / "test.de-en.de.bin").read_bytes() == bytes([4, 0, 5, 0, 6, 0, 2, 0, 7, 0, 3, 0, 2, 0])


def test_picture_and_search_errors(tmp_path: Path) -> None:
    record = {"beams": [{"beam": 1, "search_errors": 0.5}, {"beam": 5, "search_errors": 0.25}]}
    (tmp_path / "search_errors.json").write_text(json.dumps(record))
    assert shares(tmp_path / "search_errors.json") == {1.0: 50.0, 5.0: 25.0}
    pictures = []
    for _ in range(2):
        draw(tmp_path / "search.png", {1: {0.5: 20.0, 1.0: 21.0}, 5: {0.5: 22.0, 1.0: 21.0}}, {1.0: 50.0, 5.0: 25.0})
        pictures.append((tmp_path / "search.svg").read_bytes())
    assert (tmp_path / "search.png").read_bytes().startswith(b"\x89PNG")
    assert pictures[0] == pictures[1]
    assert b"<svg" in pictures[0]
    (tmp_path / "search_errors.json").write_text('{"beams": [{"beam": 1}]}')
    with pytest.raises(UserError, match=r"search_errors\.json: must be a search_errors\.json of search_errors\.sh"):
        shares(tmp_path / "search_errors.json")


def test_what_each_length_penalty_would_have_chosen(tmp_path: Path) -> None:
    """The short translation has the higher sum, the long one, which is right, the higher mean."""
    data = data_folder(tmp_path / "data")
    (data / "text" / "valid.raw.en").write_text("a right one of some words\n" * 3)
    folder = result(tmp_path / "out", ["x"] * 3, ["x"] * 3)
    record = {"source_lang": "de", "target_lang": "en", "subset": "valid", "lowercase": False}
    (folder / "generate.json").write_text(json.dumps(record))
    (folder / "src.de").write_text((data / "text" / "valid.raw.de").read_text())
    found = [(4.0, 2, "wrong"), (6.0, 7, "a right one of some words")]
    lines = [
        f"{number}\t{rank}\t{text}\tmodel=-{loss}\tlength={length}\n"
        for number in range(3)
        for rank, (loss, length, text) in enumerate(found, 1)
    ]
    (folder / "nbest.tsv").write_text("".join(lines))
    curve = over_length_penalty(folder, data)
    assert tuple(curve) == EXPONENTS
    # 4 / 2^a > 6 / 7^a from a = log 1.5 / log 3.5 = 0.32 on.
    assert {a: score == pytest.approx(100) for a, score in curve.items()} == {a: a > 0.32 for a in EXPONENTS}


def test_all_settings_and_what_single_techniques_have(tmp_path: Path) -> None:
    tried = {}
    for setting, text in (("short", "a b c d"), ("long", "a b c d a b c d")):
        tried[setting] = folder = result(tmp_path / setting, [text], ["x"])
        (folder / "hyp.tok.en").write_text(f"{text}\n")
        (folder / "ref.tok.en").write_text("x " * 5 + "\n")
        (folder / "scores.json").write_text(json.dumps({"BLEU": {"score": len(text)}, "chrF": {"score": 0.5}}))
    folders = {"valid": tried["long"], "test": tried["short"]}
    row = Row("some", "long", folders, {}, tried)
    # Of a b c d a b c d, the last of five 4-grams is the first one again.
    assert settings_of([row]) == [
        HEADER,
        ["some", "short", "7.00", "0.50", "0.800", "0.00"],
        ["some", "long", "15.00", "0.50", "1.600", "20.00"],
    ]
    assert repeated([["a", "b", "c"], []]) == 0
    assert list(findings([row], {})) == []
    (tried["long"] / "rerank.json").write_text('{"bleu": {"chosen": 1, "oracle": 40.125}}')
    (tried["short"] / "combine.json").write_text('{"new": 7}')
    assert as_list(findings([row], {1.0: 50.0, 5.0: 25.04})).splitlines() == [
        "- some: the best choice possible has 40.12 BLEU on validation",
        "- some: 7 sentences of test are translations that no list has",
        "- validation sentences for which a string of higher log P is known: beam 1 50.0 %, beam 5 25.0 %",
    ]


def settings(data: Path, limit: int | None = None, max_update: int | None = None) -> argparse.Namespace:
    """Return a command line, as far as measurements depend on it."""
    return argparse.Namespace(data=data, limit=limit, max_update=max_update)


def begin(models: Models, arguments: argparse.Namespace, out: Path) -> None:
    with job_of(models, arguments, out).begun():
        pass


def test_a_folder_is_of_one_set_of_models(tmp_path: Path) -> None:
    out, data = tmp_path / "out", data_folder(tmp_path / "data")
    for _ in range(2):
        begin(EVERY, settings(data, max_update=20), out)
    end = "; remove it or choose another OUT$"
    with pytest.raises(UserError, match=f"out was begun with limit 0, not 9{end}"):
        begin(EVERY, settings(data, 9, 20), out)
    # Models that were trained to try it must not pass for others.
    with pytest.raises(UserError, match=f"out was begun with max-update 20, not 2500{end}"):
        begin(EVERY, settings(data, max_update=2500), out)
    with pytest.raises(UserError, match=rf"was begun with models a\.pt, b\.pt, .*, not c\.pt, .*{end}"):
        begin(replace(EVERY, best=Path("c.pt")), settings(data, max_update=20), out)


@pytest.mark.parametrize("earlier", [False, True])
def test_a_folder_is_of_one_data_folder_and_of_models_as_they_were(tmp_path: Path, earlier: bool) -> None:
    out, data, other = tmp_path / "out", data_folder(tmp_path / "data"), data_folder(tmp_path / "other")
    model, trained = tmp_path / "a.pt", out / "models" / "r2l" / "average.pt"
    models = Models(model, right_to_left=trained)
    model.write_text("one")
    if earlier:
        # Which did not note them.
        out.mkdir()
        record = {"models": [str(model), str(trained), "", "", ""], "limit": 0}
        (out / "models.json").write_text(json.dumps(record))
    begin(models, settings(data), out)
    # The same by another name.
    (tmp_path / "link").symlink_to(data)
    begin(models, settings(tmp_path / "link"), out)
    with pytest.raises(UserError, match=r"was begun with data .*/data .*, not .*/other .*; remove it or choose"):
        begin(models, settings(other), out)
    # One that was not there is noted when it is trained, and from then on the same.
    trained.parent.mkdir(parents=True)
    trained.write_text("one")
    begin(models, settings(data), out)
    for path in (model, trained):
        before = path.stat()
        for text, time in (("another", before.st_mtime_ns), ("two", before.st_mtime_ns + 1)):
            path.write_text(text)
            os.utime(path, ns=(time, time))
            now, noted = f"{len(text)} bytes of {time} ns", f"3 bytes of {before.st_mtime_ns} ns"
            fault = rf"was begun with model {path} {noted}, not {now}; remove it or choose another OUT$"
            with pytest.raises(UserError, match=fault):
                begin(models, settings(data), out)
        path.write_text("one")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        begin(models, settings(data), out)
    # Made anew under the same name.
    (data / "preprocess.json").write_text((data / "preprocess.json").read_text().replace("w0", "w1") + "\n")
    with pytest.raises(UserError, match=r"was begun with data .*/data \(preprocess.json: .*, not .*/data "):
        begin(models, settings(data), out)


def test_what_is_trained_for_the_measurements_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, out = data_folder(tmp_path / "data"), tmp_path / "out"
    (tmp_path / "a.pt").touch()

    def train(kind: str, given: str, data: Path, out: Path, options: list[str]) -> Path:
        path = place(kind, given, out)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        return path

    def stop(*_: object) -> None:
        raise UserError("measuring")

    monkeypatch.setattr(techniques.__main__, "checkpoint", train)
    monkeypatch.setattr(techniques.__main__, "Runs", stop)
    monkeypatch.setattr("sys.argv", ["search.sh", str(tmp_path / "a.pt"), str(data), str(out), "--r2l", "train"])
    with pytest.raises(UserError, match=r"^measuring$"):
        main()
    trained = out / "models" / "r2l" / "average.pt"
    assert f"model {trained}" in json.loads((out / "models.json").read_text())
    # Removed, to be trained anew: another model.
    trained.unlink()
    with pytest.raises(UserError, match=r"was begun with model .*average\.pt "):
        main()


def test_two_at_a_time_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "WAIT", 0)
    monkeypatch.setattr(techniques.__main__, "measure", lambda *arguments: None)
    (tmp_path / "a.pt").touch()
    data_folder(tmp_path / "data")
    monkeypatch.setattr("sys.argv", ["search.sh", *(str(tmp_path / name) for name in ("a.pt", "data", "out"))])
    main()
    fault = r"^OUT must not be in use, but a command of an earlier run is still running in '.*out'$"
    with locked(tmp_path / "out", "OUT"), pytest.raises(UserError, match=fault):
        main()
    main()


def test_what_is_wrong_with_paths_is_said_before_anything_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*words: object) -> None:
        raise AssertionError("trained")

    monkeypatch.setattr(techniques.trainings, "run", run)
    (tmp_path / "a.pt").touch()
    command = ["search.sh", str(tmp_path / "a.pt"), str(tmp_path / "data"), str(tmp_path / "out"), "--r2l", "train"]
    for options, fault in [
        (["--lm", "x.pt"], r"^--lm: x\.pt: no such checkpoint"),
        (["--errors", "x.json"], r"^x\.json: no such file"),
        ([], r"^.*preprocess\.json: no such file; is .*/data a folder made by deepnmt preprocess\?$"),
        (["--max-update", "0"], "^--max-update: must be at least 1, but is 0"),
        (["--more", "train", "--more", "train"], "^--more: must be train once at most"),
    ]:
        monkeypatch.setattr("sys.argv", [*command, *options])
        with pytest.raises(UserError, match=fault):
            main()
    for name in ("a:b", "a,b"):
        monkeypatch.setattr("sys.argv", [*command[:3], name, *command[4:]])
        with pytest.raises(UserError, match=f"^OUT: must be without commas and colons, but is {name}$"):
            main()
    begin(EVERY, settings(data_folder(tmp_path / "data")), tmp_path / "out")
    monkeypatch.setattr("sys.argv", command)
    with pytest.raises(UserError, match=r"out was begun with models .*b\.pt.*, not .*models/r2l/average\.pt"):
        main()


@pytest.mark.parametrize("kind", ["more", "r2l", "two-sided", "reverse", "lm"])
def test_models_that_are_trained(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, commands = data_folder(tmp_path / "data"), []
    monkeypatch.setattr(techniques.trainings, "run", lambda *words: commands.append([str(word) for word in words]))
    with pytest.raises(UserError, match=rf"^--{kind}: x\.pt: no such checkpoint \(and not 'train'\)$"):
        checkpoint(kind, "x.pt", data, tmp_path / "out", [])
    (tmp_path / "x.pt").touch()
    assert checkpoint(kind, str(tmp_path / "x.pt"), data, tmp_path / "out", []) == tmp_path / "x.pt"
    assert not commands
    save = tmp_path / "out" / "models" / kind
    save.mkdir(parents=True)
    for epoch in range(1, 13):
        (save / f"checkpoint{epoch}.pt").touch()
    path = checkpoint(kind, "train", data, tmp_path / "out", ["--max-update", "7"])
    assert path == place(kind, "train", tmp_path / "out")
    expected = {
        "more": ["--seed", "2"],
        "reverse": ["--source-lang", "en", "--target-lang", "de"],
        "lm": ["--lang", "en"],
    }.get(kind, [])
    assert commands[0][-2:] == ["--max-update", "7"]
    assert commands[0][-2 - len(expected) : -2] == expected
    path.touch()
    number = len(commands)
    assert checkpoint(kind, "train", data, tmp_path / "out", []) == path
    assert len(commands) == number, "nothing is trained twice"
    if kind == "lm":
        assert path.name == "checkpoint_best.pt"
    else:
        assert commands[0][1].endswith(
            f"{ {'r2l': 'right_to_left', 'two-sided': 'two_sided'}.get(kind, 'transformer_tiny') }.yaml"
        )
        assert Path(commands[0][1]).is_file()
        assert commands[1][2:] == [str(path), "--last", "10"]
