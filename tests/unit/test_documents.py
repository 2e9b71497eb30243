"""The documents hold: what they cite, name or link to exists. Nothing here imports fairseq; its source is read."""

from __future__ import annotations

import io
import itertools
import re
import tokenize
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from deepnmt.options.option_table import SEARCHES, option

ROOT = Path(__file__).parent.parent.parent
PAGES = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md", "benchmarks/**/*.md")
    for path in ROOT.glob(pattern)
    if path.name != "CHANGELOG.md"
)
# Results of a day name the files and options of that day.
LIVING = [page for page in PAGES if "results" not in page.parts]
FOLDERS = ("deepnmt", "scripts", "configs", "docs", "examples", "benchmarks", "findings", "tests")
FILES = [path.relative_to(ROOT) for name in FOLDERS for path in (ROOT / name).rglob("*") if path.is_file()]
FILES += [path.relative_to(ROOT) for path in ROOT.iterdir() if path.is_file()]

METHODS = (ROOT / "docs" / "methods.md").read_text("utf-8")
SECTIONS = [int(number) for number in re.findall(r"^## (\d+) ", METHODS, re.MULTILINE)]
# Pages beside methods.md may define equations with further numbers.
EQUATIONS = [
    int(number)
    for page in sorted((ROOT / "docs").glob("*.md"))
    for number in re.findall(r" {2}\((\d+)\)$", page.read_text("utf-8"), re.MULTILINE)
]

# Files of fairseq's, which pages compare with.
THEIRS = r"fairseq/.*|prepare-iwslt14\.sh|test_binaries\.py|prepare-wmt14en2de\.sh|compound_split_bleu\.sh"
# Scripts and recipes of finished studies, which pages with results name beside the tag that has them.
STUDIES, TAG = ("text", "search", "synthetic", "distil", "progressive", "glossary", "faults"), "`studies-0.2`"
FINISHED = rf"(?:examples/multi30k/)?(?:{'|'.join(STUDIES)})\.(?:sh|py)"
FINISHED += r"|configs/multi30k/(?:tiny_4k_simcut|(?:pre|post)_no_warmup)\.yaml"
# Options of pip, torchrun, sbatch, pytest, tensorboard, sacrebleu, fairseq-score, the published DLCL code, FINISHED.
OTHERS = """
    no-build-isolation nnodes node-rank nproc-per-node master-addr master-port max-restarts nodes gpus-per-node logdir
    icml17 array wrap requeue strict normalize-learned-weight history-window-size tokenize smooth-method force
    paired-bs paired-bs-n sentence-bleu ignore-case broken more r2l lm error-sentences
"""

# Files and options of worked examples.
EXTENDING = (ROOT / "docs" / "extending.md").read_text("utf-8")
EXAMPLES = re.findall(r"^`([\w/]+\.py)`, new:", EXTENDING, re.MULTILINE)


def option_fields(text: str) -> list[str]:
    """Return the options that the dataclasses of a text define."""
    return [f"--{name.replace('_', '-')}" for name in re.findall(r"^ {4}(\w+): .*=", text, re.MULTILINE)]


def comments(path: Path) -> str:
    """Return what a source file says to its readers: comments and, in Python, strings."""
    text = path.read_text("utf-8")
    if path.suffix == ".py":
        wanted = (tokenize.COMMENT, tokenize.STRING)
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        return "\n".join(token.string for token in tokens if token.type in wanted)
    return "\n".join(re.findall(r"#.*", text))


def citations() -> Iterator[tuple[str, str, int]]:
    """Yield each citation of `docs/methods.md`: where it stands, "section" or "equation", and the number."""
    sources = [path for path in FILES if path.suffix in (".py", ".sh", ".yaml") and path.parts[0] != "tests"]
    texts = [(path, comments(ROOT / path)) for path in sources]
    texts += [(page.relative_to(ROOT), page.read_text("utf-8")) for page in LIVING]
    for path, text in texts:
        for number in re.findall(r"(?<![\w\])`'\"])\(([1-9]\d?)\)(?!\()", text):
            yield str(path), "equation", int(number)
        for number in re.findall(r"(?:\b[Mm]ethods\W{1,4}|\b[Ss]ections? )(\d+)(?![\d.])", text):
            yield str(path), "section", int(number)


def code(page: Path) -> Iterator[str]:
    """Yield the code of a page: each line of its blocks, and each span."""
    text = page.read_text("utf-8")
    blocks = re.findall(r"^```.*?\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    yield from "\n".join(blocks).splitlines()
    yield from re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))


def words(page: Path) -> Iterator[str]:
    """Yield the words of a page's code, with {a,b} expanded as the shell does."""
    for line in code(page):
        for word in line.split():
            parts = [part.split(",") for part in re.split(r"[{}]", word)] if word.count("{") == 1 else [[word]]
            yield from map("".join, itertools.product(*parts))


def option_names() -> set[str]:
    """Return the options of fairseq, of the package and of the scripts, as their source names them."""
    fairseq = find_spec("fairseq")
    assert fairseq is not None
    assert fairseq.origin is not None
    root = Path(fairseq.origin).parent
    sources = [*(ROOT / name for name in FILES if name.suffix in (".py", ".sh") and name.parts[0] != "tests")]
    sources += [path for path in root.rglob("*.py") if path.parts[-2] != "examples"]
    result = {*(f"--{name}" for name in OTHERS.split()), *option_fields(EXTENDING)}
    result |= {option(name) for name in (*SEARCHES, *re.findall(r'"(\w+)": Row\(', EXTENDING))}
    for path in sources:
        text = path.read_text("utf-8")
        result |= {prefix + name[2:] for name in option_fields(text) for prefix in ("--", "--encoder-", "--decoder-")}
        for named in re.findall(r"--[a-z][\w{}-]*", text):
            result |= {named.replace("{stack}", stack) for stack in ("encoder", "decoder")}
    return result


def test_sections_and_equations_are_numbered_once_each() -> None:
    assert list(range(1, len(SECTIONS) + 1)) == SECTIONS
    assert len(SECTIONS) >= 13
    assert sorted(EQUATIONS) == list(range(1, len(EQUATIONS) + 1))
    assert len(EQUATIONS) >= 22


def test_every_citation_of_the_methods_leads_to_its_section_or_equation() -> None:
    found = list(citations())
    known = {"section": SECTIONS, "equation": EQUATIONS}
    assert [cited for cited in found if cited[2] not in known[cited[1]]] == []
    # What the patterns must see: a docstring, a recipe, a page.
    assert ("deepnmt/model/dlcl.py", "equation", 6) in found
    assert ("deepnmt/model/groups.py", "section", 3) in found
    assert ("configs/depth/admin.yaml", "equation", 14) in found
    assert ("docs/progressive.md", "section", 11) in found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_pictures_exist(page: Path) -> None:
    targets = [target.partition("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8"))]
    local = [target for target in targets if target and "://" not in target]
    # The site of docs, unlike a repository's pages, has no folders to lead to.
    wanted = Path.is_file if "docs" in page.parts else Path.exists
    assert [target for target in local if not wanted(page.parent / target)] == []


@pytest.mark.parametrize("page", LIVING, ids=lambda page: str(page.relative_to(ROOT)))
def test_paths_that_a_page_names_exist(page: Path) -> None:
    names = {word.strip("`'\"().,:;") for word in words(page)}.difference(EXAMPLES)
    if TAG in page.read_text("utf-8"):
        names = {name for name in names if not re.fullmatch(FINISHED, name)}
    paths = [
        name for name in names if re.match(rf"(?:{'|'.join(FOLDERS)})/", name) and not re.search(r"[A-Z]{3}|\$", name)
    ]
    paths = [name.partition("::")[0] for name in paths]
    assert [name for name in paths if not any(ROOT.glob(name.rstrip("/")))] == []
    files = [name for name in names if re.fullmatch(r"[\w/-]+\.(py|sh|sbatch)", name) and name not in paths]
    files = [name for name in files if not re.fullmatch(THEIRS, name)]
    known = [f"/{path}" for path in FILES]
    assert [name for name in files if not any(path.endswith(f"/{name}") for path in known)] == []


@pytest.mark.parametrize("page", LIVING, ids=lambda page: str(page.relative_to(ROOT)))
def test_modules_that_a_page_names_exist(page: Path) -> None:
    for line in code(page):
        for name in re.findall(r"\bdeepnmt(?:\.[a-z_]+)+\b(?!\.\w)", line):
            path = ROOT / name.replace(".", "/")
            found = [path, path.parent]
            assert any(each.is_dir() or each.with_suffix(".py").is_file() for each in found), f"{page.name}: {name}"


def test_options_that_the_pages_name_exist() -> None:
    known = option_names()
    named = {
        (page.name, word)
        for page in LIVING
        for line in code(page)
        for word in re.findall(r"(?<![\w-])--[a-z][\w-]+", line)
    }
    assert {(page, option) for page, option in named if option not in known and not option.endswith("-")} == set()
    assert ("methods.md", "--encoder-groups") in named


def test_commands_that_the_pages_name_are_installed() -> None:
    installed = set(re.findall(r'"(deepnmt-[a-z-]+) = ', (ROOT / "setup.py").read_text("utf-8")))
    named = {
        word
        for page in LIVING
        for line in code(page)
        for word in re.findall(r"(?<![\w./-])deepnmt-[a-z]+(?:-[a-z]+)*", line)
    }
    assert named <= installed


def test_subcommands_that_the_pages_name_exist() -> None:
    table = (ROOT / "deepnmt" / "cli" / "__init__.py").read_text("utf-8")
    known = set(re.findall(r'^    "([a-z-]+)": Subcommand\(', table, re.MULTILINE))
    named = {
        (page.name, name)
        for page in LIVING
        for name in re.findall(r"(?<![\w-])deepnmt ([a-z][a-z-]*)", "\n".join(code(page)))
    }
    assert {(page, name) for page, name in named if name not in known} == set()
    assert ("README.md", "translate") in named


def test_architectures_that_the_pages_name_are_registered() -> None:
    folder = ROOT / "deepnmt" / "model"
    registered = set(re.findall(r'"([a-z_0-9]+)"', (folder / "architectures.py").read_text("utf-8")))
    registered |= set(re.findall(r"\{NAME\}_([a-z]+)", (folder / "other_decoders.py").read_text("utf-8")))
    named = {
        name for page in LIVING for line in code(page) for name in re.findall(r"dlcl_transformer_([a-z0-9_]+)", line)
    }
    assert {
        name for name in named if {name, re.sub(r"_(iwslt_de_en|wmt_en_de)$", "", name)}.isdisjoint(registered)
    } == set()
    assert "wmt_en_de" in named


def test_each_surprise_is_held_by_a_test() -> None:
    lines = (ROOT / "docs" / "surprises.md").read_text("utf-8").splitlines()
    rows = [re.split(r"(?<!\\)\|", line.strip().strip("|")) for line in lines if line.startswith("|")][2:]
    assert len(rows) >= 7
    assert [row[0] for row in rows if len(row) != 4 or not re.search(r"\d", row[0])] == []
    named = [re.findall(r"`(tests/[\w/.-]+\.py)(?:::(\w+))?`", row[3]) for row in rows if len(row) == 4]
    assert all(named)
    tests = [test for found in named for test in found]
    lost = [
        (path, name)
        for path, name in tests
        if not (ROOT / path).is_file()
        or (name and not re.search(rf"^def {name}\(", (ROOT / path).read_text("utf-8"), re.M))
    ]
    assert lost == []


def test_each_finding_is_listed_once() -> None:
    listed = re.findall(r"^- `(\w+\.sh)`: ", (ROOT / "docs" / "surprises.md").read_text("utf-8"), re.M)
    assert listed == sorted(path.name for path in (ROOT / "findings").iterdir())


@pytest.mark.parametrize("page", LIVING, ids=lambda page: page.name)
def test_rows_stand_in_tables(page: Path) -> None:
    text = re.sub(r"^( *)```.*?^ *```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    blocks = re.findall(r"(?:^ *\|.*\n)+", text, re.MULTILINE)
    tables = [[len(re.findall(r"(?<!\\)\|", row)) for row in block.splitlines()] for block in blocks]
    heads = [re.fullmatch(r"[|: -]+", block.splitlines()[1]) for block in blocks if block.count("\n") > 1]
    assert len(heads) == len(blocks)
    assert all(heads)
    assert all(len(set(columns)) == 1 for columns in tables)


def test_readme_lines_are_short() -> None:
    text = re.sub(r"^```.*?^```", "", (ROOT / "README.md").read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    assert [line for line in text.splitlines() if len(line) > 100 and not line.startswith("|")] == []
