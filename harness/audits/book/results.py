"""Results of a book audit: the texts under each model, and the rows of what was measured of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from harness.audits.book.coverage import (
    Measured,
    Passage,
    Sums,
    TextSums,
    character_peaks,
    count_unmeasured,
    passages_of,
    read_counts,
    read_measured,
    sum_over_text,
    window_length,
)
from harness.audits.book.inputs import THRESHOLDS, BookParams, Texts
from harness.audits.near_results import NEAR_MEASURES, count_near, near_rows
from harness.audits.probabilities import DISCOVERABLE, Scheme, discoverable_rows
from harness.audits.report import difference
from harness.core.arrays import Floats
from harness.core.audit import RowsOf
from harness.core.measures import Estimate, Measure, MeasureRow, MeasureTable, Unit

_AT: Any = {"at": "p ≥ {}", "at_unit": Unit.BOUND, "at_name": "smallest probability of a suffix"}
COVERAGE = Measure(
    "coverage",
    "coverage",
    "the share of characters in a suffix of at least the given probability, among those in any measured suffix",
    Unit.PERCENT,
    **_AT,
)
GAP = Measure(
    "coverage_minus_control",
    "coverage − control",
    "the coverage of the texts minus that of the control",
    Unit.PERCENT,
    **_AT,
)
EXTRACTABLE = Measure(
    "extractable_windows",
    "windows",
    "the share of windows whose suffix has at least the given probability",
    Unit.PERCENT,
    **_AT,
)
MEAN = Measure("mean_probability", "mean probability", "the mean probability of the suffix of a window")
CHARACTERS = Measure("characters", "characters", "the characters of the text", Unit.NUMBER)
WINDOWS = Measure("measured_windows", "windows measured", "the windows of the text that were measured", Unit.NUMBER)
LONGEST = Measure(
    "longest_passage",
    "longest passage",
    "the characters of the longest run of covered characters",
    Unit.NUMBER,
    **_AT,
)
MEASURES = (COVERAGE, GAP, EXTRACTABLE, MEAN, CHARACTERS, WINDOWS, LONGEST, *DISCOVERABLE.values(), *NEAR_MEASURES)
TEXT, CONTROL = "text", "control"
"""The sides of values that are of all texts, or of the whole control."""
LEAST_THRESHOLD, MOST_THRESHOLD = THRESHOLDS[0], THRESHOLDS[-1]


@dataclass(frozen=True)
class TextResult:
    """One text under one model."""

    measured: Measured
    side: str
    """The name of the text, as it is reported."""
    is_control: bool
    peaks: Floats
    """The largest probability of a suffix at each character under the main scheme, [characters]."""
    sums: dict[Scheme, TextSums]

    @property
    def block(self) -> int:
        """Characters of a block of the bootstrap."""
        (sums, *_) = self.sums.values()
        return sums.block * sums.cell

    @cached_property
    def passages(self) -> list[Passage]:
        """The passages at the smallest threshold, in order."""
        return passages_of(self.peaks, LEAST_THRESHOLD)

    @property
    def longest(self) -> int:
        """Characters of the longest passage at the smallest threshold."""
        return max((passage.end - passage.start for passage in self.passages), default=0)


class Progress(NamedTuple):
    """The values measured so far."""

    windows: int
    all_windows: int
    near: int
    """Near-verbatim windows that were measured."""
    all_near: int
    unmeasured: int
    """Windows that an endpoint could not measure."""
    has_counts: bool
    """True if the windows of every model are counted."""

    @property
    def is_complete(self) -> bool:
        """True if everything was measured."""
        return self.has_counts and self.windows + self.unmeasured == self.all_windows and self.near == self.all_near


@dataclass(frozen=True)
class BookResults:
    """All results: the texts under each model, and what was measured of them."""

    params: BookParams
    texts: Texts
    names: Sequence[str]
    """The names of the models."""
    by_text: list[TextResult]
    totals: MeasureTable
    """The values of all texts and of the whole control under each model."""
    single: MeasureTable
    """The values of each text under each model and scheme."""
    progress: Progress

    @property
    def label(self) -> str:
        """The main scheme with its parameter."""
        return self.params.label(self.params.main_scheme)

    @property
    def best(self) -> str:
        """The name of the model with the largest coverage at the smallest threshold."""
        rows = self.totals.select((COVERAGE, LEAST_THRESHOLD), side=TEXT)
        return max(rows, key=lambda row: row.estimate.value).model

    def of_model(self, result: TextResult) -> str:
        """Return the name of the model of a result."""
        return self.names[result.measured.model]

    def row_name(self, result: TextResult) -> str:
        """Return the name of a text, with its model if there are several."""
        return f"{self.of_model(result)}: {result.side}" if len(self.names) > 1 else result.side


def book_results(params: BookParams, texts: Texts, rows: RowsOf, names: Sequence[str]) -> BookResults | None:
    """Return all results, or None before a text other than the control is measured."""
    measured = read_measured(rows)
    if all(texts.is_control[part.text] for part in measured):
        return None
    by_text: list[TextResult] = []
    totals: list[MeasureRow] = []
    for model in sorted({part.model for part in measured}):
        parts = [part for part in measured if part.model == model]
        window, total = window_length(parts), sum(len(texts.texts[part.text]) for part in parts)
        results = [_text_result(params, texts, part, window, total) for part in parts]
        totals += _totals(params, results, names[model])
        by_text += results
    for model, name in enumerate(names):
        for side, is_control in ((TEXT, False), (CONTROL, True)):
            numbers = np.flatnonzero(texts.is_control == is_control).tolist()
            totals += near_rows(rows, model, name, side=side, texts=numbers)
    single = [row for result in by_text for row in _text_rows(params, result, names[result.measured.model])]
    counts = read_counts(rows)
    progress = Progress(
        sum(map(len, measured)),
        sum(windows for windows, _ in counts.values()),
        count_near(MeasureTable(totals)),
        sum(near for _, near in counts.values()),
        count_unmeasured(rows),
        {model for model, _ in counts} == set(range(len(names))),
    )
    return BookResults(params, texts, names, by_text, MeasureTable(totals), MeasureTable(single), progress)


def _text_result(params: BookParams, texts: Texts, measured: Measured, window: int, total: int) -> TextResult:
    name, is_control = texts.names[measured.text], bool(texts.is_control[measured.text])
    peaks = {scheme: character_peaks(measured, scheme, len(texts.texts[measured.text])) for scheme in params.schemes}
    sums = {scheme: sum_over_text(measured, scheme, each, window=window, total=total) for scheme, each in peaks.items()}
    side = f"{name} (control)" if is_control else name
    return TextResult(measured, side, is_control, peaks[params.main_scheme], sums)


def _totals(params: BookParams, results: Sequence[TextResult], model: str) -> Iterator[MeasureRow]:
    """Yield the values of all texts and of the control under one model and the main scheme."""
    scheme = params.main_scheme
    case = params.label(scheme)
    sides = {
        side: [result for result in results if result.is_control == is_control]
        for side, is_control in ((TEXT, False), (CONTROL, True))
    }
    sums = {side: Sums([result.sums[scheme] for result in part]) for side, part in sides.items() if part}
    for side, each in sums.items():
        for at in THRESHOLDS:
            yield MeasureRow(COVERAGE, each.coverage(at), model, side, case, at)
    if len(sums) == len(sides):
        for at in THRESHOLDS:
            gap = difference(sums[TEXT].coverage(at), sums[CONTROL].coverage(at))
            yield MeasureRow(GAP, gap, model, "", case, at)
    if TEXT in sums:
        for at in THRESHOLDS:
            yield MeasureRow(EXTRACTABLE, sums[TEXT].extractable(at), model, TEXT, case, at)
        yield MeasureRow(MEAN, sums[TEXT].mean_probability(), model, TEXT, case)
        yield MeasureRow(
            LONGEST, Estimate(max(part.longest for part in sides[TEXT])), model, TEXT, case, LEAST_THRESHOLD
        )
    logs = [result.measured.log_probability(scheme) for result in sides[TEXT]]
    yield from discoverable_rows(np.concatenate([np.empty(0), *logs]), model, TEXT, case)


def _text_rows(params: BookParams, result: TextResult, model: str) -> Iterator[MeasureRow]:
    """Yield the values of one text under one model and every scheme."""
    side = result.side
    yield MeasureRow(CHARACTERS, Estimate(len(result.peaks)), model, side)
    yield MeasureRow(WINDOWS, Estimate(len(result.measured)), model, side)
    yield MeasureRow(LONGEST, Estimate(result.longest), model, side, params.label(params.main_scheme), LEAST_THRESHOLD)
    for scheme, of_scheme in result.sums.items():
        case, sums = params.label(scheme), Sums([of_scheme])
        for at in THRESHOLDS:
            yield MeasureRow(COVERAGE, sums.coverage(at), model, side, case, at)
        for at in THRESHOLDS:
            yield MeasureRow(EXTRACTABLE, sums.extractable(at), model, side, case, at)
        yield MeasureRow(MEAN, sums.mean_probability(), model, side, case)
