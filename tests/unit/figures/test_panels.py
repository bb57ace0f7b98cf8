"""Plots for documents: the same text each time, whatever the Matplotlib settings."""

import xml.etree.ElementTree as ElementTree
from collections.abc import Callable

import matplotlib
import numpy as np
import pytest

from harness.core.scoring import score_rows
from harness.figures.curves import ForestRow, forest_panel, history_panel, recall_panel

SCORE = score_rows(np.arange(90) % 3 > 0, np.arange(90), cap=20, examples=100)
EMPTY = score_rows(np.zeros(0, np.bool_), np.zeros(0, np.int64), cap=100, examples=100)
SIZE = (3.0, 2.0)
HISTORY = [(0.0, 0.0), (3.0, 0.2), (400.0, 0.4)]


@pytest.mark.parametrize(
    "drawn",
    [
        lambda: recall_panel([("$x_{ <b>", SCORE), ("other", EMPTY)], size=SIZE),
        lambda: recall_panel([("", EMPTY)], size=SIZE),
        lambda: history_panel([("a", HISTORY), ("b", [])], label="Recall@20", size=SIZE),
        lambda: history_panel([("", [(0.0, 0.0)])], label="rows", size=SIZE),
        lambda: forest_panel([ForestRow("$x_{ <b>", 0.1, (0.0, 0.2), True)] * 61, label="recall").svg,
        lambda: forest_panel([ForestRow("open", -0.1, None, False)], label="recall").svg,
        lambda: forest_panel([], label="recall").svg,
    ],
)
def test_a_panel_is_well_formed_and_reproducible(drawn: Callable[[], str]) -> None:
    first = drawn()
    assert ElementTree.fromstring(first).tag.endswith("svg")
    with matplotlib.rc_context(
        {"font.size": 30, "axes.facecolor": "red", "svg.fonttype": "none", "lines.linewidth": 9}
    ):
        assert drawn() == first
        assert matplotlib.rcParams["font.size"] == 30


def test_many_errors_make_few_points() -> None:
    wrong = score_rows(np.arange(20_000) % 50 == 0, np.arange(20_000), cap=100, examples=20_000)
    assert len(recall_panel([("", wrong)], size=SIZE)) < 80_000
