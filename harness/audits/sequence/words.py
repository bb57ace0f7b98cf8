"""Words of texts.

A word is a run of characters without whitespace, as Unicode defines it. Text in a script that has no spaces between
words must be split into words before.
"""

import re
import unicodedata
from collections.abc import Iterable
from enum import StrEnum
from itertools import islice

_WORD = re.compile(r"\S+")
_IDEOGRAPHS = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
"""Chinese characters and Japanese kana, whose words have one to four."""
_SYLLABLES = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]")
"""Thai, Lao, Burmese and Khmer."""
_MAX_IDEOGRAPHS, _MAX_SYLLABLES = 4, 8
"""Characters of a word, on average, in text that is split into words."""


class WordForm(StrEnum):
    """The form in which the thresholds compare words."""

    STRIPPED = "stripped"
    """Punctuation at both ends of a word is removed, as in the source's trigrams."""
    VERBATIM = "verbatim"
    FOLDED = "folded"
    """Punctuation at both ends of a word is removed, and letters are in lower case."""


def words_of(text: str) -> list[str]:
    """Return the words of `text` in order."""
    return _WORD.findall(text)


def compared_words(text: str, form: WordForm) -> list[str]:
    """Return the words of `text` in the form in which thresholds compare them."""
    words = words_of(text)
    if form is WordForm.VERBATIM:
        return words
    stripped = filter(None, map(_without_punctuation, words))
    return [word.casefold() for word in stripped] if form is WordForm.FOLDED else list(stripped)


def _without_punctuation(word: str) -> str:
    """Return `word` without characters of Unicode's category P at both ends."""
    kept = [place for place, character in enumerate(word) if not unicodedata.category(character).startswith("P")]
    return word[kept[0] : kept[-1] + 1] if kept else ""


def lacks_spaces(texts: Iterable[str]) -> bool:
    """Return True if most words are longer than words are in their script, which has no spaces between words."""
    words = [word for text in texts for word in words_of(text)]
    for characters, max_length in ((_IDEOGRAPHS, _MAX_IDEOGRAPHS), (_SYLLABLES, _MAX_SYLLABLES)):
        counts = [count for word in words if (count := len(characters.findall(word)))]
        if 2 * len(counts) > len(words) and sum(counts) > max_length * len(counts):
            return True
    return False


def word_spans(text: str, max_words: int | None = None) -> list[tuple[int, int]]:
    """Return the first character and the one after the last, for each of the first `max_words` words of `text`."""
    return [word.span() for word in islice(_WORD.finditer(text), max_words)]


def first_words(text: str, number: int) -> str:
    """Return `text` up to the end of its `number`-th word, with its whitespace unchanged."""
    spans = word_spans(text, number)
    return text[: spans[-1][1]] if spans else ""
