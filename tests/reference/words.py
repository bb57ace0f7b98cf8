"""Count the pages of docs/ and their words, and the habits of their sentences: `python -m tests.reference.words`.

Words are those of prose and tables: code blocks, comments and the generated parts of a page do not count. A page of
which most words are generated is counted apart, and so is a page that a command writes as a whole. A habit is a pattern
that is easy to count and mostly wrong. `--show HABIT` prints the places.
"""

import argparse
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tests.functional.machine import ROOT
from tests.reference.pages import MARK

DOCS = ROOT / "docs"
WRITTEN_BY_A_COMMAND = ("explanation/real-models.md",)

HABITS = {
    "has or have for contains, lists, shows": r"\b(?:has|have) (?:the|a|an|all|no|one|its|their)\b",
    "that it, the, you (a clause for a noun)": r"\bthat (?:it|the|you|they|its)\b",
    "that of, those of": r"\b(?:that|those) of\b",
    "alone, anyway, else, beside, as long as": r"\b(?:alone|anyway|else|beside|as long as)\b",
    "says, decides, gives (an abstract subject)": (
        r"\b(?:says?|decides?|gives?|gets?) (?:so|what|how|which|whether|the|it|if|why)\b"
    ),
    "the source": r"\bthe source\b",
    "is no, are no, is not so": r"\b(?:is|are) no\b|\bis not so\b",
    "a semicolon": r";(?=\s)",
}
"""The habits of the project's sentences, and the pattern that counts each."""

GROUPS = ("users", "development", "generated")


class Page(NamedTuple):
    """A page of the documentation, with the words that a person wrote and those that the code generates."""

    path: str
    group: str
    text: str
    written: int
    generated: int


def read_pages() -> Iterator[Page]:
    """Yield every Markdown page of docs/, in the order of their paths."""
    for path in sorted(DOCS.rglob("*.md")):
        whole = path.read_text(encoding="utf-8")
        text = _prose_of(MARK.sub("", whole))
        generated = sum(_count(mark[0]) for mark in MARK.finditer(whole))
        name = str(path.relative_to(DOCS))
        is_generated = generated > _count(text) or name in WRITTEN_BY_A_COMMAND
        group = "generated" if is_generated else "development" if name.startswith("development/") else "users"
        yield Page(name, group, text, _count(text), generated)


def _prose_of(text: str) -> str:
    """Return a page without code blocks, comments, and the targets of links and pictures."""
    text = re.sub(r"^( *)(`{3,}).*?^\1\2$", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    return re.sub(r"\]\([^)]*\)", "]", text)


def _count(text: str) -> int:
    return len(re.findall(r"\S*\w\S*", text))


def sizes(pages: Sequence[Page]) -> dict[str, tuple[int, int]]:
    """Return the number of pages and of hand-written words for each group."""
    groups = {group: [page for page in pages if page.group == group] for group in GROUPS}
    return {group: (len(found), sum(page.written for page in found)) for group, found in groups.items()}


def habits(pages: Sequence[Page]) -> Counter[str]:
    """Return how often each habit occurs in the hand-written text of all pages."""
    return Counter({name: sum(len(list(places(page, name))) for page in pages) for name in HABITS})


def places(page: Page, habit: str) -> Iterator[str]:
    """Yield the places of a habit on a page, each with the words around it."""
    text = " ".join(page.text.split())
    for found in re.finditer(HABITS[habit], text, re.IGNORECASE):
        yield text[max(0, found.start() - 50) : found.end() + 50]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description="Count pages, words and habits of docs/.")
    parser.add_argument("--pages", action="store_true", help="print the words of each page too")
    parser.add_argument("--show", metavar="HABIT", help="print the places of the habits whose name contains this")
    options = parser.parse_args(arguments)
    pages = list(read_pages())
    for group, (number, words) in sizes(pages).items():
        print(f"{group:12} {number:3} pages {words:7,} hand-written words")
        if options.pages:
            for page in sorted((page for page in pages if page.group == group), key=lambda page: -page.written):
                print(
                    f"  {page.written:6,} {page.path}" + (f" (+ {page.generated:,} generated)" * bool(page.generated))
                )
    print()
    for habit, number in habits(pages).items():
        print(f"{number:5}  {habit:45} {HABITS[habit]}")
    if options.show is not None:
        for page in pages:
            for habit in HABITS:
                if options.show in habit:
                    for place in places(page, habit):
                        print(f"{page.path}: … {place} …")


if __name__ == "__main__":
    main()
