"""Results of a book audit as numbers, shared by its tables, charts, sentences and JSON."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from harness.audits.book.coverage import (
    Passage,
    Sums,
    TextSums,
    character_peaks,
    passages_of,
    sum_over_text,
    window_length,
)
from harness.audits.book.inputs import Texts
from harness.audits.book.params import THRESHOLDS, BookParams
from harness.audits.book.rows import Measured, count_unmeasured, read_counts, read_measured
from harness.audits.near_results import NearSummary, summarize_near
from harness.audits.probabilities import leaked_probability
from harness.audits.report import difference
from harness.audits.schemes import Scheme
from harness.core.arrays import Floats
from harness.core.audit import RowsOf
from harness.core.measures import Estimate

QUERIES = (1, 10, 100, 1_000, 10_000, 100_000, 1_000_000)
DISCOVERY = (0.1, 0.5, 0.9)
"""The probabilities p of (n, p)-discoverable extraction."""


class Progress(NamedTuple):
    """The windows that were measured and all windows, the same for near-verbatim ones, and whether all are known.

    unmeasured: windows that an endpoint could not measure.
    """

    windows: int
    all_windows: int
    near: int
    all_near: int
    is_complete: bool
    unmeasured: int

    @property
    def is_over(self) -> bool:
        """True if everything was measured."""
        return self.is_complete and self.windows + self.unmeasured == self.all_windows and self.near == self.all_near


class LocatedPassage(NamedTuple):
    """A passage of one text under one model, by their numbers."""

    model: int
    text: int
    passage: Passage


@dataclass(frozen=True)
class TextResult:
    """One text under one model. peaks: [characters], under the main scheme. sums: by scheme."""

    measured: Measured
    peaks: Floats
    text_sums: dict[Scheme, TextSums]

    @cached_property
    def sums(self) -> dict[Scheme, Sums]:
        """The shares of this text alone, by scheme."""
        return {scheme: Sums([each]) for scheme, each in self.text_sums.items()}

    @property
    def block(self) -> int:
        """Characters of a block of the bootstrap."""
        (one, *_) = self.text_sums.values()
        return one.block * one.cell

    @property
    def longest(self) -> Passage | None:
        """The longest passage at the smallest threshold."""
        found = passages_of(self.peaks, THRESHOLDS[0])
        return max(found, key=lambda passage: passage.end - passage.start, default=None)


@dataclass(frozen=True)
class ModelResult:
    """All texts under one model. total, control: the sums under the main scheme, None without measured text.

    discoverable: [queries][probabilities], the share of the windows of all texts but the control.
    """

    model: int
    total: Sums | None
    control: Sums | None
    discoverable: Floats

    def difference(self, threshold: float) -> Estimate | None:
        """Return the coverage of the texts minus that of the control, None without a control."""
        if self.total is None or self.control is None:
            return None
        return difference(self.total.coverage(threshold), self.control.coverage(threshold))


@dataclass(frozen=True)
class BookResults:
    """All results.

    names: the names of the models. near: the near-verbatim windows of the texts and of the control under each model.
    """

    params: BookParams
    texts: Texts
    names: Sequence[str]
    by_text: list[TextResult]
    by_model: list[ModelResult]
    near: list[NearSummary]
    progress: Progress

    @property
    def is_complete(self) -> bool:
        """True if everything was measured."""
        return self.progress.is_over

    @property
    def main(self) -> Scheme:
        """The scheme of single figures."""
        return self.params.main_scheme

    @property
    def label(self) -> str:
        """The main scheme with its parameter."""
        return self.params.label(self.main)

    @property
    def reference(self) -> ModelResult:
        """The model with the largest coverage at the smallest threshold."""
        covered = [-1.0 if one.total is None else one.total.coverage(THRESHOLDS[0]).value for one in self.by_model]
        return self.by_model[int(np.argmax(covered))]

    def row_name(self, result: TextResult) -> str:
        """Return the name of a text, with its model if there are several."""
        text = self.texts.names[result.measured.text]
        name = f"{text} (control)" if self.texts.is_control[result.measured.text] else text
        return f"{self.names[result.measured.model]}: {name}" if len(self.names) > 1 else name


def book_results(params: BookParams, texts: Texts, rows: RowsOf, names: Sequence[str]) -> BookResults | None:
    """Return all results, or None before a text other than the control is measured."""
    measured = read_measured(rows)
    if all(texts.is_control[one.text] for one in measured):
        return None
    models = sorted({one.model for one in measured})
    by_text: list[TextResult] = []
    for model in models:
        mine = [one for one in measured if one.model == model]
        sizes = {"window": window_length(mine), "total": sum(len(texts.texts[one.text]) for one in mine)}
        by_text += [_text_result(params, texts, one, **sizes) for one in mine]
    by_model = [_model_result(params, texts, by_text, model) for model in models]
    counts = read_counts(rows)
    near = _near_summaries(texts, rows, names)
    progress = Progress(
        sum(map(len, measured)),
        sum(windows for windows, _ in counts.values()),
        sum(one.of for one in near),
        sum(near for _, near in counts.values()),
        is_complete={model for model, _ in counts} == set(range(len(names))),
        unmeasured=count_unmeasured(rows),
    )
    return BookResults(params, texts, names, by_text, by_model, near, progress)


def most_likely_passages(results: BookResults, most: int) -> list[LocatedPassage]:
    """Return passages at the smallest threshold, the likeliest first and the longer first among equals."""
    found = [
        LocatedPassage(one.measured.model, one.measured.text, passage)
        for one in results.by_text
        for passage in passages_of(one.peaks, THRESHOLDS[0])
    ]
    found.sort(key=lambda one: (-round(one.passage.probability, 6), one.passage.start - one.passage.end, one))
    return found[:most]


def _near_summaries(texts: Texts, rows: RowsOf, names: Sequence[str]) -> list[NearSummary]:
    """Return the summaries of the texts and of the control under each model."""
    found = []
    for model, name in enumerate(names):
        for is_control, words in ((False, "text"), (True, "control")):
            label = f"{name}, {words}" if len(names) > 1 else words
            chosen = np.flatnonzero(texts.is_control == is_control).tolist()
            found.append(summarize_near(rows, label, model=model, texts=chosen, is_control=is_control))
    return [one for one in found if one is not None]


def _text_result(params: BookParams, texts: Texts, measured: Measured, *, window: int, total: int) -> TextResult:
    peaks = {scheme: character_peaks(measured, scheme, len(texts.texts[measured.text])) for scheme in params.schemes}
    sums = {scheme: sum_over_text(measured, scheme, each, window=window, total=total) for scheme, each in peaks.items()}
    return TextResult(measured, peaks[params.main_scheme], sums)


def _model_result(params: BookParams, texts: Texts, by_text: Sequence[TextResult], model: int) -> ModelResult:
    mine = [one for one in by_text if one.measured.model == model]
    scheme = params.main_scheme
    subject = [one for one in mine if not texts.is_control[one.measured.text]]
    control = [one for one in mine if texts.is_control[one.measured.text]]
    logs = np.concatenate([np.empty(0), *(one.measured.log_probability(scheme) for one in subject)])
    discoverable = np.full((len(QUERIES), len(DISCOVERY)), np.nan)
    if len(logs):
        for row, queries in enumerate(QUERIES):
            leaked = leaked_probability(logs, queries)
            discoverable[row] = [(leaked >= probability).mean() for probability in DISCOVERY]
    total, beside = (Sums([one.text_sums[scheme] for one in some]) if some else None for some in (subject, control))
    return ModelResult(model, total, beside, discoverable)
