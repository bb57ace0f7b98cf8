"""Notes about input that was skipped: the first few of each kind in full, the others as a count."""

from collections import Counter

from harness.core.text import pluralize

_IN_FULL = 3


class Notes:
    """Collects notes about skipped records. A note names a file and a line, and never quotes the record."""

    def __init__(self) -> None:
        self._in_full: list[str] = []
        self._counts: Counter[str] = Counter()

    def add(self, kind: str, sentence: str) -> None:
        """Add a note. Notes of one `kind`, such as "lines that are not JSON", are counted together."""
        self._counts[kind] += 1
        if self._counts[kind] <= _IN_FULL:
            self._in_full.append(sentence)

    @property
    def sentences(self) -> list[str]:
        """The notes in full, in the order of `add`, then how many more there were of each kind."""
        further = [
            f"Skipped {pluralize(number - _IN_FULL, 'further record')} ({kind})."
            for kind, number in self._counts.items()
            if number > _IN_FULL
        ]
        return [*self._in_full, *further]
