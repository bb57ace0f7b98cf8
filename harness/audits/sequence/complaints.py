"""What could not be read, in sentences: the first few of each sort in full, the others by their number."""

from collections import Counter

from harness.core.text import pluralize

_IN_FULL = 3


class Complaints:
    """Sentences about records that were left out; `sentences` are in the order in which they were made."""

    def __init__(self) -> None:
        self._said: list[str] = []
        self._made: Counter[str] = Counter()

    def add(self, sort: str, sentence: str) -> None:
        """sort: what they are counted by, a clause such as `lines without JSON`."""
        self._made[sort] += 1
        if self._made[sort] <= _IN_FULL:
            self._said.append(sentence)

    @property
    def sentences(self) -> list[str]:
        """What was said, and how many more there were of each sort."""
        more = [
            f"left out as well: {pluralize(number - _IN_FULL, 'further record')} ({sort})."
            for sort, number in self._made.items()
            if number > _IN_FULL
        ]
        return [*self._said, *more]
