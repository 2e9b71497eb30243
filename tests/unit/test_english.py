"""The mechanical part of the rule for English holds on every page and in every module of the package."""

from pathlib import Path

import pytest
from support.english import faults, sentences

ROOT = Path(__file__).parent.parent.parent
# A changelog names the past, and results of a day their circumstances.
PAGES = [
    path
    for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md", "benchmarks/*.md")
    for path in sorted(ROOT.glob(pattern))
    if path.name != "CHANGELOG.md"
]
ROOMS = sorted({path.parent for path in (ROOT / "deepnmt").rglob("*.py")})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_have_short_sentences_and_nouns(page: Path) -> None:
    assert faults(page) == []


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: str(room.relative_to(ROOT)))
def test_modules_have_short_sentences_and_nouns(room: Path) -> None:
    found = {path.name: faults(path) for path in sorted(room.glob("*.py"))}
    assert {name: each for name, each in found.items() if each} == {}


def test_faults_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# Title\n\nIt is {'very ' * 23}long.\n\nRun what is there.\n\n```\nwhat is code\n```\n")
    assert [fault.partition(": ")[0] for fault in faults(page)] == ["3", "5"]
    module = tmp_path / "module.py"
    module.write_text('"""Return those of `what is`."""\n\nadd("--x", help="what is added")\nwhat = "what is data"\n')
    assert [fault.partition(": ")[2] for fault in faults(module)] == [
        "'those of': Return those of X.",
        "'what is': what is added",
    ]


def test_code_and_links_are_one_word_or_their_text() -> None:
    assert sentences("Use `deepnmt train --lr 1`. See [a page](docs/page.md)!") == ["Use X.", "See a page!"]
