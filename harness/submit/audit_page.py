"""An audit's page: what it found, in sentences, pictures, tables and passages, and what it was; one file in itself."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from markupsafe import Markup

from harness.core.findings import Findings, FoundTable, Passage
from harness.core.spec import PathRecord, TargetRecord
from harness.core.text import pluralize, shorten
from harness.core.times import format_duration, utc_date_and_time
from harness.submit.found import column_in_words, headline_figures, is_numeric
from harness.submit.pages import inline_svg, page
from harness.submit.tables import Code, Rows

_MOST_ROWS = 60
_LONGEST_CELL, _LONGEST_VALUE = 240, 160


@dataclass(frozen=True)
class AuditHeader:
    """What an audit was, told before and after what it found.

    audit: its name; status, reason: how it ended or stands; spent, budget: seconds; models: empty where an endpoint,
    `asked`, was; inputs: what it read, by the option that named it; warnings: what was left out or went wrong.
    """

    run: str
    audit: str
    title: str
    reference: str
    status: str
    reason: str
    is_finished: bool
    created_at: float
    spent: float
    budget: float
    models: Sequence[TargetRecord]
    inputs: Mapping[str, PathRecord]
    params: Mapping[str, Any]
    seed: int
    versions: Mapping[str, str]
    sandbox: str
    asked: str = ""
    warnings: Sequence[str] = ()


class ShownChart(NamedTuple):
    """A chart of the page; file: of the same as a picture of its own, relative to the page."""

    title: str
    svg: str
    is_wide: bool
    file: PurePosixPath


class ShownTable(NamedTuple):
    """A table of the page, its cells in words. numeric: which columns are set flush right; rows: of the whole table."""

    title: str
    header: Sequence[str]
    cells: Sequence[Sequence[str]]
    numeric: Sequence[bool]
    rows: int
    csv: PurePosixPath
    parquet: PurePosixPath


def audit_page(
    findings: Findings,
    header: AuditHeader,
    *,
    charts: Sequence[ShownChart],
    files: Sequence[tuple[FoundTable, PurePosixPath, PurePosixPath]],
    is_redacted: bool,
) -> str:
    """The page. files: each table with its CSV and Parquet, relative to the page. Equal findings give equal pages."""
    shown = [_shown(table, csv, parquet) for table, csv, parquet in files]
    details = [table.is_detail for table, _, _ in files]
    return page(
        "audit.html.j2",
        header=header,
        lead=_lead(header),
        caution=_caution(header),
        sentences=findings.sentences,
        figures=headline_figures(findings.figures),
        charts=[(chart, _inline(chart)) for chart in charts],
        tables=[table for table, is_detail in zip(shown, details, strict=True) if not is_detail],
        details=[table for table, is_detail in zip(shown, details, strict=True) if is_detail],
        passages=_with_whole_stretches(findings.passages),
        record=_record(header),
        is_redacted=is_redacted,
    )


def _inline(chart: ShownChart) -> Markup:
    return inline_svg(chart.svg, f"{chart.file.stem}-", chart.title)


def _shown(table: FoundTable, csv: PurePosixPath, parquet: PurePosixPath) -> ShownTable:
    rows = len(next(iter(table.columns.values()), ()))
    first = [list(cells[:_MOST_ROWS]) for cells in table.columns.values()]
    return ShownTable(
        table.title,
        [name.replace("_", " ") for name in table.columns],
        [[shorten(cell, _LONGEST_CELL) for cell in row] for row in zip(*map(column_in_words, first), strict=True)],
        [is_numeric(cells) for cells in first],
        rows,
        csv,
        parquet,
    )


def _with_whole_stretches(passages: Sequence[Passage]) -> Sequence[Passage]:
    """Without empty stretches, and without texts that have nothing in them."""
    return [
        Passage(title, [(label, [stretch for stretch in stretches if stretch.text]) for label, stretches in texts])
        for title, texts in passages
    ]


def _lead(header: AuditHeader) -> str:
    models = ", ".join(model.id for model in header.models) or header.asked
    return f"What {models or 'the target'} memorized"


def _caution(header: AuditHeader) -> str:
    if header.is_finished:
        return ""
    reason = f": {header.reason}" if header.reason else "."
    return f"The audit is {header.status}{reason} What follows counts what it has measured, and may not be all."


def _record(header: AuditHeader) -> Rows:
    rows: Rows = [("Audit", f"{header.title} ({header.audit})"), ("Run", Code(header.run))]
    for model in header.models:
        commit = f" at {model.commit}" if model.commit else ""
        rows.append(("Model", f"{model.id}, revision {model.revision}{commit}, {model.dtype} on {model.device}"))
        rows.append(("… its weights", Code(f"sha256 {model.weights_sha256}")))
    if header.asked:
        rows.append(("Endpoint", header.asked))
    rows += [(name, Code(f"{record.path.name}, sha256 {record.sha256}")) for name, record in header.inputs.items()]
    params = ", ".join(f"{name} = {shorten(str(value), _LONGEST_VALUE)}" for name, value in header.params.items())
    rows += [
        ("Parameters", params or "none"),
        ("Seed", str(header.seed)),
        ("Status", f"{header.status}{f': {header.reason}' if header.reason else ''}"),
        ("Begun", utc_date_and_time(header.created_at)),
        ("Time", f"{format_duration(header.spent)} of {format_duration(header.budget)} (model loading included)"),
        ("Sandbox", header.sandbox),
        ("Versions", ", ".join(f"{name} {version}" for name, version in header.versions.items())),
    ]
    if header.reference:
        rows.append(("After", header.reference))
    if header.warnings:
        rows.append(("Warnings", f"{pluralize(len(header.warnings), 'sentence')}, below"))
    return rows
