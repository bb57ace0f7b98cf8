"""The drawn curve."""

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

from harness.core.errors import HarnessError
from harness.core.scoring import score_rows
from harness.figures.curves import recall_figure, write_recall_curve

SCORE = score_rows(np.arange(90) % 3 > 0, np.arange(90), cap=20, examples=100)
EMPTY = score_rows(np.zeros(0, np.bool_), np.zeros(0, np.int64), cap=100, examples=100)


def test_the_curve_passes_through_the_recall_at_every_number_of_errors():
    line = recall_figure(SCORE, title="t").axes[0].get_lines()[0]
    drawn = dict(zip(line.get_xdata(), line.get_ydata(), strict=True))
    assert drawn[SCORE.cap] == SCORE.recall_at_cap
    assert drawn[1] == SCORE.at_errors(1).recall
    assert max(drawn) == 31


def test_an_svg_has_the_same_bytes_each_time_and_is_well_formed(tmp_path: Path):
    for name in ("one.svg", "two.svg"):
        write_recall_curve(SCORE, tmp_path / name, title="guesses.csv")
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
    assert ElementTree.parse(tmp_path / "one.svg").getroot().tag.endswith("svg")


@pytest.mark.parametrize("score", [SCORE, EMPTY])
def test_a_png_is_one_by_its_bytes(score, tmp_path: Path):
    write_recall_curve(score, tmp_path / "curve.PNG", title="costs $5 and $6_{x")
    assert (tmp_path / "curve.PNG").read_bytes().startswith(b"\x89PNG")


def test_any_other_format_is_refused_before_anything_is_written(tmp_path: Path):
    with pytest.raises(HarnessError, match=r"\.svg or \.png"):
        write_recall_curve(SCORE, tmp_path / "curve.pdf", title="t")
    assert list(tmp_path.iterdir()) == []


def test_a_missing_folder_is_one_sentence(tmp_path: Path):
    with pytest.raises(HarnessError, match="cannot be written"):
        write_recall_curve(SCORE, tmp_path / "absent" / "curve.svg", title="t")
