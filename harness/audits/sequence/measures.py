"""What is measured of a completion beside a suffix, and what an audit's rows say of each paragraph."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.audits.sequence.completing import State
from harness.audits.sequence.similarity import edit_similarity, longest_character_run, longest_word_run
from harness.audits.sequence.thresholds import Counting, Threshold, verdicts
from harness.audits.sequence.words import words_of
from harness.core.arrays import Bools, Floats, Ints
from harness.core.audit import RowsOf
from harness.core.rows import Kind, table

TOO_SHORT = -1
"""A verdict's number where a text is too short for a threshold; else 0 or 1."""

COMPLETIONS = table("completion", paragraph=Kind.INTEGER, state=Kind.TEXT, text=Kind.TEXT, fault=Kind.TEXT)
COMPARISONS = table(
    "comparison",
    paragraph=Kind.INTEGER,
    against=Kind.INTEGER,
    trigram=Kind.INTEGER,
    start_5=Kind.INTEGER,
    start_10=Kind.INTEGER,
    overlap=Kind.INTEGER,
    run_words=Kind.INTEGER,
    run_characters=Kind.INTEGER,
    edit_similarity=Kind.REAL,
)


class Compared(NamedTuple):
    """A completion beside a suffix; verdicts as numbers, runs in words and in characters."""

    trigram: int
    start_5: int
    start_10: int
    overlap: int
    run_words: int
    run_characters: int
    edit_similarity: float


def compared(completion: str, suffix: str, counting: Counting) -> Compared:
    """Everything that is measured of the two."""
    words, others = words_of(completion), words_of(suffix)
    passed = verdicts(words, others, counting)
    numbers = {one.value: TOO_SHORT if passed[one] is None else int(bool(passed[one])) for one in Threshold}
    return Compared(
        trigram=numbers["trigram"],
        start_5=numbers["start_5"],
        start_10=numbers["start_10"],
        overlap=numbers["overlap"],
        run_words=longest_word_run(words, others),
        run_characters=longest_character_run(completion, suffix),
        edit_similarity=edit_similarity(words, others),
    )


@dataclass(frozen=True)
class Measured:
    """n paragraphs beside their own suffixes, or beside others'.

    is_there: [n] it was compared; verdicts: [n] each, -1 where there is none; run_words, run_characters: [n];
    edit_similarity: [n]. Elsewhere -1, 0, 0 and NaN.
    """

    is_there: Bools
    verdicts: Mapping[Threshold, Ints]
    run_words: Ints
    run_characters: Ints
    edit_similarity: Floats

    def passed(self, threshold: Threshold, among: Bools) -> Bools:
        """The verdicts of a threshold where there is one, of the paragraphs `among` [n]."""
        verdicts = self.verdicts[threshold][among & self.is_there]
        found: Bools = verdicts[verdicts != TOO_SHORT] == 1
        return found

    def too_short(self, threshold: Threshold, among: Bools) -> int:
        """How many of `among` [n] were compared and have no verdict."""
        return int((self.verdicts[threshold][among & self.is_there] == TOO_SHORT).sum())


@dataclass(frozen=True)
class Completed:
    """What the rows say so far. states: [n], None where a paragraph was not yet asked for; texts, faults: [n]."""

    states: list[State | None]
    texts: list[str]
    faults: list[str]
    own: Measured
    by_chance: Measured


def completed(rows: RowsOf, paragraphs: int) -> Completed:
    """The last row of each paragraph counts."""
    states: list[State | None] = [None] * paragraphs
    texts, faults = [""] * paragraphs, [""] * paragraphs
    made = rows(COMPLETIONS.name)
    columns = (made["paragraph"].tolist(), made["state"], made["text"], made["fault"])
    for paragraph, state, text, fault in zip(*columns, strict=True):
        states[paragraph], texts[paragraph], faults[paragraph] = State(state), text, fault
    comparisons = rows(COMPARISONS.name)
    is_own = np.asarray(comparisons["against"] == comparisons["paragraph"], np.bool_)
    return Completed(
        states,
        texts,
        faults,
        _measured(comparisons, is_own, paragraphs),
        _measured(comparisons, ~is_own, paragraphs),
    )


def _measured(comparisons: Mapping[str, NDArray[np.generic]], which: Bools, paragraphs: int) -> Measured:
    places = np.asarray(comparisons["paragraph"], np.int64)[which]

    def placed(column: str, nothing: float, dtype: type[np.generic]) -> NDArray[np.generic]:
        values = np.full(paragraphs, nothing, dtype)
        values[places] = comparisons[column][which]
        return values

    is_there = np.zeros(paragraphs, np.bool_)
    is_there[places] = True
    return Measured(
        is_there,
        {threshold: placed(threshold.value, TOO_SHORT, np.int64).astype(np.int64) for threshold in Threshold},
        placed("run_words", 0, np.int64).astype(np.int64),
        placed("run_characters", 0, np.int64).astype(np.int64),
        placed("edit_similarity", np.nan, np.float64).astype(np.float64),
    )
