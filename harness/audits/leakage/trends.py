"""Classify how a sequence's probability changes over growing settings: model sizes, or prefix lengths.

The source's six classes overlap; a partition is reported beside them.
"""

from enum import StrEnum

import numpy as np

from harness.core.arrays import Bools, Floats


class Shape(StrEnum):
    """The positions of the largest and the smallest probability."""

    STRAIGHT = "straight"
    U = "U-shaped"
    INVERTED_U = "inverted-U-shaped"
    BOTH = "largest and smallest inside"
    LEVEL = "ends equal"


CLASSES = tuple((shape, is_up) for shape in (Shape.STRAIGHT, Shape.U, Shape.INVERTED_U) for is_up in (True, False))
"""The source's six classes: a shape, and whether it increases."""
PARTS = (*CLASSES, (Shape.BOTH, True), (Shape.BOTH, False), (Shape.LEVEL, True))
"""The partition."""


def class_name(shape: Shape, is_up: bool) -> str:
    """Return the name of a class in reports."""
    return shape.value if shape is Shape.LEVEL else f"{shape.value}, {'increasing' if is_up else 'decreasing'}"


def source_classes(values: Floats) -> Bools:
    """Return which of `CLASSES` each of n sequences belongs to, [6, n] (Tiwari & Suh 2024, trends).

    values: [settings, n] ESP or any increasing function of it, at least two settings in growing order. Straight: both
    extremes are at the ends; U-shaped: the smallest is inside; inverted: the largest is. A class increases if the last
    value exceeds the first. A sequence with both extremes inside is in two classes, one with equal ends in none. An
    extreme that an end shares with an inner setting counts as being at the end.
    """
    low_inside, high_inside, is_up, is_down = _extremes(values)
    shapes = (~low_inside & ~high_inside, low_inside, high_inside)
    return np.array([shape & direction for shape in shapes for direction in (is_up, is_down)])


def partition(values: Floats) -> Bools:
    """Return which one of `PARTS` each sequence belongs to, [9, n].

    As `source_classes`, with separate parts for sequences with both extremes inside and for those with equal ends.
    """
    low_inside, high_inside, is_up, is_down = _extremes(values)
    shapes = (
        ~low_inside & ~high_inside,
        low_inside & ~high_inside,
        high_inside & ~low_inside,
        low_inside & high_inside,
    )
    sided = [shape & direction for shape in shapes for direction in (is_up, is_down)]
    return np.array([*sided, ~is_up & ~is_down])


def _extremes(values: Floats) -> tuple[Bools, Bools, Bools, Bools]:
    """Return, [n] each: smallest inside, largest inside, last above first, last below first."""
    first, last = values[0], values[-1]
    low_inside = values.min(axis=0) < np.minimum(first, last)
    high_inside = values.max(axis=0) > np.maximum(first, last)
    return low_inside, high_inside, last > first, last < first
