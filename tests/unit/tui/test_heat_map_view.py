"""The cells of a heat map on the screen."""

import numpy as np

from harness.tui.widgets.heat_map_view import bands_of, legend, resample, shade

BOUNDS = [0.001, 0.01, 0.1, 0.5]


def test_a_value_at_a_bound_reaches_it() -> None:
    values = np.array([[0.0, 0.001, 0.02, 0.3, 0.5, np.nan]])
    assert bands_of(values, BOUNDS).tolist() == [[0, 1, 2, 3, 4, -1]]


def test_fewer_cells_show_the_largest_value_of_each() -> None:
    bands = np.array([0, 4, 0, 1, -1, -1])
    assert resample(bands, 3).tolist() == [4, 1, -1]
    assert resample(bands, 6).tolist() == bands.tolist()
    assert resample(bands, 12).tolist() == np.repeat(bands, 2).tolist()
    assert len(resample(np.arange(400), 57)) == 57


def test_cells_are_denser_the_larger_their_value() -> None:
    parts = shade(np.array([-1, 0, 0, 1, 2, 3, 4, 7]))
    assert "".join(text for text, _ in parts) == " ··░▒▓██"
    assert [style for _, style in parts] == ["", "$foreground 30%", "$text-primary"]
    assert legend(BOUNDS) == "· below  ░ ≥ 0.1 %  ▒ ≥ 1 %  ▓ ≥ 10 %  █ ≥ 50 %  blank: not measured"
