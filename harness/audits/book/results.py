"""Results of a book audit: the texts under each model, and the rows of what was measured of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from harness.audits.book.coverage import (
    CHARACTERS,
    COUNTS,
    COVERAGE,
    GAP,
    LONGEST,
    MEASURED_WINDOWS,
    Passage,
    TextSums,
    TextWindows,
    character_peaks,
    estimate_shares,
    passages_of,
    read_windows,
    sum_over_text,
    window_length,
)
from harness.audits.book.inputs import THRESHOLDS, BookParams, Texts
from harness.audits.near_results import count_near, near_rows
from harness.audits.probabilities import Scheme, discoverable_rows
from harness.audits.report import difference
from harness.core.arrays import Floats
from harness.core.audit import RowsOf
from harness.core.measures import Estimate, MeasureRow, MeasureTable

TEXT, CONTROL = "text", "control"
"""The sides of values that are of all texts, or of the whole control."""
MIN_THRESHOLD, MAX_THRESHOLD = THRESHOLDS[0], THRESHOLDS[-1]


@dataclass(frozen=True)
class TextResult:
    """One text under one model."""

    model: str
    name: str
    text: str
    is_control: bool
    windows: TextWindows
    peaks: Floats
    """The largest probability of a suffix at each character under the main scheme, [characters]."""
    sums: dict[Scheme, TextSums]

    @property
    def side(self) -> str:
        """The name of the text, as it is reported."""
        return f"{self.name} (control)" if self.is_control else self.name

    @cached_property
    def passages(self) -> list[Passage]:
        """The passages at the smallest threshold, in order."""
        return passages_of(self.peaks, MIN_THRESHOLD)

    @property
    def longest(self) -> int:
        """Characters of the longest passage at the smallest threshold."""
        return max((passage.end - passage.start for passage in self.passages), default=0)


@dataclass(frozen=True)
class BookResults:
    """The texts under each model, with their coverage and passages."""

    params: BookParams
    texts: Texts
    names: Sequence[str]
    """The names of the models."""
    by_text: list[TextResult]
    totals: MeasureTable
    """The values of all texts and of the whole control under each model."""
    single: MeasureTable
    """The values of each text under each model and scheme."""
    windows: int
    """Windows that were measured so far."""
    all_windows: int
    near: int
    """Near-verbatim windows that were measured so far."""
    all_near: int
    unmeasured: int
    """Windows that an endpoint could not measure."""
    is_complete: bool

    @property
    def label(self) -> str:
        """The main scheme with its parameter."""
        return self.params.label(self.params.main_scheme)

    @property
    def best(self) -> str:
        """The name of the model with the largest coverage at the smallest threshold."""
        rows = self.totals.select((COVERAGE, MIN_THRESHOLD), side=TEXT)
        return max(rows, key=lambda row: row.estimate.value).model

    def row_name(self, result: TextResult) -> str:
        """Return the name of a text, with its model if there are several."""
        return f"{result.model}: {result.side}" if len(self.names) > 1 else result.side


def book_results(params: BookParams, texts: Texts, rows: RowsOf, names: Sequence[str]) -> BookResults | None:
    """Return all results, or None before a text other than the control is measured."""
    all_parts, unmeasured = read_windows(rows)
    if all(texts.is_control[part.text] for part in all_parts):
        return None
    by_text: list[TextResult] = []
    totals: list[MeasureRow] = []
    near: list[MeasureRow] = []
    for model, name in enumerate(names):
        if parts := [part for part in all_parts if part.model == model]:
            window, total = window_length(parts), sum(len(texts.texts[part.text]) for part in parts)
            results = [_text_result(params, texts, part, name, window, total) for part in parts]
            totals += _totals(params, results, name)
            by_text += results
        for side, is_control in ((TEXT, False), (CONTROL, True)):
            numbers = np.flatnonzero(texts.is_control == is_control).tolist()
            near += near_rows(rows, model, name, side=side, texts=numbers)
    counts = rows(COUNTS.name)
    all_windows, all_near = (int(np.sum(counts[column], dtype=np.int64)) for column in ("windows", "near"))
    windows, near_windows = sum(map(len, all_parts)), count_near(MeasureTable(near))
    has_counts = set(np.asarray(counts["model"]).tolist()) == set(range(len(names)))
    return BookResults(
        params,
        texts,
        names,
        by_text,
        MeasureTable([*totals, *near]),
        MeasureTable([row for result in by_text for row in _text_rows(params, result)]),
        windows,
        all_windows,
        near_windows,
        all_near,
        unmeasured,
        is_complete=has_counts and windows + unmeasured == all_windows and near_windows == all_near,
    )


def _text_result(
    params: BookParams, texts: Texts, windows: TextWindows, model: str, window: int, total: int
) -> TextResult:
    text = texts.texts[windows.text]
    peaks = {scheme: character_peaks(windows, scheme, len(text)) for scheme in params.schemes}
    sums = {scheme: sum_over_text(windows, scheme, peaks[scheme], window=window, total=total) for scheme in peaks}
    is_control = bool(texts.is_control[windows.text])
    return TextResult(model, texts.names[windows.text], text, is_control, windows, peaks[params.main_scheme], sums)


def _share_rows(sums: Sequence[TextSums], model: str, side: str, case: str) -> list[MeasureRow]:
    return [MeasureRow(measure, share, model, side, case, at) for (measure, at), share in estimate_shares(sums).items()]


def _totals(params: BookParams, results: Sequence[TextResult], model: str) -> Iterator[MeasureRow]:
    """Yield the values of all texts and of the control under one model and the main scheme."""
    scheme = params.main_scheme
    case = params.label(scheme)
    texts = [result for result in results if not result.is_control]
    controls = [result for result in results if result.is_control]
    sides = [
        _share_rows([result.sums[scheme] for result in part], model, side, case)
        for side, part in ((TEXT, texts), (CONTROL, controls))
        if part
    ]
    for rows in sides:
        yield from rows
    for row, of_control in zip(*sides, strict=True) if len(sides) == 2 else ():
        if row.measure is COVERAGE:
            yield MeasureRow(GAP, difference(row.estimate, of_control.estimate), model, "", case, row.at)
    if texts:
        longest = Estimate(max(result.longest for result in texts))
        yield MeasureRow(LONGEST, longest, model, TEXT, case, MIN_THRESHOLD)
    logs = np.concatenate([np.empty(0), *(result.windows.logs[scheme] for result in texts)])
    yield from discoverable_rows(logs, model, TEXT, case)


def _text_rows(params: BookParams, result: TextResult) -> Iterator[MeasureRow]:
    """Yield the values of one text under one model and every scheme."""
    model, side = result.model, result.side
    yield MeasureRow(CHARACTERS, Estimate(len(result.text)), model, side)
    yield MeasureRow(MEASURED_WINDOWS, Estimate(len(result.windows)), model, side)
    yield MeasureRow(LONGEST, Estimate(result.longest), model, side, params.label(params.main_scheme), MIN_THRESHOLD)
    for scheme, sums in result.sums.items():
        yield from _share_rows([sums], model, side, params.label(scheme))
