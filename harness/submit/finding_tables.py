"""The tables of an audit's findings as readable text and as Parquet, and findings without the texts that they quote."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.core.exports import csv_cell, redact_text
from harness.core.findings import Chart, Findings, FoundTable, HeatMap, Passage, Stretch
from harness.core.text import NO_VALUE, format_number, format_score, plain_value

if TYPE_CHECKING:
    import pyarrow

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
    values = [cell for cell in map(plain_value, cells) if cell is not None]
    return bool(values) and all(isinstance(cell, int | float) and not isinstance(cell, bool) for cell in values)


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
