"""The findings of an audit as data: figures, sentences, tables, charts and passages, independent of their rendering."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from numpy.typing import NDArray


class Series(NamedTuple):
    """A line through points. x, y: [points]; low, high: [points] bounds of a shaded interval. A reference is dashed."""

    name: str
    x: NDArray[Any]
    y: NDArray[Any]
    low: NDArray[Any] | None = None
    high: NDArray[Any] | None = None
    is_dashed: bool = False


@dataclass(frozen=True)
class LineChart:
    """Series over a common axis. name: of the file, without an extension."""

    name: str
    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    is_x_logarithmic: bool = False
    is_y_logarithmic: bool = False
    has_markers: bool = False


@dataclass(frozen=True)
class BarChart:
    """A value per label and group. values, and low and high, the ends of the intervals: [groups, labels]."""

    name: str
    title: str
    y_label: str
    labels: Sequence[str]
    groups: Sequence[str]
    values: NDArray[Any]
    low: NDArray[Any] | None = None
    high: NDArray[Any] | None = None
    reference: float | None = None
    """The height of a horizontal line, such as chance."""


@dataclass(frozen=True)
class HeatMap:
    """Coloured cells. values: [rows, columns], NaN for a blank cell; words: [rows][columns] texts in the cells."""

    name: str
    title: str
    row_labels: Sequence[str]
    column_labels: Sequence[str]
    values: NDArray[Any]
    words: Sequence[Sequence[str]] | None = None
    is_diverging: bool = False
    """True if zero is the middle of the colour scale."""


Chart = LineChart | BarChart | HeatMap


class Stretch(NamedTuple):
    """A part of a text. A report highlights the marked ones."""

    text: str
    is_marked: bool = False


class Passage(NamedTuple):
    """Texts that belong together, each with a label, such as a prompt, its suffix and the model's completion."""

    title: str
    texts: Sequence[tuple[str, Sequence[Stretch]]]


@dataclass(frozen=True)
class FoundTable:
    """Columns of equally many cells: text, numbers, or None for no value.

    is_detail: the table is written to a file and not shown on a page or a terminal; text_columns: columns with text of
    the corpus or of the model, which a redacted audit omits.
    """

    name: str
    title: str
    columns: Mapping[str, Sequence[Any]]
    is_detail: bool = False
    text_columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Findings:
    """Everything that an audit reports. figures: the output of `--json`; sentences: how to read the findings."""

    figures: Mapping[str, Any]
    sentences: Sequence[str] = ()
    tables: Sequence[FoundTable] = ()
    charts: Sequence[Chart] = ()
    passages: Sequence[Passage] = ()
