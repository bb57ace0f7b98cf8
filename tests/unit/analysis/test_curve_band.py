"""The band around a curve of recall vs. errors."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.analysis.parts import Part, curve_band
from harness.core.intervals import JudgedRows
from harness.core.scoring import solved_curve


def band_of(verdicts: list[bool], *, cap: int) -> tuple[JudgedRows, int]:
    return JudgedRows(np.array(verdicts, np.bool_), np.arange(len(verdicts))), cap


@given(st.lists(st.booleans(), min_size=20, max_size=60), st.integers(1, 30))
@settings(max_examples=20)
def test_the_bounds_are_ordered_fractions_and_the_cap_has_one(verdicts: list[bool], cap: int) -> None:
    rows, cap = band_of(verdicts, cap=cap)
    band = curve_band(rows, Part.whole(len(verdicts), cap=cap))
    assert (np.diff(band.errors) > 0).all()
    assert min(cap, verdicts.count(False) + 1) in band.errors
    assert ((band.low >= 0) & (band.low <= band.high) & (band.high <= 1)).all()


def test_the_band_surrounds_the_curve() -> None:
    verdicts = [True, True, False] * 40
    rows, cap = band_of(verdicts, cap=20)
    band = curve_band(rows, Part.whole(len(verdicts), cap=cap))
    recall = solved_curve(*rows)[band.errors - 1] / len(verdicts)
    middle = (band.errors > 2) & (band.errors < 40)
    assert ((band.low <= recall) & (recall <= band.high))[middle].all()
