"""The findings of an audit as data: conclusion, figures, tables, charts, passages. They say nothing of rendering."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.core.measures import MeasureTable
from harness.core.text import json_value


class Series(NamedTuple):
    """A line through points. x, y: [points]; low, high: [points] bounds of a shaded interval. A reference is dashed.

    Series with the same `key`, or name if it has none, have the same colour in all charts of an audit.
    """

    name: str
    x: NDArray[Any]
    y: NDArray[Any]
    low: NDArray[Any] | None = None
    high: NDArray[Any] | None = None
    is_dashed: bool = False
    key: str = ""


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
    """A value per label and group. values, and low and high, the ends of the intervals: [groups, labels].

    `controls` are the groups to compare with. Like a dashed series, they are drawn in the colour of references.
    """

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
    controls: tuple[str, ...] = ()


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
    bounds: tuple[float, ...] = ()
    """Ascending values at which the colour changes; a continuous scale if empty."""


Chart = LineChart | BarChart | HeatMap


@dataclass(frozen=True)
class ShadedText:
    """A whole text whose characters are coloured by a value. values: [characters], NaN for none.

    name: of the file, without an extension.
    bounds: at most four ascending values at which the colour changes.
    """

    name: str
    title: str
    text: str
    values: NDArray[Any]
    bounds: tuple[float, ...]


def bars_as_json(chart: BarChart) -> dict[str, Any]:
    """Return the chart as a JSON object: one bar per label and group, null where there is no number."""

    ends = {"value": chart.values, "low": chart.low, "high": chart.high}
    bars = [
        {"label": label, "group": group, "is_control": group in chart.controls}
        | {name: None if array is None else json_value(float(array[row, column])) for name, array in ends.items()}
        for column, label in enumerate(chart.labels)
        for row, group in enumerate(chart.groups)
    ]
    return {"title": chart.title, "bars": bars}


def heat_map_as_json(chart: HeatMap) -> dict[str, Any]:
    """Return the chart as a JSON object; null where there is no number."""
    values = json_value(np.asarray(chart.values, np.float64))
    return {
        "title": chart.title,
        "rows": list(chart.row_labels),
        "columns": list(chart.column_labels),
        "values": values,
        "bounds": list(chart.bounds),
    }


class Marked(StrEnum):
    """The meaning of the marked parts of a passage."""

    DIFFERENT = "different"
    EQUAL = "equal"
    EXTRACTABLE = "extractable"


class Stretch(NamedTuple):
    """A part of a text. A report highlights the marked ones."""

    text: str
    is_marked: bool = False


class Passage(NamedTuple):
    """Texts that belong together, each with a label, such as a prompt, its suffix and the model's completion.

    `marked` tells whether the marked parts differ, are equal, or can be extracted. place: the row of the heat map by
    its label, and where the middle of the passage is in it, from 0 to 1.
    """

    title: str
    texts: Sequence[tuple[str, Sequence[Stretch]]]
    marked: Marked = Marked.DIFFERENT
    place: tuple[str, float] | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the passage as a JSON object.

        Keys:
            title (string): Title of the passage.
            marked (Marked): Meaning of the marked parts.
            texts (object[]): Texts that belong together.
                label (string): Label of the text.
                text (any[]): Parts of the text, each with true if it is marked.
            place (any[]?): Row of the heat map, and where the middle of the passage is in it, from 0 to 1. Null without
                a map.
        """
        texts = [{"label": label, "text": [list(part) for part in parts]} for label, parts in self.texts]
        return {"title": self.title, "marked": str(self.marked), "texts": texts, "place": self.place}


class KeyFigure(NamedTuple):
    """One of the few figures that sum up an audit or a run: its name, its value, and details such as an interval."""

    name: str
    value: str
    details: str = ""
    number: float | None = None
    """The value as MLflow logs it, if it is measured."""


@dataclass(frozen=True)
class Conclusion:
    """The question of an audit and its answer, the first line wherever an audit is shown."""

    question: str
    """Question of the audit."""
    answer: str
    """A word or two, such as "Probably"."""
    evidence: str
    """A clause with the numbers behind the answer."""
    caveat: str = ""
    """Limits of the answer: what cannot be concluded. Empty without limits."""
    key_figures: Sequence[KeyFigure] = ()

    def as_json(self) -> dict[str, str]:
        """Return the texts as a JSON object.

        Keys:
            question, answer, evidence, caveat
        """
        return {"question": self.question, "answer": self.answer, "evidence": self.evidence, "caveat": self.caveat}

    @property
    def sentence(self) -> str:
        """The question with its answer and the evidence."""
        return f"{self.question} {self.answer}: {self.evidence}."


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
    """Everything that an audit reports.

    figures: facts by name, such as `is_complete`; measures: every measured value; sentences: how to read
    the findings; conclusion: None if the audit asks no question; definitions: the meaning of each technical term in
    titles, labels and columns; is_redacted: texts of the corpus and of the model are replaced with their length and
    hash.
    """

    figures: Mapping[str, Any]
    sentences: Sequence[str] = ()
    tables: Sequence[FoundTable] = ()
    charts: Sequence[Chart] = ()
    passages: Sequence[Passage] = ()
    texts: Sequence[ShadedText] = ()
    conclusion: Conclusion | None = None
    definitions: Mapping[str, str] = field(default_factory=dict)
    measures: MeasureTable = field(default_factory=MeasureTable)
    is_redacted: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return what `--json` prints: the texts, the figures and the measures.

        Keys:
            conclusion (Conclusion?): Answer to the question of the audit.
            text_tables (object[]): Tables with texts, such as the likeliest sequences of `leakage`.
                title (string): Title of the table.
                columns (object): Cells of each column, by its name.
            passages (Passage[]): Texts of the corpus and of the model.
            measures (MeasureTable[]): Measured values. What does not apply to a value is null.
        """
        return {**self._texts_as_json(), **json_value(self.figures), "measures": self.measures.as_json()}

    def as_sketch(self) -> dict[str, Any]:
        """Return what a live view shows, as a JSON object: the texts, the first bar chart and the map with bounds."""
        bars = [bars_as_json(chart) for chart in self.charts if isinstance(chart, BarChart)]
        maps = [heat_map_as_json(chart) for chart in self.charts if isinstance(chart, HeatMap) and chart.bounds]
        return {**self._texts_as_json(), "bar_charts": bars[:1], "heat_maps": maps[:1]}

    def _texts_as_json(self) -> dict[str, Any]:
        return {
            "conclusion": None if self.conclusion is None else self.conclusion.as_json(),
            "text_tables": [
                {"title": table.title, "columns": json_value(table.columns)}
                for table in self.tables
                if table.text_columns and not table.is_detail
            ],
            "passages": [passage.as_json() for passage in self.passages],
        }
