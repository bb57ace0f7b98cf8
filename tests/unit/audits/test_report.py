"""Values of a report as JSON and as tables."""

import json

import numpy as np

from harness.audits.report import table_of
from harness.core.text import json_value


def test_numpy_values_become_json() -> None:
    value = {"a": [np.float64(0.5), np.nan, (np.inf, np.int64(3))], "b": {"c": np.bool_(True), "d": None, "e": "text"}}
    expected = {"a": [0.5, None, ["Infinity", 3]], "b": {"c": True, "d": None, "e": "text"}}
    assert json.loads(json.dumps(json_value(value), allow_nan=False)) == expected


def test_nan_in_a_table_is_none() -> None:
    table = table_of("t", "T", [{"x": np.nan, "text": "a"}, {"x": 1.0, "text": "b"}], text_columns=("text", "absent"))
    assert table.columns == {"x": [None, 1.0], "text": ["a", "b"]} and table.text_columns == ("text",)
