"""Parts of a report that all audits share: estimates with intervals, and measured values as tables and charts.

An audit declares a `Section` for each table and chart of its measured values, and makes by hand only what is not a
projection of them.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from harness.core.arrays import Bools, Floats, Ints
from harness.core.findings import BarChart, Chart, Conclusion, Findings, FoundTable, KeyFigure, LineChart, Series
from harness.core.intervals import NORMAL_975, bootstrap_means, difference_interval, percentiles, wilson
from harness.core.measures import NO_ESTIMATE, Estimate, Measure, MeasureRow, MeasureTable, Selected
from harness.core.text import plain_value

Row = Mapping[str, Any]
Part = str | Callable[[MeasureRow], str]
"""A part of a measured row by which rows are grouped: `model`, `side`, `case`, `at`, `measure`, or any text of it.

`who` is the model and the side; if all rows are of one model, the side alone or else the model.
"""
_MAX_COLUMNS = 4
"""The values of a parameter that a table shows as columns, and a chart as bars."""
_WIDE_RANGE = 1_000
"""The ratio of the largest and the smallest value of a parameter from which an axis is logarithmic."""
_MAX_MARKERS = 25
"""The points of the longest line whose points are marked."""


class Section(NamedTuple):
    """Measured values that are shown together."""

    draw: Callable[..., "FoundTable | Chart"]
    """`wide_table`, `case_table`, `bars_of` or `lines_of`."""
    name: str
    title: str
    """Its title, in which `{name}` stands for one of the words that `draw_sections` is given."""
    measures: Sequence[Selected]
    only: Mapping[str, str]
    """The model, the side or the case to which it is limited."""
    options: Mapping[str, Any]


def section(
    draw: Callable[..., "FoundTable | Chart"],
    name: str,
    title: str,
    *measures: Selected,
    only: Mapping[str, str] | None = None,
    **options: Any,
) -> Section:
    """Return a section. options: those of `draw`."""
    return Section(draw, name, title, measures, only or {}, options)


def grouped(name: str, title: str, *measures: Selected, charted: Sequence[Selected] = ()) -> tuple[Section, Section]:
    """Return a table of all values of some measures, and a chart of those `charted`, by default the last one."""
    drawn = charted or measures[-1:]
    return section(grouped_table, name, title, *measures), section(grouped_chart, name, title, *drawn)


def draw_sections(
    values: MeasureTable | Iterable[MeasureRow], parts: Iterable[Section | FoundTable | Chart], **words: str
) -> tuple[list[FoundTable], list[Chart]]:
    """Return the tables and the charts of the sections for which there are values, and those made by hand, in order."""
    values = values if isinstance(values, MeasureTable) else MeasureTable(list(values))
    drawn: list[FoundTable | Chart] = []
    for part in parts:
        if not isinstance(part, Section):
            drawn.append(part)
        elif rows := values.select(*part.measures, **part.only):
            drawn.append(part.draw(part.name, part.title.format(**words), rows, **part.options))
    tables = [part for part in drawn if isinstance(part, FoundTable)]
    return tables, [part for part in drawn if not isinstance(part, FoundTable)]


def unmeasured_findings(question: str, reason: str, measures: MeasureTable | None = None, **figures: Any) -> Findings:
    """Return the findings before anything can be concluded. reason: a clause that says so, without "yet"."""
    return Findings(
        figures | {"is_complete": False},
        [f"{reason[:1].upper()}{reason[1:]} yet."],
        conclusion=Conclusion(question, "Not known yet", reason),
        measures=measures or MeasureTable(),
    )


def difference(first: Estimate, second: Estimate) -> Estimate:
    """Return first - second of independent samples and its interval from both (Zou and Donner 2008)."""
    ends = difference_interval(first.value, (first.low, first.high), second.value, (second.low, second.high))
    return Estimate(first.value - second.value, *ends)


def share_of(number: float, of: int) -> Estimate:
    """Return `number` as a share of `of` with its 95 % interval (Wilson 1927); NaN if `of` is 0."""
    if of == 0:
        return NO_ESTIMATE
    value = number / of
    low, high = wilson(value, of)
    # At 0 and 1 rounding may put the end of the interval beyond the value.
    return Estimate(value, min(low, value), max(high, value), of)


def clustered_shares(is_counted: Bools, clusters: Ints) -> list[Estimate]:
    """Return the share of counted items in each row of is_counted [shares, n] with its 95 % interval; NaN if n is 0.

    clusters: [n]. The interval is the percentile interval of a bootstrap that draws whole clusters. If its ends are
    equal, it is Wilson's with one observation per cluster.
    """
    shares, number = is_counted.shape
    if number == 0:
        return [NO_ESTIMATE] * shares
    units = len(np.unique(clusters))
    ends = np.transpose(percentiles(bootstrap_means(is_counted, clusters)))  # [shares, 2]
    estimates = []
    for value, (low, high) in zip(is_counted.mean(axis=1).tolist(), ends.tolist(), strict=True):
        low, high = wilson(value, units) if low == high else (low, high)
        estimates.append(Estimate(value, min(low, value), max(high, value), number))
    return estimates


def finite_mean(values: Any) -> float:
    """Return the mean of the finite values, NaN if there is none."""
    finite = np.asarray(values)[np.isfinite(values)]
    return float(finite.mean()) if len(finite) else math.nan


def normal_interval(values: Floats) -> tuple[float, float, float]:
    """Return the mean of the finite values and its normal 95 % interval; of a single value, the value itself."""
    finite = values[np.isfinite(values)]
    mean = finite_mean(finite)
    half = NORMAL_975 * float(finite.std(ddof=1)) / len(finite) ** 0.5 if len(finite) > 1 else 0.0
    return mean, mean - half, mean + half


def corrected(p: float, tests: int) -> float:
    """Return the smallest of the p-values of `tests` tests, corrected for their number (Bonferroni)."""
    return min(1.0, p * tests)


def likelihood_words(p: float) -> str:
    """Return the answer that a p-value allows: "Probably" below 0.01, "Possibly" below 0.05, else "No evidence"."""
    return "Probably" if p < 0.01 else "Possibly" if p < 0.05 else "No evidence"


def table_of(
    name: str, title: str, rows: Sequence[Row], *, is_detail: bool = False, text_columns: Sequence[str] = ()
) -> FoundTable:
    """Return a table of `rows`, whose keys are the columns; None stands for NaN.

    `text_columns` that the rows lack are ignored.
    """
    columns = {column: [plain_value(row[column]) for row in rows] for column in rows[0]} if rows else {}
    texts = tuple(column for column in text_columns if column in columns)
    return FoundTable(name, title, columns, is_detail=is_detail, text_columns=texts)


def measure_table(values: MeasureTable) -> FoundTable:
    """Return all measured values as the detail table `measures`, one row for each value."""
    return table_of("measures", "Every measured value", [row.as_dict() for row in values], is_detail=True)


def wide_table(
    name: str,
    title: str,
    rows: Sequence[MeasureRow],
    *,
    by: Mapping[str, Part],
    intervals: Sequence[Measure] = (),
    number: str = "",
    has_parameter: bool = True,
) -> FoundTable:
    """Return measured rows as a table with a column for each measure and value of its parameter.

    by: the parts that identify a row of the table, by the name of their column.
    has_parameter: False if one of them is made of the parameter, so that a measure has one column; `at` among them has
    the same effect.
    intervals: measures whose interval follows their first column, as `low` and `high`.
    number: the column with the numbers of items behind the first measure of each row, empty for none.
    """
    has_parameter = has_parameter and "at" not in by.values()
    columns: dict[str, None] = dict.fromkeys(by)
    table: dict[tuple[Any, ...], dict[str, Any]] = {}
    numbers: dict[tuple[Any, ...], int] = {}
    first: dict[Measure, str] = {}
    for row in rows:
        key = tuple(row.at if part == "at" else part_of(row, part, rows) for part in by.values())
        label = row.measure.label(row.at if has_parameter else None)
        cells: dict[str, Any] = {label: row.estimate.value}
        if row.measure in intervals and first.setdefault(row.measure, label) == label:
            beginning = "" if len(intervals) == 1 else f"{label} "
            cells |= {f"{beginning}low": row.estimate.low, f"{beginning}high": row.estimate.high}
        columns |= dict.fromkeys(cells)
        table.setdefault(key, dict(zip(by, key, strict=True))).update(cells)
        numbers.setdefault(key, row.estimate.of)
    whole = [
        dict.fromkeys(columns) | cells | ({number: numbers[key]} if number else {}) for key, cells in table.items()
    ]
    return table_of(name, title, whole)


def case_table(name: str, title: str, rows: Sequence[MeasureRow], *, by: Mapping[str, Part]) -> FoundTable:
    """Return measured rows as a table with a column for each case. by: as in `wide_table`."""
    cases = dict.fromkeys(row.case for row in rows)
    cells: dict[tuple[str, ...], dict[str, Any]] = {}
    for row in rows:
        key = tuple(part_of(row, part, rows) for part in by.values())
        cell = cells.setdefault(key, dict(zip(by, key, strict=True)) | cases)
        cell[row.case] = row.estimate.value
    return table_of(name, title, list(cells.values()))


def grouped_table(name: str, title: str, rows: Sequence[MeasureRow]) -> FoundTable:
    """Return measured rows as a table by what differs among them: model, side, case, and a parameter of many values."""
    by: dict[str, Part] = {part: part for part in _differing(rows)}
    if len({row.at for row in rows}) > _MAX_COLUMNS:
        by[rows[0].measure.at_name] = "at"
    intervals = [row.measure for row in rows if not math.isnan(row.estimate.low)][:1]
    number = "number" if any(row.estimate.of for row in rows) else ""
    return wide_table(name, title, rows, by=by or {"model": "model"}, intervals=intervals, number=number)


def grouped_chart(name: str, title: str, rows: Sequence[MeasureRow]) -> Chart:
    """Return measured rows as lines over their parameter, or as bars if it has few values."""
    parts = _differing(rows)

    def rest(row: MeasureRow) -> str:
        return ", ".join(filter(None, (part_of(row, part, rows) for part in parts))) or row.measure.label()

    y_label, places = rows[0].measure.label(), {row.at for row in rows if row.at is not None}
    if len({row.measure for row in rows}) > 1:
        parts, y_label = [*parts, "measure"], "share"
    if len(places) > _MAX_COLUMNS:
        is_wide = min(places) > 0 and max(places) >= _WIDE_RANGE * min(places)
        x_label = rows[0].measure.at_name
        return lines_of(name, title, rows, x_label=x_label, y_label=y_label, series=rest, is_x_logarithmic=is_wide)
    label = "at" if places else parts.pop() if parts else "measure"
    return bars_of(name, title, rows, y_label=y_label, label=label, group=rest)


def _differing(rows: Sequence[MeasureRow]) -> list[str]:
    return [part for part in ("model", "side", "case") if len({getattr(row, part) for row in rows}) > 1]


def part_of(row: MeasureRow, part: Part, rows: Sequence[MeasureRow]) -> str:
    """Return a part of one of some rows as text. Parameters and measures are written for people."""
    if callable(part):
        return part(row)
    if part == "who":
        is_single = len({model for _, _, model, *_ in rows}) == 1
        return row.side or row.model if is_single else ", ".join(filter(None, (row.model, row.side)))
    if part == "at":
        return "" if row.at is None else row.measure.at_text(row.at)
    return row.measure.label() if part == "measure" else str(getattr(row, part))


def bars_of(
    name: str,
    title: str,
    rows: Sequence[MeasureRow],
    *,
    y_label: str,
    label: Part,
    group: Part,
    reference: float | None = None,
    controls: Collection[str] = (),
) -> BarChart:
    """Return measured rows as a bar chart.

    label, group: the parts of a row that are labels and groups. controls: the sides of the groups to compare with.
    """
    groups: dict[str, dict[str, Estimate]] = {}
    for row in rows:
        groups.setdefault(part_of(row, group, rows), {})[part_of(row, label, rows)] = row.estimate
    labels = list(dict.fromkeys(part_of(row, label, rows) for row in rows))
    estimates = np.array([[bars.get(label, NO_ESTIMATE) for label in labels] for bars in groups.values()], float)
    values, low, high, _ = np.moveaxis(estimates.reshape(len(groups), len(labels), 4), -1, 0)
    of_controls = dict.fromkeys(part_of(row, group, rows) for row in rows if row.side in controls)
    return BarChart(name, title, y_label, labels, list(groups), values, low, high, reference, tuple(of_controls))


def lines_of(
    name: str,
    title: str,
    rows: Sequence[MeasureRow],
    *,
    x_label: str,
    y_label: str,
    series: Part,
    controls: Collection[str] = (),
    is_x_logarithmic: bool = False,
) -> LineChart:
    """Return measured rows as lines over their parameter.

    series: the part of a row that names its line. controls: the sides of dashed lines.
    """
    lines: dict[str, list[MeasureRow]] = {}
    for row in rows:
        lines.setdefault(part_of(row, series, rows), []).append(row)
    drawn = []
    for line, points in lines.items():
        x = np.array([point.at for point in points])
        value, low, high, _ = np.array([point.estimate for point in points], float).T
        is_shaded = bool(np.isfinite(low).any())
        low, high = (low, high) if is_shaded else (None, None)
        drawn.append(Series(line, x, value, low, high, is_dashed=points[0].side in controls))
    has_markers = max(map(len, lines.values())) <= _MAX_MARKERS
    return LineChart(name, title, x_label, y_label, drawn, is_x_logarithmic=is_x_logarithmic, has_markers=has_markers)


def key_figure(row: MeasureRow, details: str | None = None, *, name: str = "") -> KeyFigure:
    """Return a measured row as a key figure. Its details are its interval by default."""
    unit = row.measure.unit
    details = unit.format_interval(row.estimate) if details is None else details
    return KeyFigure(name or row.measure.label(row.at), unit.format(row.estimate.value), details, row.estimate.value)
