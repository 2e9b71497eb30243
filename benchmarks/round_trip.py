"""Count the lines of real text that come back from their tokens, language by language, as a table in Markdown.

    mkdir -p text/debs text/lists/partial && cd text/debs
    apt-get download $(apt-cache search --names-only '^libreoffice-(l10n|help)-' | cut -d' ' -f1)
    for deb in *.deb; do dpkg-deb -x "$deb" ../"${deb%%_*}"; done && cd ..
    apt-get update -c LANGUAGES -o Dir::State::Lists="$PWD/lists"     # LANGUAGES: #clear Acquire::Languages; and a list
    round_trip.py . > table.md

Sources: the interface (.mo) and the help (.html) of LibreOffice, and the translated descriptions of Debian's packages
(lists/*Translation-*). A line is a paragraph, each counted once, that has a letter.
"""

from __future__ import annotations

import argparse
import gettext
import multiprocessing
import re
import subprocess
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from pathlib import Path

from deepnmt.text.lines import clean, whole_text
from deepnmt.text.pipeline import Detokenizer, Tokenizer
from deepnmt.text.settings import TextSettings
from deepnmt.text.units import ATTACHED, SPACED
from deepnmt.text.words import spread

BLOCKS = frozenset(["p", "h1", "h2", "h3", "h4", "h5", "h6", "td", "th", "li", "dt", "dd", "div", "title"])
APT_HELPER = "/usr/lib/apt/apt-helper"


class Paragraphs(HTMLParser):
    """Collects the text of the paragraphs of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found = [""]
        self.hidden = False

    def handle_starttag(self, tag: str, attrs: object) -> None:
        """Begin a paragraph."""
        self.hidden = tag in ("script", "style")
        if tag in BLOCKS:
            self.found.append("")
        elif tag == "br":
            self.found[-1] += " "

    def handle_endtag(self, tag: str) -> None:
        """End it."""
        self.hidden = False
        if tag in BLOCKS:
            self.found.append("")

    def handle_data(self, data: str) -> None:
        """Add to it."""
        if not self.hidden:
            self.found[-1] += data


def interface(folder: Path) -> Iterator[str]:
    """Yield the messages of a language of LibreOffice."""
    for path in sorted(folder.glob("usr/lib/libreoffice/program/resource/*/LC_MESSAGES/*.mo")):
        with path.open("rb") as file:
            messages = vars(gettext.GNUTranslations(file))["_catalog"]
        for key, text in messages.items():
            if key:
                yield from text.replace("~", "").split("\n")


def help_pages(folder: Path) -> Iterator[str]:
    """Yield the paragraphs of LibreOffice's help."""
    for path in sorted(folder.glob("usr/share/libreoffice/help/*/text/**/*.html")):
        parser = Paragraphs()
        parser.feed(whole_text(path, "replace"))
        yield from parser.found


def descriptions(path: Path) -> Iterator[str]:
    """Yield the paragraphs of the descriptions in a list of apt."""
    text = subprocess.run([APT_HELPER, "cat-file", path], capture_output=True, check=True).stdout.decode("utf-8")
    for entry in re.findall(r"^Description-(?!md5)\S+: (.*(?:\n .*)*)", text, re.M):
        summary, *others = entry.split("\n")
        yield summary
        # An empty line is a full stop, and a line that is not to be wrapped begins with two spaces.
        yield from re.split(r"\n(?:\.\n|(?= ))", "\n".join(line[1:] for line in others))


def sources(folder: Path) -> list[tuple[str, str, Path]]:
    """Return the language, the kind and the place of each text."""
    found = [(p.name.split("-", 2)[2], "interface", p) for p in folder.glob("libreoffice-l10n-*")]
    found += [(p.name.split("-", 2)[2], "help", p) for p in folder.glob("libreoffice-help-*")]
    for path in folder.glob("lists/*_main_i18n_Translation-*"):
        name = path.name.split("Translation-")[1].partition(".")[0].replace("%5f", "-").lower()
        found.append((name, "descriptions", path))
    return sorted(found)


def lines_of(kind: str, path: Path, limit: int) -> list[str]:
    """Return the clean lines of a text that have a letter, each once, and at most so many of them, evenly spread."""
    read = {"interface": interface, "help": help_pages, "descriptions": descriptions}[kind]
    lines = dict.fromkeys(line for line in map(clean, read(path)) if any(map(str.isalpha, line)))
    return list(spread(lines, limit or len(lines), len(lines)))


def count(limit: int, source: tuple[str, str, Path]) -> tuple[str, str, int, int, int, int, list[str]]:
    """Return a text's language, kind, number of lines, lines that come back, tokens, marks among these, and faults."""
    language, kind, path = source
    settings = TextSettings("en", language)
    tokenize, detokenize = Tokenizer(settings, language), Detokenizer.of(settings)
    lines = lines_of(kind, path, limit)
    same = tokens = marks = 0
    faults = []
    for line in lines:
        cut = tokenize(line)
        words = cut.split(" ")
        tokens += len(words)
        marks += words.count(ATTACHED) + words.count(SPACED)
        if detokenize(cut) == line:
            same += 1
        else:
            faults.append(line)
    return language, kind, len(lines), same, tokens, marks, faults


def main() -> None:
    """Print the table, and then the lines that do not come back."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="has unpacked packages and lists of apt")
    parser.add_argument("--processes", type=int, default=1, metavar="N")
    parser.add_argument("--lines", type=int, default=5000, metavar="N", help="of each text, at most; 0: all (5000)")
    arguments = parser.parse_args()
    print("| language | source | lines | come back | marks in 100 tokens |\n| --- | --- | --- | --- | --- |")
    with multiprocessing.Pool(arguments.processes) as pool:
        for language, kind, lines, same, tokens, marks, faults in pool.imap(
            partial(count, arguments.lines), sources(arguments.folder)
        ):
            if lines:
                print(f"| {language} | {kind} | {lines:,} | {100 * same / lines:.2f} % | {100 * marks / tokens:.1f} |")
            for fault in faults[:5]:
                print("    " + fault)


if __name__ == "__main__":
    main()
