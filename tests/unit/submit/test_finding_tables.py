"""Cells and figures of an audit as readable text, and redaction without text of the corpus or of the model."""

import json
import math
from pathlib import Path

import numpy as np
import pyarrow.parquet

from harness.audits.report import table_of
from harness.core.exports import redact_text
from harness.core.findings import (
    BarChart,
    Findings,
    FoundTable,
    HeatMap,
    Passage,
    ShadedText,
    Stretch,
    bars_as_json,
    heat_map_as_json,
)
from harness.core.text import json_value, plain_value
from harness.submit.finding_tables import (
    format_column,
    format_value,
    is_numeric_column,
    named_figures,
    redact_findings,
    write_parquet,
)


def test_cells_are_formatted() -> None:
    cells = [None, np.nan, True, np.int64(12_345), np.float64(0.123456), 1e-9, 123_456.7, "text", np.array([1.0, 0.5])]
    words = ["–", "–", "yes", "12,345", "0.123", "< 0.0001", "123,457", "text", "1.00, 0.500"]
    assert list(map(format_value, cells)) == words


def test_shares_in_a_column_have_three_decimals() -> None:
    assert format_column([0.5, 0.25, None, 0.0, 1.0]) == ["0.500", "0.250", "–", "0.000", "1.000"]
    assert format_column([0.5, 0.00025]) == ["0.500", "0.0003"]
    assert format_column([0.5, 1e-7]) == ["0.500", "< 0.0001"]
    assert format_column([0.5, 2372.4, 12.34]) == ["0.500", "2,372", "12.3"]


def test_numeric_columns_are_recognized() -> None:
    assert is_numeric_column([1, 2.5, None]) and is_numeric_column(np.arange(3))
    assert not is_numeric_column([1, "a"]) and not is_numeric_column([None]) and not is_numeric_column([True])


def test_nan_in_a_vector_becomes_none() -> None:
    assert plain_value(np.array([1.0, np.nan])) == [1.0, None]


def test_a_parquet_column_has_one_type_in_every_audit(tmp_path: Path) -> None:
    tables = [
        FoundTable("t", "T", {"empty": cells, "vector": vector, "whole": [1, None]})
        for cells, vector in (([None, None], [[1, 2], [3]]), ([0.5, None], [[0.5, 1.0], []]))
    ]
    schemas = []
    for table in tables:
        write_parquet(table, tmp_path / "t.parquet")
        schemas.append(pyarrow.parquet.read_schema(tmp_path / "t.parquet"))
    assert schemas[0] == schemas[1]


def test_figures_of_one_value_are_named() -> None:
    figures = {"tokens_of_a_pair": 1200, "is_complete": True, "shared": {"corpus": 1}, "curve": [1, 2]}
    assert named_figures(figures) == [("tokens of a pair", "1,200"), ("is complete", "yes")]


CELLS = [-np.inf, 0.0, -0.0, None, np.nan, np.inf, 0.5]


def test_impossible_and_not_measured_are_different_in_every_export(tmp_path: Path) -> None:
    """A log-probability of minus infinity was measured; an empty cell was not."""
    table = table_of("t", "T", [{"x": cell} for cell in CELLS])
    write_parquet(table, tmp_path / "t.parquet")
    expected = [-math.inf, 0.0, 0.0, None, None, math.inf, 0.5]
    assert pyarrow.parquet.read_table(tmp_path / "t.parquet")["x"].to_pylist() == expected
    printed = json.loads(json.dumps(json_value({"x": CELLS}), allow_nan=False))["x"]
    assert [None if cell is None else float(cell) for cell in printed] == expected
    assert format_column(CELLS) == ["-∞", "0", "0", "–", "–", "∞", "0.500"]
    heat = heat_map_as_json(HeatMap("h", "H", ["a"], ["b"] * 7, np.array([CELLS], float)))
    assert heat["values"] == [["-Infinity", 0.0, 0.0, None, None, "Infinity", 0.5]]
    bars = bars_as_json(BarChart("b", "B", "y", ["l"] * 7, ["g"], np.array([CELLS], float)))
    assert [bar["value"] for bar in bars["bars"]] == heat["values"][0]


SECRET = "Dr. Ada Quint lives at the third lamp"
WORDS = SECRET.split()
FOUND = Findings(
    figures={"pairs": 3},
    tables=[
        FoundTable("pairs", "Pairs", {"name": ["Ada Quint", None], "esp": [0.5, 0.25]}, text_columns=("name",)),
        FoundTable("texts", "Texts", {"text": [[SECRET, "b"]], "kind": ["prompt"]}, text_columns=("text",)),
    ],
    charts=[
        HeatMap("h", "H", ["row"], [str(place) for place in range(len(WORDS))], np.zeros((1, len(WORDS))), [WORDS]),
        HeatMap("n", "N", ["row"], ["1", "2"], np.zeros((1, 2)), [["0.5", "−1.2 %"]]),
    ],
    passages=[Passage("first", [("prompt", [Stretch(SECRET[:9]), Stretch(SECRET[9:], True)])])],
    texts=[ShadedText("t", "T", SECRET, np.zeros(len(SECRET)), (0.5,))],
)


def test_text_is_replaced_in_tables_passages_and_charts() -> None:
    closed = redact_findings(FOUND)
    assert closed.tables[0].columns == {"name": [redact_text("Ada Quint"), None], "esp": [0.5, 0.25]}
    assert closed.tables[1].columns["text"] == [[redact_text(SECRET), redact_text("b")]]
    assert closed.passages[0].texts == [("prompt", (Stretch(redact_text(SECRET)),))]
    assert closed.is_redacted and closed.texts == ()
    heat, numbers = closed.charts
    assert isinstance(heat, HeatMap) and heat.words is None
    assert isinstance(numbers, HeatMap) and numbers.words is not None
    assert not [word for word in ("Quint", "lamp") if word in repr(closed)]


def test_equal_texts_have_equal_hashes() -> None:
    assert redact_text("a b") == "2 words, sha256 c8687a08aa5d"
    assert redact_text("one") != redact_text("two")
    assert redact_text("\ud800") == "1 word, sha256 91a681b99855"
