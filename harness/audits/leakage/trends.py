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
    extremes are at the ends. U-shaped: the smallest is inside. Inverted: the largest is. A class increases if the last
    value exceeds the first. A sequence with both extremes inside is in two classes, one with equal ends in none. An
    extreme that an end shares with an inner setting counts as being at the end.
    """
    low_inside, high_inside = _extremes_inside(values)
    return _by_direction(values, ~low_inside & ~high_inside, low_inside, high_inside)


def partition(values: Floats) -> Bools:
    """Return which one of `PARTS` each sequence belongs to, [9, n].

    The parts are the source's classes, but sequences with both extremes inside or with equal ends have their own.
    """
    low_inside, high_inside = _extremes_inside(values)
    both = low_inside & high_inside
    parts = _by_direction(values, ~low_inside & ~high_inside, low_inside & ~both, high_inside & ~both, both)
    return np.concatenate([parts, [values[0] == values[-1]]])


def _extremes_inside(values: Floats) -> tuple[Bools, Bools]:
    """Return where the smallest value is below both ends, and where the largest is above both, [n] each."""
    return values.min(axis=0) < np.minimum(values[0], values[-1]), values.max(axis=0) > np.maximum(
        values[0], values[-1]
    )


def _by_direction(values: Floats, *shapes: Bools) -> Bools:
    """Return each of `shapes` [n] divided into sequences that increase and that decrease, [2 * shapes, n]."""
    directions = (values[-1] > values[0], values[-1] < values[0])
    return np.array([shape & direction for shape in shapes for direction in directions])
