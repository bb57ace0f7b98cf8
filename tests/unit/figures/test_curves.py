"""Plots of recall vs. errors and over time, in files and as panels of a document."""

import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path

import matplotlib
import numpy as np
import pytest

from harness.core.errors import HarnessError
from harness.core.scoring import score_rows
from harness.figures.curves import (
    PlottedRun,
    comparison_figure,
    history_panel,
    recall_panel,
    score_figure,
    write_comparison,
    write_score_figure,
)

SCORE = score_rows(np.arange(90) % 3 > 0, np.arange(90), cap=20, examples=100)
EMPTY = score_rows(np.zeros(0, np.bool_), np.zeros(0, np.int64), cap=100, examples=100)


def test_the_curve_shows_recall_at_every_error():
    line = score_figure(SCORE, title="t").axes[0].get_lines()[0]
    drawn = dict(zip(line.get_xdata(), line.get_ydata(), strict=True))
    assert drawn[SCORE.cap] == SCORE.recall_at_cap
    assert drawn[1] == SCORE.at_errors(1).recall
    assert max(drawn) == 31


def test_precision_is_drawn_vs_recall_with_the_point_at_the_cap():
    axes = score_figure(SCORE, title="t").axes[1]
    curve, at_cap = axes.get_lines()
    assert curve.get_xdata()[-1] == 60 / 100 and curve.get_ydata()[-1] == 60 / 90
    assert at_cap.get_xydata().tolist() == [[SCORE.recall_at_cap, SCORE.precision_at_cap]]


def test_an_svg_is_reproducible_and_well_formed(tmp_path: Path):
    for name in ("one.svg", "two.svg"):
        write_score_figure(SCORE, tmp_path / name, title="guesses.csv")
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
    assert ElementTree.parse(tmp_path / "one.svg").getroot().tag.endswith("svg")


@pytest.mark.parametrize("score", [SCORE, EMPTY])
def test_a_png_has_the_png_signature(score, tmp_path: Path):
    write_score_figure(score, tmp_path / "curve.PNG", title="costs $5 and $6_{x")
    assert (tmp_path / "curve.PNG").read_bytes().startswith(b"\x89PNG")


def test_any_other_format_is_refused(tmp_path: Path):
    with pytest.raises(HarnessError, match=r"\.svg or \.png"):
        write_score_figure(SCORE, tmp_path / "curve.pdf", title="t")
    assert list(tmp_path.iterdir()) == []


def test_a_missing_directory_is_refused(tmp_path: Path):
    with pytest.raises(HarnessError, match="cannot be written"):
        write_score_figure(SCORE, tmp_path / "absent" / "curve.svg", title="t")


OTHER = score_rows(np.arange(90) % 4 > 0, np.arange(90)[::-1], cap=20, examples=100)
TIMES = ((0.0, 0.0), (1.0, 0.1), (90.0, 0.4), (300.0, 0.45))


def drawn(*scores):
    return [PlottedRun(f"run-{place}", score, TIMES) for place, score in enumerate(scores)]


def looks(axes):
    """Return the colour, marker and dash pattern of each drawn curve."""
    curves = [line for line in axes.get_lines() if str(line.get_label()).startswith("run-")]
    return [(line.get_color(), line.get_marker(), line._unscaled_dash_pattern) for line in curves]


def test_compared_curves_differ_in_colour_marker_and_dashes():
    for axes in comparison_figure(drawn(*[SCORE] * 5), [], title="t").axes:
        for kind in zip(*looks(axes), strict=True):
            assert len(set(map(str, kind))) == 5


def test_no_two_of_forty_runs_look_alike():
    assert len(set(map(str, looks(comparison_figure(drawn(*[SCORE] * 40), [], title="t").axes[0])))) == 40


def test_a_comparison_shows_the_cap_and_each_recall_there():
    axes = comparison_figure(drawn(SCORE, OTHER), [], title="t").axes[0]
    lines = {str(line.get_label()).split(":")[0]: line for line in axes.get_lines()}
    assert axes.get_lines()[-1].get_xdata()[0] == SCORE.cap
    for name, score in (("run-0", SCORE), ("run-1", OTHER)):
        assert dict(zip(*lines[name].get_data(), strict=True))[score.cap] == score.recall_at_cap


def test_a_time_axis_has_a_fitting_unit():
    figure = comparison_figure(drawn(SCORE, OTHER), [], title="t")
    assert figure.axes[-1].get_xlabel() == "minutes of the budget spent"


@pytest.mark.parametrize(("runs", "in_panels"), [(2, 2), (12, 0)])
def test_many_runs_share_one_legend_outside_of_the_panels(runs, in_panels):
    figure = comparison_figure(drawn(*[SCORE] * runs), [], title="t")
    assert sum(axes.get_legend() is not None for axes in figure.axes) == in_panels
    assert [len(legend.get_texts()) for legend in figure.legends] == ([] if in_panels else [runs])


def test_not_in_train_examples_have_their_own_panels():
    assert len(comparison_figure(drawn(SCORE, OTHER), [], title="t").axes) == 2
    assert len(comparison_figure(drawn(SCORE, OTHER), drawn(OTHER, OTHER), title="t").axes) == 4


def test_one_run_at_several_times_and_after_several_trials_has_a_row_of_panels():
    moments = [("after 1 s: 0.1", EMPTY), ("after 2 s: 0.2", SCORE)]
    runs = [run._replace(in_time=moments, note="no trials here") for run in drawn(SCORE, OTHER)]
    runs[1] = runs[1]._replace(by_trials=moments, note="")
    times, note, _, trials = comparison_figure(runs, [], title="t").axes[2:]
    assert [text.get_text() for text in times.get_legend().get_texts()] == [label for label, _ in moments]
    assert note.texts[0].get_text() == "no trials here" and trials.get_legend() is not None
    many = comparison_figure([runs[0]] * 7, [], title="t")
    assert len(many.axes) == 2 + 2 * 6
    assert many._suptitle is not None and many._suptitle.get_text() == "t; at several times: the first 6 runs"


def test_runs_without_guesses_are_plotted(tmp_path: Path):
    runs = [PlottedRun("costs $5 and $6_{x", EMPTY, ()), PlottedRun("b", EMPTY, ())]
    for name in ("one.svg", "two.svg", "three.png"):
        write_comparison(runs, [], tmp_path / name, title="$5 and $6_{x")
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
    assert (tmp_path / "three.png").read_bytes().startswith(b"\x89PNG")


SIZE = (3.0, 2.0)
HISTORY = [(0.0, 0.0), (3.0, 0.2), (400.0, 0.4)]


@pytest.mark.parametrize(
    "draw",
    [
        lambda: recall_panel([("$x_{ <b>", SCORE), ("other", EMPTY)], size=SIZE),
        lambda: recall_panel([("", EMPTY)], size=SIZE),
        lambda: history_panel([("a", HISTORY), ("b", [])], label="Recall@20", size=SIZE),
        lambda: history_panel([("", [(0.0, 0.0)])], label="rows", size=SIZE),
    ],
)
def test_a_panel_is_well_formed_and_reproducible(draw: Callable[[], str]) -> None:
    first = draw()
    assert ElementTree.fromstring(first).tag.endswith("svg")
    with matplotlib.rc_context(
        {"font.size": 30, "axes.facecolor": "red", "svg.fonttype": "none", "lines.linewidth": 9}
    ):
        assert draw() == first
        assert matplotlib.rcParams["font.size"] == 30


def test_many_errors_make_few_points() -> None:
    wrong = score_rows(np.arange(20_000) % 50 == 0, np.arange(20_000), cap=100, examples=20_000)
    assert len(recall_panel([("", wrong)], size=SIZE)) < 80_000
