"""Measures of a completion beside a suffix, and the audit's rows as arrays by paragraph."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.audits.sequence.completion import State
from harness.audits.sequence.similarity import edit_similarity, longest_character_run, longest_word_run
from harness.audits.sequence.thresholds import Threshold, verdicts
from harness.audits.sequence.words import words_of
from harness.core.arrays import Bools, Floats, Ints
from harness.core.audit import RowsOf
from harness.core.rows import Kind, table

TOO_SHORT = -1
"""The verdict, otherwise 0 or 1, if the suffix is too short for a threshold."""

COMPLETIONS = table("completion", paragraph=Kind.INTEGER, state=Kind.TEXT, text=Kind.TEXT, fault=Kind.TEXT)
COMPARISONS = table(
    "comparison",
    paragraph=Kind.INTEGER,
    against=Kind.INTEGER,
    **{threshold.value: Kind.INTEGER for threshold in Threshold},
    run_words=Kind.INTEGER,
    run_characters=Kind.INTEGER,
    edit_similarity=Kind.REAL,
)


class Comparison(NamedTuple):
    """A completion compared with a suffix: verdicts as numbers, runs in words and in characters."""

    trigram: int
    start_5: int
    start_10: int
    overlap: int
    run_words: int
    run_characters: int
    edit_similarity: float


def compare(completion: str, suffix: str) -> Comparison:
    """Return all measures of the two texts."""
    words, others = words_of(completion), words_of(suffix)
    passed = verdicts(words, others)
    numbers = {name.value: TOO_SHORT if verdict is None else int(verdict) for name, verdict in passed.items()}
    return Comparison(
        **numbers,
        run_words=longest_word_run(words, others),
        run_characters=longest_character_run(completion, suffix),
        edit_similarity=edit_similarity(words, others),
    )


@dataclass(frozen=True)
class Measurements:
    """n paragraphs compared with their own suffixes, or with those of others.

    is_compared: [n]. verdicts: [n] each, -1 for none. run_words, run_characters: [n]. edit_similarity: [n]. A paragraph
    that was not compared has -1, 0, 0 and NaN.
    """

    is_compared: Bools
    verdicts: Mapping[Threshold, Ints]
    run_words: Ints
    run_characters: Ints
    edit_similarity: Floats


@dataclass(frozen=True)
class Results:
    """The rows so far. states: [n], None for a paragraph that was not requested yet; texts, faults: [n]."""

    states: list[State | None]
    texts: list[str]
    faults: list[str]
    own: Measurements
    permuted: Measurements


def read_results(rows: RowsOf, paragraphs: int) -> Results:
    """Return the rows by paragraph. If a paragraph has several rows, the last one counts."""
    states: list[State | None] = [None] * paragraphs
    texts, faults = [""] * paragraphs, [""] * paragraphs
    completions = rows(COMPLETIONS.name)
    columns = (completions["paragraph"].tolist(), completions["state"], completions["text"], completions["fault"])
    for paragraph, state, text, fault in zip(*columns, strict=True):
        states[paragraph], texts[paragraph], faults[paragraph] = State(state), text, fault
    comparisons = rows(COMPARISONS.name)
    is_own = np.asarray(comparisons["against"] == comparisons["paragraph"], np.bool_)
    own, permuted = (_measurements(comparisons, which, paragraphs) for which in (is_own, ~is_own))
    return Results(states, texts, faults, own, permuted)


def _measurements(comparisons: Mapping[str, NDArray[np.generic]], which: Bools, paragraphs: int) -> Measurements:
    places = np.asarray(comparisons["paragraph"], np.int64)[which]

    def by_paragraph(column: str, default: float) -> NDArray[np.float64]:
        values = np.full(paragraphs, default)
        values[places] = comparisons[column][which]
        return values

    is_compared = np.zeros(paragraphs, np.bool_)
    is_compared[places] = True
    return Measurements(
        is_compared,
        {threshold: by_paragraph(threshold.value, TOO_SHORT).astype(np.int64) for threshold in Threshold},
        by_paragraph("run_words", 0).astype(np.int64),
        by_paragraph("run_characters", 0).astype(np.int64),
        by_paragraph("edit_similarity", np.nan),
    )
