"""The HTML page of an audit, and its cells and tables as readable text and as Parquet."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from harness.core.exports import csv_cell, redact_text
from harness.core.findings import (
    BarChart,
    Chart,
    Findings,
    FoundTable,
    HeatMap,
    LineChart,
    Marked,
    Passage,
    ShadedText,
    Stretch,
)
from harness.core.text import NO_VALUE, format_bound, format_number, format_score, plain_value, pluralize, shorten
from harness.figures.palette import RISING
from harness.runs.facts import RunRecord
from harness.runs.specs import AuditSpec
from harness.runs.status import Status
from harness.runs.summary import RunSummary
from harness.submit.html_page import explained, inline_svg, page, terms_of
from harness.submit.run_tables import Rows, fact_rows

if TYPE_CHECKING:
    import pyarrow

    from harness.figures.sheet import Drawing


_NUMBER = re.compile(r"[\s\d.,:%×+\-−–±/()\[\]]*")


def redact_findings(findings: Findings) -> Findings:
    """Return the findings with every text column and passage replaced by length and hash.

    Heat maps lose the words in their cells. Whole texts are left out.
    """
    return replace(
        findings,
        tables=[_redact_table(table) for table in findings.tables],
        charts=[_redact_chart(chart) for chart in findings.charts],
        passages=[_redact_passage(passage) for passage in findings.passages],
        texts=(),
        is_redacted=True,
    )


def _redact_table(table: FoundTable) -> FoundTable:
    columns = {
        name: [_redact_cell(plain_value(cell)) for cell in cells] if name in table.text_columns else cells
        for name, cells in table.columns.items()
    }
    return replace(table, columns=columns)


def _redact_cell(cell: Any) -> Any:
    if isinstance(cell, list):
        return [_redact_cell(item) for item in cell]
    return redact_text(cell) if isinstance(cell, str) else cell


def _redact_passage(passage: Passage) -> Passage:
    texts = [
        (label, (Stretch(redact_text("".join(stretch.text for stretch in stretches))),))
        for label, stretches in passage.texts
    ]
    return passage._replace(texts=texts)


def _redact_chart(chart: Chart) -> Chart:
    """Return the chart without words in its cells: they are a text in its order, although each reveals nothing."""
    if not isinstance(chart, HeatMap) or all(_NUMBER.fullmatch(word) for row in chart.words or () for word in row):
        return chart
    return replace(chart, words=None)


def format_value(value: Any) -> str:
    """Return a cell as readable text: `1,234`, `0.124`, or a dash for None."""
    value = plain_value(value)
    if value is None:
        return NO_VALUE
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return format_number(value)
    if isinstance(value, list):
        return ", ".join(map(format_value, value))
    return str(value)


def format_column(cells: Sequence[Any]) -> list[str]:
    """Return the cells of a column as readable text.

    A column of shares, all from 0.001 to 1 or 0, is written like scores, so that it aligns. Any other has 3 significant
    digits.
    """
    plain = [plain_value(cell) for cell in cells]
    fractions = [abs(cell) for cell in plain if isinstance(cell, float)]
    if fractions and all(cell == 0 or 0.001 <= cell <= 1 for cell in fractions):
        return [format_score(cell) if isinstance(cell, float) else format_value(cell) for cell in plain]
    return list(map(format_value, plain))


def is_numeric_column(cells: Sequence[Any]) -> bool:
    """Return True for a column that contains numbers only, apart from missing values."""
    known = [cell for cell in map(plain_value, cells) if cell is not None]
    return bool(known) and all(isinstance(cell, int | float) and not isinstance(cell, bool) for cell in known)


def named_figures(figures: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the name and text of each figure that is a single value."""
    return [
        (name.replace("_", " "), format_value(value))
        for name, value in figures.items()
        if not isinstance(value, Mapping | list | tuple)
    ]


def row_count(table: FoundTable) -> int:
    """Return the number of rows of a table."""
    return len(next(iter(table.columns.values()), ()))


def write_parquet(table: FoundTable, path: Path) -> None:
    """Write a table as Parquet, with the types that pyarrow infers. A column of mixed types becomes text.

    NaN becomes a missing value. Raises ValueError if the columns have different lengths.
    """
    import pyarrow
    import pyarrow.parquet

    columns = {whole_text(name): _arrow_column(list(map(plain_value, cells))) for name, cells in table.columns.items()}
    pyarrow.parquet.write_table(pyarrow.table(columns), path, compression="zstd")


def whole_text(text: str) -> str:
    """Return `text` with each lone surrogate, which UTF-8 cannot encode, replaced by U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _arrow_column(cells: list[Any]) -> "pyarrow.Array":
    import pyarrow

    cells = [whole_text(cell) if isinstance(cell, str) else cell for cell in cells]
    try:
        column = pyarrow.array(cells)
        # A column has one type in every audit, also where its cells are empty or whole by chance.
        if pyarrow.types.is_null(column.type):
            return column.cast(pyarrow.float64())
        return column.cast(pyarrow.list_(pyarrow.float64())) if pyarrow.types.is_list(column.type) else column
    except (ValueError, TypeError, OverflowError):
        texts = [cell if cell is None or isinstance(cell, str) else csv_cell(cell) for cell in cells]
        return pyarrow.array(texts, pyarrow.string())


_MAX_ROWS = 60
_LONE_RETURN = re.compile(r"\r(?!\n)")
_MAX_CELL = 240
_RECORD = (
    *("attack", "run", "models", "endpoint", "inputs", "params", "seed", "status", "created_utc", "time", "sandbox"),
    "versions",
)
"""The facts of the record, in their order."""


@dataclass(frozen=True, kw_only=True)
class AuditHeader(RunRecord):
    """The record of an audit, which its page shows around the findings. `title` and `reference` are the audit's."""

    spec: AuditSpec
    summary: RunSummary
    title: str
    reference: str

    @property
    def model(self) -> str:
        """The names of the audited models, or the address of an endpoint."""
        loaded = [model.name for model in self.spec.models if not model.is_tokenizer_only]
        return self.endpoint or ", ".join(loaded) or "the target"

    @property
    def endpoint(self) -> str:
        """The address of the audited model, '' if the audit loaded its models."""
        return str(self.spec.params.get("endpoint") or "")


def audit_page(
    findings: Findings,
    header: AuditHeader,
    *,
    charts: Sequence[tuple[Chart, "Drawing", PurePosixPath]],
    tables: Sequence[tuple[FoundTable, PurePosixPath]],
    texts: Sequence[tuple[str, PurePosixPath]],
) -> str:
    """Return the page. Equal findings give equal pages.

    `charts` have their drawing and their SVG file, `tables` their Parquet file, and `texts` are the titles and pages of
    shaded texts. Files are relative to the page.
    """
    definitions = findings.definitions
    return page(
        "audit.html.j2",
        findings=findings,
        header=header,
        caution=_caution(header.summary),
        figures=named_figures(findings.figures),
        charts=charts,
        tables=tables,
        texts=texts,
        marks=_MARKS[findings.passages[0].marked] if findings.passages else "",
        passages=[_without_empty_stretches(passage) for passage in findings.passages],
        record=_record(header),
        # The template asks for them in the order of the page, which defines a term where it appears first.
        new_terms=partial(_new_in, dict(definitions)),
        explain=lambda text: explained(text, definitions),
        inline=inline_svg,
        words_of=_words_of,
        columns_of=_page_columns,
        row_count=row_count,
    )


_MARKS = {
    Marked.DIFFERENT: "Red marks what differs.",
    Marked.EQUAL: "Green marks what is equal, word for word.",
    Marked.EXTRACTABLE: "Blue marks what can be extracted.",
}


def _new_in(missing: dict[str, str], texts: Iterable[str]) -> list[tuple[str, str]]:
    """Return the terms in `texts` that are still missing, with their meaning, and remove them from `missing`."""
    return [(term, missing.pop(term)) for term in terms_of(texts, missing)]


def _words_of(chart: Chart) -> list[str]:
    """Return the texts on a chart that may contain a defined term."""
    match chart:
        case LineChart():
            return [chart.title, chart.x_label, chart.y_label, *(series.name for series in chart.series)]
        case BarChart():
            return [chart.title, chart.y_label, *chart.labels, *chart.groups]
        case HeatMap():
            return [chart.title]


class ColourSpan(NamedTuple):
    """Consecutive characters of one colour: the number of bounds that they reach, None without a value; their lines."""

    band: int | None
    lines: list[str]


def shaded_text_page(shaded: ShadedText) -> str:
    """Return a page with the whole text, every character on the colour of its value."""
    bounds = [format_bound(bound) for bound in shaded.bounds]
    names = [f"below {bounds[0]}", *(f"{bound} and more" for bound in bounds)]
    band = np.where(np.isnan(shaded.values), -1, np.digitize(shaded.values, shaded.bounds))
    edges = [0, *(np.flatnonzero(np.diff(band)) + 1).tolist(), len(shaded.text)]
    text = _LONE_RETURN.sub("\n", shaded.text)
    spans = [
        ColourSpan(int(band[start]) if band[start] >= 0 else None, text[start:stop].replace("\r", "").split("\n"))
        for start, stop in pairwise(edges)
        if stop > start
    ]
    return page("shaded_text.html.j2", title=shaded.title, spans=spans, colours=list(zip(RISING, names, strict=False)))


def _page_columns(table: FoundTable) -> list[tuple[str, bool, list[str]]]:
    """Return the name of each column, True if it is aligned right, and its first cells as text."""
    first = {name: list(cells[:_MAX_ROWS]) for name, cells in table.columns.items()}
    return [
        (name.replace("_", " "), is_numeric_column(cells), [shorten(cell, _MAX_CELL) for cell in format_column(cells)])
        for name, cells in first.items()
    ]


def _without_empty_stretches(passage: Passage) -> Passage:
    texts = [(label, [stretch for stretch in stretches if stretch.text]) for label, stretches in passage.texts]
    return passage._replace(texts=texts)


def _caution(summary: RunSummary) -> str:
    if summary.status is Status.FINISHED:
        return ""
    reason = f": {summary.reason.rstrip('.')}" if summary.reason else ""
    return f"The audit is {summary.status.words}{reason}. The findings cover only what was measured before."


def _record(header: AuditHeader) -> Rows:
    rows: Rows = [("Title", header.title), *fact_rows(header, _RECORD)]
    if header.reference:
        rows.append(("Reference", header.reference))
    if header.warnings:
        rows.append(("Warnings", f"{pluralize(len(header.warnings), 'warning')}, listed below"))
    return rows
