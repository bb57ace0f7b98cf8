"""Comparisons of a completion with a suffix, and the audit's rows as arrays by paragraph."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import compress, groupby
from typing import Any
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from harness.audits.edit_distance import edit_distance, numbered_words
from harness.audits.sequence.answers import FACT_COLUMNS
from harness.audits.sequence.completion import State
from harness.audits.sequence.dataset import Dataset
from harness.audits.sequence.thresholds import TITLES, Threshold, verdicts
from harness.audits.sequence.words import WordForm, compared_words, word_spans, words_of
from harness.core.arrays import Bools, Ints
from harness.core.audit import RowsOf
from harness.core.findings import Marked, Passage, Stretch
from harness.core.rows import Kind, Rows, table
from harness.core.text import pluralize

_MAX_PASSAGES = 10
_SHORTEST_RUN = 5
"""Words of the shortest run that is shown as a passage: as many as the shorter exact start."""
_MARKED_RUN = 3
"""Words of the shortest run that is marked: a trigram."""
RUN = 13
"""Words: the usual length in studies of benchmark contamination."""
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


def rows_of_setting(rows: RowsOf, model: int, prompt_length: int | None) -> RowsOf:
    """Return the rows of one model and one prompt length. None stands for prefixes of different lengths."""

    def of_setting(name: str) -> Rows:
        columns = rows(name)
        is_member = (columns["model"] == model) & (columns["prompt_length"] == (prompt_length or 0))
        return {
            column: list(compress(values, is_member)) if isinstance(values, list) else values[is_member]
            for column, values in columns.items()
        }

    return of_setting


@dataclass(frozen=True)
class Setting:
    """One model and one prompt length: the paragraphs as they were cut, and their results so far."""

    model: str
    dataset: Dataset
    states: list[State | None]
    """[n], None for a paragraph that was not requested yet."""
    texts: list[str]
    """The completions, [n]."""
    faults: list[str]
    """The reasons why there is no completion, [n]."""
    aligned: Measurements
    """The comparisons with their own suffixes."""
    permuted: Measurements
    """The comparisons with the suffixes of others."""

    @property
    def is_corpus(self) -> Bools:
        """The paragraphs of the corpus that are compared with their own suffixes, [n]."""
        return np.asarray(~self.dataset.is_control & self.aligned["is_compared"])


def read_setting(model: str, dataset: Dataset, rows: RowsOf, reference: str) -> Setting:
    """Return the results of a setting. If a paragraph has several rows, the last one counts.

    rows: those of the setting. reference: the model whose answers count, as `reference_model` returns it.
    """
    paragraphs = len(dataset)
    states: list[State | None] = [None] * paragraphs
    texts, faults = [""] * paragraphs, [""] * paragraphs
    completions, comparisons = rows(COMPLETIONS.name), rows(COMPARISONS.name)
    columns = (completions[name] for name in ("state", "text", "fault", "answered_by"))
    for paragraph, state, text, fault, name in zip(completions["paragraph"].tolist(), *columns, strict=True):
        is_other = state == State.COMPLETED and name not in ("", reference)
        states[paragraph] = State.OTHER_MODEL if is_other else State(state)
        texts[paragraph], faults[paragraph] = text, fault
    counts = ~np.array([state is State.OTHER_MODEL for state in states], bool)[comparisons["paragraph"]]
    is_own = np.asarray(comparisons["against"] == comparisons["paragraph"], np.bool_)
    aligned, permuted = (_measurements(comparisons, side & counts, paragraphs) for side in (is_own, ~is_own))
    return Setting(model, dataset, states, texts, faults, aligned, permuted)


def _measurements(comparisons: Rows, is_member: Bools, paragraphs: int) -> Measurements:
    places = comparisons["paragraph"][is_member]
    columns: dict[str, NDArray[Any]] = {"is_compared": np.isin(np.arange(paragraphs), places)}
    for name, default in _NOT_COMPARED.items():
        columns[name] = np.full(paragraphs, default)
        columns[name][places] = comparisons[name][is_member]
    return columns


def passages(settings: Sequence[Setting]) -> list[Passage]:
    """Return at most ten completions of the corpus, longest verbatim run first, with common runs marked."""
    candidates = []
    for number, setting in enumerate(settings):
        runs, characters = setting.aligned["run_words"], setting.aligned["run_characters"]
        paragraphs = np.flatnonzero(~setting.dataset.is_control & (runs >= _SHORTEST_RUN)).tolist()
        candidates += [(-runs[paragraph], -characters[paragraph], paragraph, number) for paragraph in paragraphs]
    return [
        _passage(settings[number], paragraph, has_model=len(settings) > 1)
        for _, _, paragraph, number in sorted(candidates)[:_MAX_PASSAGES]
    ]


def _passage(setting: Setting, paragraph: int, *, has_model: bool) -> Passage:
    dataset = setting.dataset
    suffix, completion = dataset.suffixes[paragraph], setting.texts[paragraph]
    passed = [title for threshold, title in TITLES.items() if setting.aligned[threshold][paragraph] == 1]
    run = pluralize(int(setting.aligned["run_words"][paragraph]), "word")
    document = dataset.documents[int(dataset.document[paragraph])]
    title = f"{f'{setting.model}, ' if has_model else ''}{document}, paragraph {int(dataset.number[paragraph])}"
    return Passage(
        f"{title}: longest run {run}; passes {', '.join(passed) or 'no threshold'}",
        (
            ("prompt", [Stretch(dataset.prompts[paragraph])]),
            ("suffix", mark_common_runs(suffix, completion)),
            ("completion", mark_common_runs(completion, suffix)),
        ),
        Marked.EQUAL,
    )
