"""Text files are read in one place, without a byte order mark, and written as UTF-8."""

from __future__ import annotations

import ast
import codecs
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.flow import SCRIPTS

from deepnmt.corpus.cleaning.corpus_index import FileIndex, Header
from deepnmt.corpus.cleaning.filter_recipe import read_recipe as read_filters
from deepnmt.corpus.ngram import arpa
from deepnmt.errors import UserError
from deepnmt.recipe import read_recipe
from deepnmt.text.dictionary import read_types
from deepnmt.text.lines import count_lines, decode_lines, read_lines, read_text, whole_text
from deepnmt.text.nbest import read_nbest
from deepnmt.text.record import read_record
from deepnmt.text.subwords import Bpe, check_codes, kind_of, read_vocabulary
from deepnmt.text.terms import read_terms
from deepnmt.text.truecase import Truecaser
from deepnmt.text.unigram import Unigram
from deepnmt.text.units import read_patterns

ROOT = SCRIPTS.parent
ARPA = "\\data\\\nngram 1=3\n\n\\1-grams:\n-1\t<unk>\n-1\t<s>\n-1\t</s>\n\n\\end\\\n"
# What is read of each kind of file: the same with a byte order mark as without one.
READERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "lines": ("äb\nc\n", lambda path: list(read_lines(path))),
    "text": ("äb\nc\n", read_text),
    "whole text": ("äb\nc\n", whole_text),
    "standard input": ("äb\nc\n", lambda path: list(decode_lines(path.read_bytes().splitlines(True), "-"))),
    "chunks": ("äb\nc\n", lambda path: FileIndex.of(path, 1).read(0)),
    "chunks of text": ("äb\nc\n", lambda path: FileIndex.of(path, 1).read_text(0)),
    "patterns": ("AB\\d\n", read_patterns),
    "terms": ("Hund\tdog\n", lambda path: read_terms(path, str, str)),
    "recipe": ("arch: transformer\n", lambda path: list(read_recipe(path))),
    "filters": ("length 1:100\n", lambda path: [each.label for each in read_filters(path)[0]]),
    "merges": ("#version: 0.2\na b</w>\n", lambda path: (kind_of(path), check_codes(path), Bpe(path)("ab"))),
    "pieces": ("#unigram\nab</w>\t-1\n", lambda path: (kind_of(path), Unigram.read(path).log_probs)),
    "vocabulary": ("ab\nc@@\n", read_vocabulary),
    "true case": ("Das (1/1)\n", lambda path: Truecaser(path).best),
    "n-best list": ("0\t1\ta\tmodel=-1\n", read_nbest),
    "scores": ("one\ttwo\n1\t2\n", lambda path: Header.of(path).names),
    "record": ('{"a": 1}\n', read_record),
    "ARPA": (ARPA, lambda path: arpa.read(path).words),
}


@pytest.mark.parametrize("kind", READERS)
def test_a_byte_order_mark_is_no_part_of_a_first_line(tmp_path: Path, kind: str) -> None:
    text, read = READERS[kind]
    plain, marked, other = tmp_path / "plain.yaml", tmp_path / "marked.yaml", tmp_path / "other.yaml"
    plain.write_text(text, "utf-8")
    marked.write_text(text, "utf-8-sig")
    other.write_text(text, "utf-16")
    assert marked.read_bytes().startswith(codecs.BOM_UTF8)
    assert read(marked) == read(plain)
    with pytest.raises(UserError, match="must be UTF-8, but has the byte order mark of UTF-16 or UTF-32"):
        read(other)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_other_marks_are_refused(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "text"
    path.write_bytes("\ufeffäb\n".encode(encoding))
    for read in (count_lines, read_text, whole_text):
        with pytest.raises(
            UserError, match=f"^{path}: must be UTF-8, but has the byte order mark of UTF-16 or UTF-32$"
        ):
            read(path)


def test_a_mark_within_a_file_stays(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("a\n\ufeffb\n", "utf-8")
    assert list(read_lines(tmp_path / "text")) == ["a\n", "\ufeffb\n"]


def test_a_dictionary_with_a_mark_is_refused_since_fairseq_reads_it_itself(tmp_path: Path) -> None:
    (tmp_path / "dict.de.txt").write_text("a 1\n", "utf-8-sig")
    with pytest.raises(UserError, match=r"dict\.de\.txt:1: must be a type and its count, but begins with a byte order"):
        read_types(tmp_path / "dict.de.txt")


# Names before `.open` that open no text, or not by an encoding.
NO_TEXT = {"os", "tarfile", "Image", "ModelFolder"}
# An installation cannot import the package yet.
READERS_OF_FILES = (ROOT / "deepnmt" / "text" / "lines.py", ROOT / "setup.py")


def faults_of(source: str, reads: bool = False) -> Iterator[str]:
    """Yield what opens text in Python code otherwise than it must; `reads`: text files may be opened to read."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        owner = ast.unparse(node.func.value) if isinstance(node.func, ast.Attribute) else ""
        words = {word.arg: ast.unparse(word.value).strip("'\"") for word in node.keywords}
        given = [ast.unparse(each).strip("'\"") for each in node.args]
        utf8 = "utf-8" in (words.get("encoding"), *given)
        if name in ("open", "fdopen") and owner not in NO_TEXT:
            mode = words.get("mode") or next((each for each in given if re.fullmatch(r"[rwax][bt+]{0,2}", each)), "r")
            if "b" not in mode and not (owner == "gzip" and mode == "r"):
                if "w" in mode or "a" in mode or "x" in mode:
                    if not utf8:
                        yield f"{node.lineno}: writes text without encoding"
                elif not reads:
                    yield f"{node.lineno}: opens a text file to read"
        elif name == "read_text" and owner and (not given or utf8 or words) and not (reads and utf8):
            yield f"{node.lineno}: reads a text file"
        elif name == "write_text" and owner and not utf8:
            yield f"{node.lineno}: writes text without encoding"
        elif name in ("TextIOWrapper", "NamedTemporaryFile", "TemporaryFile") and not utf8:
            if name == "TextIOWrapper" or any("b" not in mode for mode in [words.get("mode", "b")]):
                yield f"{node.lineno}: opens text without encoding"
        elif name == "splitlines" and owner.startswith("whole_text("):
            yield f"{node.lineno}: ends a line of a file where it does not end"
        elif name in ("loadtxt", "genfromtxt", "fromregex"):
            yield f"{node.lineno}: reads a text file"
        elif words.keys() & {"text", "universal_newlines"} and not utf8 and owner == "subprocess":
            yield f"{node.lineno}: takes a command's text without encoding"


def sources() -> list[Path]:
    folders = ("deepnmt", "scripts", "examples", "benchmarks")
    return [ROOT / "setup.py", *(path for folder in folders for path in sorted((ROOT / folder).rglob("*.py")))]


def test_all_text_files_are_read_by_one_module_and_written_as_utf8() -> None:
    found = {
        f"{path.relative_to(ROOT)}:{fault}"
        for path in sources()
        for fault in faults_of(whole_text(path), reads=path in READERS_OF_FILES)
    }
    assert not found
    assert len(sources()) > 300


@pytest.mark.parametrize(
    "code",
    [
        "open(path)", "open(path, 'r')", "open(path, 'w')", "path.open()", "path.open('w')", "path.open('a')",
        "path.open('w', encoding='latin-1')", "path.open(encoding='utf-8')", "path.read_text()", "x.write_text(text)",
        "path.read_text('utf-8')", "path.write_text(text, encoding='ascii')", "os.fdopen(3, 'w')", "open(1, mode='w')",
        "subprocess.run(command, text=True)", "subprocess.Popen(command, universal_newlines=True)",
        "io.TextIOWrapper(file)", "np.loadtxt(path)", "tempfile.NamedTemporaryFile(mode='w')", "gzip.open(path, 'wt')",
        "whole_text(path).splitlines()", "whole_text(path, 'replace').splitlines(keepends=True)",
    ],
)  # fmt: skip
def test_the_search_finds(code: str) -> None:
    fault = list(faults_of(code.replace("os.fdopen", "io.fdopen")))
    assert fault, code


@pytest.mark.parametrize(
    "code",
    [
        "open(path, 'rb')", "path.open('wb')", "path.open('w', encoding='utf-8')", "path.write_text(text, 'utf-8')",
        "subprocess.run(command, text=True, encoding='utf-8')", "index.read_text(chunk)", "gzip.open(path)",
        "whole_text(path).split(sep)", "str(error).splitlines()",
    ],
)  # fmt: skip
def test_the_search_leaves(code: str) -> None:
    assert not list(faults_of(code))


def test_python_in_shell_scripts_opens_bytes() -> None:
    lines = [
        line
        for folder in ("scripts", "examples", "benchmarks", ".ci")
        for path in (ROOT / folder).rglob("*")
        if path.suffix == ".sh" or path.name == "run"
        for line in read_lines(path)
        if re.search(r"\bopen\(|read_text|write_text", line)
    ]
    assert lines
    assert all('open(sys.argv[1], "rb")' in line for line in lines)


def test_json_of_earlier_versions_is_read_in_any_case(tmp_path: Path) -> None:
    (tmp_path / "preprocess.json").write_bytes(codecs.BOM_UTF8 + json.dumps({"ä": 1}).encode())
    assert read_record(tmp_path / "preprocess.json") == {"ä": 1}
