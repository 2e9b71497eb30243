"""LibreOffice's text: paragraphs of pages, message catalogues, pairs, and splits that share nothing."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

import pytest
from corpus import fetch, join
from corpus.help_pages import Place, paragraphs, read_pages
from corpus.message_catalogs import read_catalog, read_catalogs, without_keys

from deepnmt.errors import UserError

PAGE = """<html><body><p>no identifier</p>
<h1 id="hd_1" dir="auto"><a name="x"></a>Macro  Security</h1>
<p id="par_2" class="paragraph">Choose <span id="s" class="switchinline"><span hidden="true" id="MACs" class="MAC">
<span class="emph">LibreOffice - Preferences</span></span><span hidden="true" id="defaults"><span class="emph">Tools -
Options</span></span></span><span class="emph"> - </span><a href="y.html"><span class="emph">Security</span></a>.</p>
<td><p id="par_2">A&amp;B<br>C &lt;D&gt;</p></td><p id="bm_x">index</p><p id="par_3"> </p></body></html>"""


def test_paragraphs_of_a_page(tmp_path: Path) -> None:
    assert paragraphs(PAGE) == [
        ("hd_1", "Macro Security"),
        ("par_2", "Choose Tools - Options - Security."),
        ("par_2", "A&B C <D>"),
    ]
    # A span that is never closed hides no other paragraph.
    hidden = '<p id="par_1">A<span hidden="true" class="MAC">B</p><p id="par_2">C</p>'
    assert paragraphs(hidden) == [("par_1", "A"), ("par_2", "C")]
    (tmp_path / "guide").mkdir()
    (tmp_path / "guide" / "page.html").write_text(PAGE, encoding="utf-8")
    assert [place for place, _ in read_pages(tmp_path)] == [
        Place("guide/page", "hd_1", 0), Place("guide/page", "par_2", 0), Place("guide/page", "par_2", 1),
    ]  # fmt: skip


def catalog(path: Path, entries: dict[str, str]) -> Path:
    """Write a catalogue as gettext's msgfmt does: a header, two tables, the texts."""
    texts = [text.encode() for side in (entries, entries.values()) for text in side]
    number, place, tables, body = len(entries), 28 + 16 * len(entries), b"", b""
    for text in texts:
        tables += struct.pack("<II", len(text), place + len(body))
        body += text + b"\0"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(struct.pack("<7I", 0x950412DE, 0, number, 28, 28 + 8 * number, 0, 28) + tables + body)
    return path


def test_catalogues_without_keys_and_contexts(tmp_path: Path) -> None:
    entries = {"": "Language: de\n", "menu|id\x04_Save": "S_peichern", "a file\0files": "Datei\0Dateien", "~Close": ""}
    path = catalog(tmp_path / "de" / "sw.mo", entries)
    assert list(read_catalog(path)) == [("_Save", "S_peichern")]
    assert list(read_catalogs(tmp_path)) == [("Save", "Speichern")]
    whole = path.read_bytes()
    for content, reason in (
        (whole[:20], "unpack_from requires"),
        (whole[:-6], "a text ends beyond the file"),
        (b"\0" * 4 + whole[4:], "another format"),
        (whole.replace(b"_peich", b"_p\xffich"), "'utf-8' codec can't decode"),
    ):
        path.write_bytes(content)
        with pytest.raises(
            UserError, match=rf"sw\.mo: must be a message catalogue of gettext, but is damaged: {reason}"
        ):
            list(read_catalog(path))


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("Find _All", "Find All"),
        ("R_ename...", "Rename..."),
        ("S~chließen", "Schließen"),
        ("コメント(_C):", "コメント:"),
        ("割り当てなし(~N)", "割り当てなし"),
        ("WEEKNUM_OOO", "WEEKNUM_OOO"),
        ("underline_", "underline_"),
        ("my_own_name", "my_own_name"),
        ("_reserved_", "_reserved_"),
        # One key alone.
        ("_Save as _copy", "Save as _copy"),
        ("( _ )", "( _ )"),
        ("two\nlines ", "two lines"),
    ],
)
def test_keys_of_the_keyboard_go(text: str, right: str) -> None:
    assert without_keys(text) == right


def test_long_paragraphs_are_split_where_both_sides_have_as_many_sentences() -> None:
    one, other = "Ein Satz. " * 40, "One sentence. " * 40
    assert fetch.split_paragraph(one, other) == [("Ein Satz.", "One sentence.")] * 40
    assert fetch.split_paragraph(one, other + "More.") == [(one, other + "More.")]
    assert fetch.split_paragraph("Kurz. Und gut.", "Short. And good.") == [("Kurz. Und gut.", "Short. And good.")]
    # 60 words stay whole, and one side with 61 is enough.
    one, other = (" ".join(["Wort"] * words) + "." for words in (30, 31))
    assert fetch.split_paragraph(f"{one} {one}", "One. Two.") == [(f"{one} {one}", "One. Two.")]
    assert fetch.split_paragraph(f"{one} {other}", "One. Two.") == [(one, "One."), (other, "Two.")]
    # No sentence ends before a small letter.
    assert fetch.split_paragraph(f"z. b. so {one} {other}", "One. Two.") == [
        (f"z. b. so {one}", "One."),
        (other, "Two."),
    ]


def test_long_paragraphs_without_spaces_are_split() -> None:
    one = "文" * 400
    assert fetch.split_paragraph(f"{one}。{one}！", "One. Two!") == [(f"{one}。", "One."), (f"{one}！", "Two!")]
    assert fetch.split_paragraph("文。文。", "One. Two.") == [("文。文。", "One. Two.")]


def test_no_split_has_a_side_of_a_later_one() -> None:
    test, valid = [("a", "A"), ("b", "B")], [("a", "A2"), ("c", "B"), ("d", "D")]
    train = [("d", "X"), ("e", "A"), ("f", "F"), ("c", "G")]
    assert fetch.without_held_out({"train": train, "valid": valid, "test": test}) == {
        "test": test, "valid": [("d", "D")], "train": [("f", "F")],
    }  # fmt: skip


def packages(folder: Path, pages: int) -> None:
    """Three packages: pages with paragraphs in English and German, the last of each untranslated, and an interface."""
    for language in ("en-us", "de"):
        package = folder / "made" / f"libreoffice-help-{language}"
        text = package / "usr/share/libreoffice/help" / language / "text"
        text.mkdir(parents=True)
        for page in range(pages):
            words = [f"{language} {page} {n}" if n < 2 else f"the same {page}" for n in range(3)]
            body = "".join(f'<p id="par_{n}">{text}</p>' for n, text in enumerate(words))
            (text / f"page{page}.html").write_text(body, encoding="utf-8")
    interface = folder / "made" / "libreoffice-l10n-de"
    catalog(interface / "usr/lib/de/sw.mo", {"_Save": "_Speichern", "en-us 0 0": "de 0 0", "OK": "OK"})
    for package in sorted((folder / "made").iterdir()):
        (package / "DEBIAN").mkdir()
        control = f"Package: {package.name}\nVersion: 1\nArchitecture: all\nMaintainer: none\nDescription: none\n"
        (package / "DEBIAN" / "control").write_text(control, encoding="utf-8")
        target = folder / f"{package.name}_1_all.deb"
        subprocess.run(["dpkg-deb", "--build", package, target], check=True, capture_output=True)


@pytest.mark.skipif(fetch.shutil.which("dpkg-deb") is None, reason="needs dpkg-deb")
def test_packages_become_text_whose_pages_are_held_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packages(tmp_path, 30)
    monkeypatch.setattr(fetch, "PAGES", 5)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["fetch", "de", "out", "--debs", "."])
    fetch.main()
    lines = {
        (split, side): (tmp_path / "out" / f"{split}.{side}").read_text("utf-8").splitlines()
        for split in ("train", "valid", "test")
        for side in ("de", "en")
    }
    for split in ("valid", "test"):
        wanted = {f"de {page} {n}" for page in range(30) for n in range(2) if fetch.held_out(f"page{page}") == split}
        assert wanted
        assert set(lines[split, "de"]) == wanted
    held = {*lines["valid", "de"], *lines["test", "de"]}
    assert "Speichern" in lines["train", "de"]
    assert not held.intersection(lines["train", "de"])
    assert len(lines["train", "de"]) + len(held) == 30 * 2 + 1
    assert [line.replace("en-us", "de") for line in lines["train", "en"] if line != "Save"] == [
        line for line in lines["train", "de"] if line != "Speichern"
    ]


@pytest.mark.skipif(fetch.shutil.which("dpkg-deb") is None, reason="needs dpkg-deb")
def test_packages_of_another_kind_are_one_line(tmp_path: Path) -> None:
    packages(tmp_path, 1)
    files = {path.name.partition("_")[0]: path for path in tmp_path.glob("*.deb")}
    # The interface's package in place of the help's.
    files["libreoffice-help-de"] = files["libreoffice-l10n-de"]
    with pytest.raises(UserError, match=r"^libreoffice-help-de: must have one folder of pages, usr/share/libreoffice"):
        fetch.write_text(tmp_path, "de", files)
    (tmp_path / "help" / "usr/share/libreoffice/help/de/text").mkdir(parents=True)
    (tmp_path / "help" / "usr/share/libreoffice/help/fr/text").mkdir(parents=True)
    with pytest.raises(UserError, match=r"^help: must have one folder of pages"):
        fetch.pairs_of({"libreoffice-help-en-us": tmp_path / "help"}, "de")
    files["libreoffice-help-de"].write_bytes(b"no package")
    with pytest.raises(UserError, match=r"_all\.deb: cannot be unpacked: dpkg-deb: error: [^\[\]]*$"):
        fetch.write_text(tmp_path, "de", files)


def answer(path: Path, script: str) -> None:
    """A program that stands in for another one."""
    path.parent.mkdir()
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)


@pytest.mark.parametrize("language", ["en-gb", "../x", "de,fr"])
def test_languages_that_are_refused(language: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["fetch", language, "out"])
    message = f"LANGUAGE must be another one than English, such as de or pt-br, but is '{language}'"
    with pytest.raises(UserError, match=f"^{message}$"):
        fetch.main()


def language(folder: Path, splits: dict[str, list[fetch.Pair]]) -> Path:
    """Write the folder of a language; the key `raw` has the pairs before cleaning."""
    (folder / "text").mkdir(parents=True)
    for split, prefix in (("raw", "text/train"), ("train", "clean"), ("valid", "text/valid"), ("test", "text/test")):
        fetch.write_pairs(folder, prefix, folder.name, splits[split])
    return folder


def test_joined_languages_have_tags_and_no_english_of_a_held_out_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    german = {
        "train": [("eins", "one"), ("zwei", "two")],
        "valid": [("drei", "three")],
        "test": [("vier", "four"), ("acht", "eight")],
    }
    french = {
        "train": [("trois", "three"), ("cinq", "five"), ("huit", "eight")],
        "valid": [("quatre", "four"), ("six", "six")],
        "test": [],
    }
    folders = [
        language(tmp_path / "de", {**german, "raw": [*german["train"], ("zu lang", "x"), ("leer", "")]}),
        language(tmp_path / "fr", {**french, "raw": french["train"]}),
    ]
    out = tmp_path / "both"
    monkeypatch.setattr("sys.argv", ["join", str(out), *map(str, folders)])
    join.main()
    lines = {path.name: path.read_text("utf-8").splitlines() for path in out.glob("*.[me][un]*")}
    assert lines == {
        "train.mul": ["<de> eins", "<de> zwei", "<fr> cinq"], "train.en": ["one", "two", "five"],
        "valid.mul": ["<de> drei", "<fr> six"], "valid.en": ["three", "six"],
        "test.mul": ["<de> vier", "<de> acht"], "test.en": ["four", "eight"],
    }  # fmt: skip
    assert [line.split() for line in capsys.readouterr().out.splitlines()[1:3]] == [
        ["de", "4", "2", "2", "1", "2"], ["fr", "3", "3", "1", "1", "0"],
    ]  # fmt: skip


def test_a_joint_corpus_is_of_its_own_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = {"raw": [], "train": [("a", "b")], "valid": [("c", "d")], "test": [("e", "f")]}
    folder = language(tmp_path / "de", pairs)
    monkeypatch.setattr("sys.argv", ["join", str(tmp_path / "out"), str(folder)])
    join.main()
    # Another held-out page, of which the old corpus knows nothing.
    fetch.write_pairs(folder / "text", "test", "de", [("g", "h")])
    with pytest.raises(
        UserError, match=r"/out was made with another input: text/test\.de; remove it or choose another OUT$"
    ):
        join.main()


def test_joined_lines_end_at_line_feeds_alone(tmp_path: Path) -> None:
    pairs = {"raw": [], "train": [("a\u2028b\x0c", "c\x85d"), ("e", "f")], "valid": [], "test": [("g\r", "h")]}
    join.join([language(tmp_path / "de", pairs)], tmp_path)
    assert (tmp_path / "train.mul").read_bytes().decode() == "<de> a\u2028b\x0c\n<de> e\n"
    assert (tmp_path / "train.en").read_bytes().decode() == "c\x85d\nf\n"
    assert (tmp_path / "test.mul").read_bytes() == b"<de> g\r\n"


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ("more/de", r"^FOLDER must have another name for each language, but 'de' stands 2 times$"),
        ("fr", r"fr/clean\.fr has 2 lines, but .*fr/clean\.en has 1: line n of both must be one pair$"),
        ("it", r"it/clean\.en is empty$"),
    ],
)
def test_languages_that_cannot_be_joined(
    second: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    splits = {name: [(f"{name} ein", f"{name} one"), (f"{name} zwei", f"{name} two")] for name in ("raw", "train")}
    splits |= {"valid": [], "test": []}
    folders = [language(tmp_path / "de", splits), language(tmp_path / second, splits)]
    for name, text in (("fr", "one line\n"), ("it", "")):
        if second == name:
            (folders[1] / "clean.en").write_text(text)
    monkeypatch.setattr("sys.argv", ["join", str(tmp_path / "out"), *map(str, folders)])
    with pytest.raises(UserError, match=message):
        join.main()
    assert not (tmp_path / "out").exists()


def test_missing_packages_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"must have one file libreoffice-help-en-us_\*\.deb, but has 0$"):
        fetch.find_packages(fetch.packages_of("de"), tmp_path, tmp_path)
    for version in (1, 2):
        (tmp_path / f"libreoffice-help-en-us_{version}_all.deb").touch()
    with pytest.raises(UserError, match=r"must have one file libreoffice-help-en-us_\*\.deb, but has 2$"):
        fetch.find_packages(fetch.packages_of("de"), tmp_path, tmp_path)


def test_packages_are_downloaded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/bin:/usr/bin")
    names, cache = fetch.packages_of("de"), tmp_path / "cache"
    answer(tmp_path / "bin" / "apt-get", 'echo "$2" >>"$0.log"; touch "$2_1_all.deb"')
    for _ in range(2):
        found = fetch.find_packages(names, None, cache)
        assert found == {name: cache / f"{name}_1_all.deb" for name in names}
    assert (tmp_path / "bin" / "apt-get.log").read_text("utf-8").split() == names
    assert len(list(cache.iterdir())) == len(names)


def test_failed_downloads_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/bin:/usr/bin")
    answer(tmp_path / "bin" / "apt-get", 'touch half.deb; echo "E: a note\nE: Unable to locate $2" >&2; exit 100')
    message = r"^apt-get download x failed: E: Unable to locate x; has 'apt-get update' been run\?$"
    with pytest.raises(UserError, match=message):
        fetch.find_packages(["x"], None, tmp_path / "cache")
    assert not list((tmp_path / "cache").iterdir())
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UserError, match=r"^apt-get not found; download x from a Debian mirror, and name its folder"):
        fetch.find_packages(["x"], None, tmp_path / "cache")
