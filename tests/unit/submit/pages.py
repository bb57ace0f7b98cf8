"""Parse a page into its elements, ids and words."""

from collections import Counter
from html.parser import HTMLParser

VOID = {"meta", "link", "br", "img", "input", "hr"}


class ParsedPage(HTMLParser):
    """The elements of a page. Unbalanced tags fail the test."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.ids: Counter[str] = Counter()
        self.attributes: list[tuple[str, str]] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(name, value or "") for name, value in attrs]
        self.ids.update(value for name, value in attrs if name == "id" and value is not None)
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        """The words, with an ordinary space before each percent sign."""
        return "".join(self.words).replace("\u00a0", " ")


def parsed_page(text: str) -> ParsedPage:
    return ParsedPage(text)
