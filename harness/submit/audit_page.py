"""The HTML page of an audit, and the pages of its shaded texts."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from harness.core.findings import BarChart, Chart, Findings, FoundTable, HeatMap, LineChart, Marked, ShadedText
from harness.core.text import format_bound, pluralize, shorten
from harness.figures.palette import RISING
from harness.runs.facts import RunRecord
from harness.runs.specs import AuditSpec
from harness.runs.status import Status
from harness.runs.summary import RunSummary
from harness.submit.finding_tables import format_column, is_numeric_column, named_figures, row_count
from harness.submit.html_page import explained, inline_svg, page, take_terms
from harness.submit.run_tables import Rows, fact_rows

if TYPE_CHECKING:
    from harness.figures.sheet import Drawing

_MAX_ROWS = 60
_LONE_RETURN = re.compile(r"\r(?!\n)")
_MAX_CELL = 240
_RECORD = (
    *("attack", "run", "models", "endpoint", "inputs", "params", "seed", "status", "created_utc", "time", "sandbox"),
    "versions",
)
"""The facts of the record, in their order."""
_MARKS = {
    Marked.DIFFERENT: "Red marks what differs.",
    Marked.EQUAL: "Green marks what is equal, word for word.",
    Marked.EXTRACTABLE: "Blue marks what can be extracted.",
}


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
        record=_record(header),
        # The template asks for them in the order of the page, which defines a term where it appears first.
        new_terms=partial(take_terms, dict(definitions)),
        explain=lambda text: explained(text, definitions),
        inline=inline_svg,
        words_of=_words_of,
        columns_of=_page_columns,
        row_count=row_count,
    )


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
