"""Values of a report as JSON and as tables."""

import json

import numpy as np

from harness.audits.report import (
    bars_of,
    draw_sections,
    grouped,
    key_figure,
    lines_of,
    measure_table,
    table_of,
    wide_table,
)
from harness.core.findings import BarChart, LineChart
from harness.core.measures import Estimate, Measure, MeasureRow, MeasureTable, Unit
from harness.core.text import json_value


def test_numpy_values_become_json() -> None:
    value = {"a": [np.float64(0.5), np.nan, (np.inf, np.int64(3))], "b": {"c": np.bool_(True), "d": None, "e": "text"}}
    expected = {"a": [0.5, None, ["Infinity", 3]], "b": {"c": True, "d": None, "e": "text"}}
    assert json.loads(json.dumps(json_value(value), allow_nan=False)) == expected


def test_nan_in_a_table_is_none() -> None:
    table = table_of("t", "T", [{"x": np.nan, "text": "a"}, {"x": 1.0, "text": "b"}], text_columns=("text", "absent"))
    assert table.columns == {"x": [None, 1.0], "text": ["a", "b"]} and table.text_columns == ("text",)


MEAN = Measure("mean", "mean ESP", "the mean")
OVER = Measure("over", "ESP > 1/{at}", "the share above", Unit.PERCENT, at_name="queries")
ROWS = [
    MeasureRow(measure, Estimate(value, value / 2, 1.0, 8), "demo", side, "top-k 10", at)
    for side, first in (("text", 0.5), ("control", 0.25))
    for measure, value, at in ((MEAN, first, None), (OVER, first / 2, 10), (OVER, first / 4, 1000))
]
MEASURED = MeasureTable(ROWS)


def test_a_measured_value_has_one_name_everywhere() -> None:
    assert ROWS[2].name == "ESP > 1/1,000, top-k 10, text, demo" and ROWS[2].text == "12.5 % [6.25 %, 100 %]"
    assert key_figure(ROWS[0]) == ("mean ESP", "0.500", "[0.250, 1.000]", 0.5)
    assert MEASURED.get("over", side="control", at=10).value == 0.125
    assert np.isnan(MEASURED.get("over", side="other").value)
    json.dumps(MEASURED.as_json(), allow_nan=False)


def test_measured_values_become_tables() -> None:
    assert measure_table(MEASURED).columns["measure"] == ["mean", "over", "over"] * 2
    wide = wide_table("t", "T", MEASURED.select(MEAN, (OVER, 1000)), by={"of": "side"}, intervals=(MEAN,), number="n")
    assert wide.columns == {
        "of": ["text", "control"],
        "mean ESP": [0.5, 0.25],
        "low": [0.25, 0.125],
        "high": [1.0, 1.0],
        "ESP > 1/1,000": [0.125, 0.0625],
        "n": [8, 8],
    }
    long = wide_table("t", "T", MEASURED.select(OVER), by={"of": "side", "X": "at"})
    assert long.columns["X"] == [10, 1000, 10, 1000] and long.columns["ESP > 1/X"] == [0.25, 0.125, 0.125, 0.0625]


def test_measured_values_become_charts() -> None:
    rows = MEASURED.select(OVER)
    bars = bars_of("b", "B", rows, y_label="y", label="at", group="side", controls=("control", "absent"))
    assert (bars.labels, bars.groups, bars.controls) == (["10", "1,000"], ["text", "control"], ("control",))
    assert bars.values.tolist() == [[0.25, 0.125], [0.125, 0.0625]] and bars.low is not None
    lines = lines_of("l", "L", rows, x_label="x", y_label="y", series="side", controls=("control",))
    assert [(line.name, line.x.tolist(), line.is_dashed) for line in lines.series] == [
        ("text", [10, 1000], False),
        ("control", [10, 1000], True),
    ]


def test_values_are_grouped_by_what_differs_among_them() -> None:
    table, chart = grouped("g", "Of {what}", MEAN, OVER, charted=(OVER,))
    (of_rows,), (bars,) = draw_sections(MEASURED, [table, chart], what="demo")
    assert list(of_rows.columns) == ["side", "mean ESP", "low", "high", "ESP > 1/10", "ESP > 1/1,000", "number"]
    assert isinstance(bars, BarChart) and (bars.title, bars.labels) == ("Of demo", ["10", "1,000"])
    rates = [OVER, Measure("other", "other share", "another share", at_name="queries")]
    numbers = (1, 10, 100, 1_000, 1_000_000)
    rows = [MeasureRow(rate, Estimate(1 / number), "demo", at=number) for rate in rates for number in numbers]
    (by_number,), (lines,) = draw_sections(rows, grouped("g", "G", *rates, charted=rates))
    assert by_number.columns["queries"] == list(numbers) and "number" not in by_number.columns
    assert isinstance(lines, LineChart) and lines.is_x_logarithmic
    assert [line.name for line in lines.series] == ["ESP > 1/X", "other share"]
    assert draw_sections([], [table, chart]) == ([], [])
