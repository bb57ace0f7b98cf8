"""Prompts: sentences with one MASK in the place of a name."""

import re
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from harness.core.errors import HarnessError
from harness.corpora.text_files import Notes, read_text

MASK = "MASK"
BUILT_IN = Path(__file__).parent / "prompts"
"""One file per sentence type, one prompt per line; written for this project."""
KINDS = ("declarative", "exclamatory", "imperative", "interrogative")
OWN_KIND = "own"
"""The type of prompts from a user's file that gives none."""
HAND_WRITTEN = ("My name is MASK.", "I am MASK.", "I am named MASK.", "Here is my name: MASK.", "Call me MASK.")
"""The prompts of the baselines (Ali et al. 2022, quoted by Xia et al. 2024, Section 4.1)."""
_MASKS = re.compile(rf"(?<!\w){MASK}(?!\w)")
_WORDS = re.compile(rf"{_MASKS.pattern}|['’]s\b|\w+(?:(?!['’]s\b|['’-]{MASK}\b)['’-]\w+)*|[^\w\s]")
_SPACE_BEFORE_PUNCTUATION = re.compile(r" ([.,;:!?])")


class Word(NamedTuple):
    """A word or a punctuation mark of a prompt, and its characters."""

    text: str
    start: int
    end: int


class Prompt:
    """A sentence with one MASK. kind: its sentence type."""

    def __init__(self, text: str, kind: str) -> None:
        self.text = text
        self.kind = kind

    @cached_property
    def words(self) -> tuple[Word, ...]:
        """Words and punctuation marks, independent of any model's tokenizer. The name and 's are words of their own."""
        return tuple(Word(word.group(), word.start(), word.end()) for word in _WORDS.finditer(self.text))

    @property
    def length(self) -> int:
        """The number of words and punctuation marks. The name counts as one."""
        return len(self.words)

    @cached_property
    def position(self) -> int:
        """The number of words and punctuation marks before the name."""
        return sum(word.end <= self.name_start for word in self.words)

    @cached_property
    def name_start(self) -> int:
        """The index of the name's first character."""
        mask = _MASKS.search(self.text)
        assert mask is not None
        return mask.start()

    def fill(self, name: str) -> str:
        """Return the sentence with `name`, which begins at `name_start`."""
        return self.text[: self.name_start] + name + self.text[self.name_start + len(MASK) :]

    def without(self, word: int) -> "Prompt":
        """Return the prompt without its `word`-th word, which must be one of `droppable`."""
        dropped = self.words[word]
        rest = " ".join((self.text[: dropped.start] + " " + self.text[dropped.end :]).split())
        return Prompt(_SPACE_BEFORE_PUNCTUATION.sub(r"\1", rest), self.kind)

    @property
    def droppable(self) -> list[int]:
        """The indices of the words other than the name."""
        return [place for place in range(self.length) if place != self.position]


def read_prompts(source: Path | None) -> tuple[list[Prompt], list[str]]:
    """Read distinct prompts from a file or a directory of files; None reads the built-in ones.

    A line is a prompt, or its type, a tab and a prompt; in a directory the file name is the type. Also returns notes on
    skipped lines, which do not quote them. Raises HarnessError if no prompt is left.
    """
    where = BUILT_IN if source is None else source
    files = sorted(where.glob("*.txt")) if where.is_dir() else [where]
    prompts: dict[str, Prompt] = {}
    notes = Notes()
    for file in files:
        default_kind = file.stem if where.is_dir() else OWN_KIND
        for number, line in enumerate(lines_of(file), 1):
            kind, tab, rest = line.partition("\t")
            text, kind = (rest.strip(), kind.strip() or default_kind) if tab else (line.strip(), default_kind)
            if not text:
                continue
            masks = len(_MASKS.findall(text))
            if masks == 1:
                prompts.setdefault(text, Prompt(text, kind))
            else:
                fault = f"Skipped {file.name}, line {number}: the prompt contains {MASK} {masks} times, not once."
                notes.add(f"prompts without exactly one {MASK}", fault)
    if not prompts:
        raise HarnessError(f"{where} contains no prompt with exactly one {MASK}. Expected one prompt per line.")
    return list(prompts.values()), notes.sentences


def lines_of(file: Path) -> list[str]:
    """Return the lines of a UTF-8 text file. Raises HarnessError if it cannot be read."""
    # str.splitlines would also split at U+2028 and U+0085, which a line may contain.
    return read_text(file).removesuffix("\n").split("\n")
