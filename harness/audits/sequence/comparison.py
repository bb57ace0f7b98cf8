"""Comparisons of a completion with a suffix, and the audit's rows as arrays by paragraph.

The four word-level thresholds are those of black-box sequence extraction as published. The completion of a prompt, the
first 35 words of a paragraph, is cut to the suffix's number of words and compared with the suffix. A suffix with too
few words for a threshold has no verdict, because no completion could pass. A completion with too few words does not
pass.

The source's worked example has a prefix of 34 words, a suffix of 18 words and two completions, S1 and S2. Its table
says that S2 fails the threshold of 10 words, but as printed the first 10 words are equal. The page "Reproduce a paper's
figure" of the documentation explains this and the other differences.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum
from itertools import compress, groupby
from typing import Any, NamedTuple
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from harness.audits.edit_distance import edit_distance, numbered_words
from harness.audits.sequence.answers import FACT_COLUMNS
from harness.audits.sequence.completion import State
from harness.audits.sequence.dataset import Dataset, WordForm, compared_words, word_spans, words_of
from harness.core.arrays import Bools, Ints
from harness.core.audit import RowsOf
from harness.core.findings import Marked, Passage, Stretch
from harness.core.rows import Kind, Rows, table
from harness.core.text import pluralize

Words = Sequence[str]
Verdict = bool | None
"""True if a threshold is passed, None if the suffix is too short for it."""


class Threshold(StrEnum):
    """The thresholds, by their names in tables and figures."""

    TRIGRAM = "trigram"
    START_5 = "start_5"
    START_10 = "start_10"
    OVERLAP = "overlap"


TITLES: Mapping[Threshold, str] = {
    Threshold.TRIGRAM: "trigrams",
    Threshold.START_5: "first 5 words",
    Threshold.START_10: "first 10 words",
    Threshold.OVERLAP: "overlap",
}


def trigram(completion: Words, suffix: Words) -> Verdict:
    """|tri(c) ∩ tri(s)| ≥ min(|tri(c)|, |tri(s)|) / 2, where tri(·) is the set of a text's word trigrams.

    None if the suffix has fewer than 3 words, False if the completion has. S2 of the worked example shares 10 of the
    suffix's 16 trigrams and passes; S1 shares none.
    """
    written, expected = (set(zip(words, words[1:], words[2:], strict=False)) for words in (completion, suffix))
    if not expected:
        return None
    return bool(written) and 2 * len(written & expected) >= min(len(written), len(expected))


def equal_start(completion: Words, suffix: Words, number: int) -> Verdict:
    """Return whether the first `number` words are equal, in order; None if the suffix has fewer.

    With 5 words S2 of the worked example passes and S1 does not. With 10 words S1 does not pass; S2 passes after the
    printed prompt of 34 words and fails after one of 35.
    """
    if len(suffix) < number:
        return None
    return list(completion[:number]) == list(suffix[:number])


def overlap(completion: Words, suffix: Words) -> Verdict:
    """|c ∩ s| ≥ 3/4 of the shorter text's size, in any order of the words.

    None if the suffix has fewer than 5 words, False if the completion has: one common word would pass. The texts are
    multisets: a word counts as often as both contain it, and a text's size is its number of words. As sets, a
    completion that repeats one word of the suffix would pass. S2 of the worked example shares 16 of 18 words, S1 shares
    2 of 13.
    """
    if len(suffix) < 5:
        return None
    if len(completion) < 5:
        return False
    shared = (Counter(completion) & Counter(suffix)).total()
    return 4 * shared >= 3 * min(len(completion), len(suffix))


def verdicts(completion: Words, suffix: Words) -> dict[Threshold, Verdict]:
    """Return the verdicts of all thresholds."""
    return {
        Threshold.TRIGRAM: trigram(completion, suffix),
        Threshold.START_5: equal_start(completion, suffix, 5),
        Threshold.START_10: equal_start(completion, suffix, 10),
        Threshold.OVERLAP: overlap(completion, suffix),
    }


_MOST_PASSAGES = 10
_SHORTEST_RUN = 5
"""Words of the shortest run that is shown as a passage: as many as the shorter exact start."""
_MARKED_RUN = 3
"""Words of the shortest run that is marked: a trigram."""
RUN = 13
"""Words: the usual length in studies of benchmark contamination."""


def longest_word_run(words: Sequence[str], second: Sequence[str]) -> int:
    """Return the length in words of the longest run that both texts contain."""
    return SequenceMatcher(None, words, second, autojunk=False).find_longest_match().size


def longest_character_run(text: str, second: str) -> int:
    """Return the length in characters of the longest substring of both texts; whitespace counts as one space.

    At each position only a longer run is searched for, which takes at most two searches per character: far faster than
    difflib, whose cost is the number of equal pairs of characters.
    """
    shorter, longer = sorted((" ".join(words_of(text)), " ".join(words_of(second))), key=len)
    longest = 0
    for first in range(len(shorter)):
        while first + longest < len(shorter) and shorter[first : first + longest + 1] in longer:
            longest += 1
    return longest


def edit_similarity(words: Sequence[str], second: Sequence[str]) -> float:
    """Return 1 - d / max(n, m) for the word-level edit distance d (Levenshtein 1966); 1 for two empty texts."""
    return 1.0 - edit_distance(*numbered_words(words, second)) / max(len(words), len(second), 1)


def mark_common_runs(text: str, second: str) -> list[Stretch]:
    """Return `text` in stretches, marked where a run of three words or more also occurs in `second`.

    Words are equal here if they differ in their Unicode form only.
    """
    words, second_words = ([normalize("NFKC", word) for word in words_of(side)] for side in (text, second))
    runs = {tuple(second_words[first : first + _MARKED_RUN]) for first in range(len(second_words) - _MARKED_RUN + 1)}
    is_marked = [False] * len(text)
    spans = word_spans(text)
    for first in range(len(words) - _MARKED_RUN + 1):
        if tuple(words[first : first + _MARKED_RUN]) in runs:
            begin, end = spans[first][0], spans[first + _MARKED_RUN - 1][1]
            is_marked[begin:end] = [True] * (end - begin)
    stretches = groupby(zip(text, is_marked, strict=True), key=lambda pair: pair[1])
    return [Stretch("".join(character for character, _ in pairs), marked) for marked, pairs in stretches]


def shared_runs(texts: Sequence[str], second: Sequence[str]) -> tuple[Bools, Bools]:
    """Return, [n] and [m], which texts share a run of 13 words with the other side, or all words if they have fewer.

    Runs are compared by 64-bit hashes, in Unicode normal form KC.
    """
    sides = [[_run_hashes(text) for text in side] for side in (texts, second)]
    first, last = (np.concatenate([np.empty(0, np.int64), *side]) for side in sides)
    common = set(np.intersect1d(first, last).tolist())
    is_first, is_second = (np.array([not common.isdisjoint(runs.tolist()) for runs in side], bool) for side in sides)
    return is_first, is_second


def _run_hashes(text: str) -> Ints:
    words = words_of(normalize("NFKC", text))
    length = min(RUN, len(words))
    return np.array([hash(tuple(words[at : at + length])) for at in range(len(words) - length + 1)], np.int64)


TOO_SHORT = -1
"""The verdict, otherwise 0 or 1, if the suffix is too short for a threshold."""

_KEY = dict.fromkeys(("model", "prompt_length", "paragraph"), Kind.INTEGER)
"""The columns that name a completion: the number of its model, the words of its prompt, and its paragraph."""
_TEXTS = dict.fromkeys(("state", "text", "fault"), Kind.TEXT)
COMPLETIONS = table("completion", **_KEY, **_TEXTS, cut_words=Kind.INTEGER, **FACT_COLUMNS)
REPETITIONS = table("repetition", **_KEY, text=Kind.TEXT)
"""The completions of requests that were sent again at the end."""
COMPARISONS = table(
    "comparison",
    **_KEY,
    against=Kind.INTEGER,
    **{threshold.value: Kind.INTEGER for threshold in Threshold},
    run_words=Kind.INTEGER,
    run_characters=Kind.INTEGER,
    edit_similarity=Kind.REAL,
)


def compare(completion: str, suffix: str, form: WordForm) -> dict[str, float]:
    """Return the verdicts on two texts as numbers, their longest run in words and in characters, and their similarity.

    form: that of the words of the verdicts. Runs and similarity are verbatim. The names are those of the columns of
    `COMPARISONS`.
    """
    words, suffix_words = words_of(completion), words_of(suffix)
    passed = verdicts(compared_words(completion, form), compared_words(suffix, form))
    return {
        **{name.value: TOO_SHORT if verdict is None else int(verdict) for name, verdict in passed.items()},
        "run_words": longest_word_run(words, suffix_words),
        "run_characters": longest_character_run(completion, suffix),
        "edit_similarity": edit_similarity(words, suffix_words),
    }


Measurements = Mapping[str, NDArray[Any]]
"""The comparisons of n paragraphs with their own suffixes, or with those of others: columns of [n].

`is_compared`, and the measures of `COMPARISONS`: a paragraph that was not compared has -1 (`TOO_SHORT`), 0, 0 and NaN.
"""
_NOT_COMPARED = {
    **{threshold.value: np.int64(TOO_SHORT) for threshold in Threshold},
    "run_words": np.int64(0),
    "run_characters": np.int64(0),
    "edit_similarity": np.float64(np.nan),
}


@dataclass(frozen=True)
class Results:
    """The rows so far, by paragraph."""

    states: list[State | None]
    """[n], None for a paragraph that was not requested yet."""
    texts: list[str]
    """The completions, [n]."""
    faults: list[str]
    """The reasons why there is no completion, [n]."""
    measured: Measurements
    """The comparisons with their own suffixes."""
    permuted: Measurements
    """The comparisons with the suffixes of others."""


def rows_of_setting(rows: RowsOf, model: int, prompt_length: int | None) -> RowsOf:
    """Return the rows of one model and one prompt length. None stands for prefixes of different lengths."""

    def chosen(name: str) -> Rows:
        columns = rows(name)
        is_chosen = (columns["model"] == model) & (columns["prompt_length"] == (prompt_length or 0))
        return {
            column: list(compress(values, is_chosen)) if isinstance(values, list) else values[is_chosen]
            for column, values in columns.items()
        }

    return chosen


class Setting(NamedTuple):
    """One model and one prompt length: the paragraphs as they were cut, and what was measured."""

    model: str
    dataset: Dataset
    results: Results


def read_results(rows: RowsOf, paragraphs: int, reference: str) -> Results:
    """Return the rows by paragraph. If a paragraph has several rows, the last one counts.

    reference: the model whose answers count, as `reference_model` returns it.
    """
    states: list[State | None] = [None] * paragraphs
    texts, faults = [""] * paragraphs, [""] * paragraphs
    completions = rows(COMPLETIONS.name)
    columns = (completions[name] for name in ("state", "text", "fault", "answered_by"))
    for paragraph, state, text, fault, name in zip(completions["paragraph"].tolist(), *columns, strict=True):
        is_other = state == State.COMPLETED and name not in ("", reference)
        states[paragraph] = State.OTHER_MODEL if is_other else State(state)
        texts[paragraph], faults[paragraph] = text, fault
    comparisons = rows(COMPARISONS.name)
    is_left_out = np.array([state is State.OTHER_MODEL for state in states], bool)[comparisons["paragraph"]]
    is_own = np.asarray(comparisons["against"] == comparisons["paragraph"], np.bool_)
    measured, permuted = (_measurements(comparisons, chosen & ~is_left_out, paragraphs) for chosen in (is_own, ~is_own))
    return Results(states, texts, faults, measured, permuted)


def _measurements(comparisons: Rows, chosen: Bools, paragraphs: int) -> Measurements:
    places = comparisons["paragraph"][chosen]
    columns: dict[str, NDArray[Any]] = {"is_compared": np.isin(np.arange(paragraphs), places)}
    for name, default in _NOT_COMPARED.items():
        columns[name] = np.full(paragraphs, default)
        columns[name][places] = comparisons[name][chosen]
    return columns


def passages(settings: Sequence[Setting]) -> list[Passage]:
    """Return at most ten completions of the corpus, longest verbatim run first, with common runs marked."""
    candidates = []
    for number, (_, dataset, results) in enumerate(settings):
        runs, characters = results.measured["run_words"], results.measured["run_characters"]
        chosen = np.flatnonzero(~dataset.is_control & (runs >= _SHORTEST_RUN)).tolist()
        candidates += [(-runs[paragraph], -characters[paragraph], paragraph, number) for paragraph in chosen]
    return [
        _passage(settings[number], paragraph, has_model=len(settings) > 1)
        for _, _, paragraph, number in sorted(candidates)[:_MOST_PASSAGES]
    ]


def _passage(setting: Setting, paragraph: int, *, has_model: bool) -> Passage:
    model, dataset, results = setting
    suffix, completion = dataset.suffixes[paragraph], results.texts[paragraph]
    passed = [TITLES[threshold] for threshold in Threshold if results.measured[threshold][paragraph] == 1]
    run = pluralize(int(results.measured["run_words"][paragraph]), "word")
    document = dataset.documents[int(dataset.document[paragraph])]
    title = f"{f'{model}, ' if has_model else ''}{document}, paragraph {int(dataset.number[paragraph])}"
    return Passage(
        f"{title}: longest run {run}; passes {', '.join(passed) or 'no threshold'}",
        (
            ("prompt", [Stretch(dataset.prompts[paragraph])]),
            ("suffix", mark_common_runs(suffix, completion)),
            ("completion", mark_common_runs(completion, suffix)),
        ),
        Marked.EQUAL,
    )
