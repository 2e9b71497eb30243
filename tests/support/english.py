"""The mechanical part of the rule for English: short sentences, and a noun where one exists.

    python -m tests.support.english FILE...       # lists the faults of pages and modules

Of a page all prose counts, tables by their cells; of a module docstrings, help texts and messages of errors.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

LONGEST = 25  # words of a sentence
WORDY = re.compile(
    r"\b(what (?:is|are|was|were|it|they|he|one|a|an|the|has|have|does|do|each|no|this|that|follows|comes|belongs)"
    r"|those (?:of|that|who|which|with|in|for)|that of|of which|(?:is|are|has|have) none|so many)\b",
    re.IGNORECASE,
)
TEXTS = ("DESCRIPTION", "EPILOG", "USAGE", "HELP")


def faults(path: Path) -> list[str]:
    """Return the faults of a page (.md) or a module (.py), each as LINE: fault."""
    text = path.read_text("utf-8")
    found = []
    for line, paragraph in page(text) if path.suffix == ".md" else module(text):
        for sentence in sentences(paragraph):
            words = len(re.findall(r"[^\W\d_][\w'-]*", sentence))
            if words > LONGEST:
                found.append(f"{line}: {words} words: {sentence}")
            found += [f"{line}: '{phrase}': {sentence}" for phrase in WORDY.findall(sentence)]
    return found


def sentences(paragraph: str) -> list[str]:
    """Return the sentences of a paragraph; code counts as one word, a link as its text."""
    text = re.sub(r"`[^`]*`", "X", paragraph)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return [" ".join(each.split()) for each in re.split(r"(?<=[.!?])[)\"'*]*\s+|:\s+(?=\n|[-*] )", text)]


def page(text: str) -> Iterator[tuple[int, str]]:
    """Yield the paragraphs, items and cells of a page, with their lines."""
    paragraph: list[str] = []
    start, code = 1, False
    for number, line in enumerate([*text.splitlines(), ""], 1):
        if line.lstrip().startswith("```"):
            code = not code
        begins = re.match(r"\s*([-*|#]|\d+\.\s|$|```)", line)
        if (begins or code) and paragraph:
            yield start, " ".join(paragraph)
            paragraph = []
        if code or line.lstrip().startswith("```"):
            continue
        if line.startswith("|"):
            yield from ((number, cell.strip()) for cell in re.split(r"(?<!\\)\|", line.strip("|")))
        elif line.strip():
            start = start if paragraph else number
            paragraph.append(re.sub(r"^\s*([-*#]+|\d+\.)\s", "", line))


def module(text: str) -> Iterator[tuple[int, str]]:
    """Yield the paragraphs of a module's docstrings, help texts and messages, with their lines."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            docstring = ast.get_docstring(node)
            line = node.body[0].lineno if docstring else 0
            yield from paragraphs(docstring or "", line)
        elif isinstance(node, ast.keyword) and node.arg in ("help", "description", "epilog"):
            yield from paragraphs(shown(node.value), node.value.lineno)
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "UserError":
            for argument in node.args:
                yield from paragraphs(shown(argument), argument.lineno)
        elif isinstance(node, ast.Assign) and any(getattr(each, "id", "") in TEXTS for each in node.targets):
            yield from paragraphs(shown(node.value), node.value.lineno)


def shown(node: ast.expr) -> str:
    """Return a literal's text, with X for what is inserted; nothing for another expression."""
    if isinstance(node, ast.JoinedStr):
        return "".join(shown(part) if isinstance(part, ast.Constant) else "X" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def paragraphs(text: str, line: int) -> Iterator[tuple[int, str]]:
    """Yield the paragraphs and items of a docstring; indented blocks are code, formulas or drawings."""
    for paragraph in re.split(r"\n\s*\n", text):
        if not re.match(r" {4}", paragraph):
            for item in re.split(r"\n(?=\s*(?:- |\w+: ))", paragraph):
                yield line, re.sub(r"^\s*- ", "", item)
        line += paragraph.count("\n") + 2


if __name__ == "__main__":
    bad = [f"{name}:{fault}" for name in sys.argv[1:] for fault in faults(Path(name))]
    print("\n".join(bad))
    sys.exit(bool(bad))
