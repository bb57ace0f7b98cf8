"""Redact the findings of an audit: replace the text of the corpus and of the model with its length and hash.

Text stands only in the text columns of tables, in passages, in shaded texts and in the words of heat maps. Titles,
labels, figures, measures and sentences have none: they name files, models and numbers.
"""

import re
from dataclasses import replace
from typing import Any

from harness.core.exports import redact_text
from harness.core.findings import Chart, Findings, FoundTable, HeatMap, Passage, Stretch
from harness.core.text import plain_value

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
