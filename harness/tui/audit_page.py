"""The findings of an audit as the TUI shows them, from what its worker stored (`Findings.as_sketch`)."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from textual.content import Content

from harness.core.inputs import as_harness_error
from harness.core.text import format_interval, format_number, format_score, sanitize
from harness.runs.audit_reader import AuditReader
from harness.runs.folder import RunFolder
from harness.tui.columns import Column
from harness.tui.run_list import interval_bar, scale_title
from harness.tui.tables import CellsOf, Table, table_of

_MAX_PASSAGES = 20
_STYLES = {
    "different": "$text-error underline",
    "equal": "$text-success underline",
    "extractable": "$text-primary underline",
}


def read_findings(folder: RunFolder) -> dict[str, Any]:
    """Return the findings that the worker stored last, empty before. Raises HarnessError if they cannot be read."""
    if not folder.store.exists():
        return {}
    with as_harness_error(folder.path), AuditReader(folder.store) as reader:
        return dict(json.loads(reader.findings() or b"{}"))


def verdict(findings: Mapping[str, Any]) -> Content:
    """Return the question with its answer, the evidence and what cannot be concluded; empty without a conclusion."""
    conclusion = findings.get("conclusion") or {}
    if not conclusion:
        return Content("")
    parts: list[tuple[str, str]] = [
        (f"{sanitize(conclusion['question'])} ", "bold"),
        (sanitize(conclusion["answer"]), "bold reverse"),
        (f": {sanitize(conclusion['evidence'])}.", ""),
    ]
    if conclusion["caveat"]:
        parts.append((f"\n{sanitize(conclusion['caveat'])}", "$foreground 70%"))
    return Content.assemble(*parts)


def bar_table(chart: Mapping[str, Any]) -> Table:
    """Return a bar chart as a table, with its intervals as bars on a common scale."""
    bars = chart["bars"]
    ends = [bar[end] for bar in bars for end in ("value", "low", "high") if bar[end] is not None]
    low, high = min([0.0, *ends]), max([0.05, *ends])
    items = {
        str(number): {**bar, "label": "" if number and bar["label"] == bars[number - 1]["label"] else bar["label"]}
        for number, bar in enumerate(bars)
    }
    columns: CellsOf[Mapping[str, Any]] = {
        Column("", min_width=10): lambda bar: [(bar["label"], "bold")],
        Column("of", min_width=7): lambda bar: [(bar["group"], _meaning(bar))],
        Column("share", is_right=True): lambda bar: format_score(bar["value"]),
        Column("95 % interval"): lambda bar: (
            "" if None in (bar["low"], bar["high"]) else format_interval(bar["low"], bar["high"])
        ),
        Column(scale_title(low, high), fills=True, min_width=8): lambda bar: interval_bar(
            bar["value"], (bar["low"], bar["high"]), scale=(low, high), colour=_meaning(bar)
        ),
    }
    return table_of(columns, items)


def places(findings: Mapping[str, Any]) -> list[tuple[str, float]]:
    """Return the place of each passage in the heat map."""
    return [tuple(passage["place"]) for passage in findings.get("passages", ())[:_MAX_PASSAGES] if passage.get("place")]


def passages(findings: Mapping[str, Any], first: tuple[str, float] | None = None) -> Content:
    """Return the tables with texts, and the passages with their marked parts coloured and underlined.

    first: the place of the passage that comes before all others.
    """
    lines: list[Content] = []
    for table in findings.get("text_tables", ()):
        lines.append(Content.styled(sanitize(table["title"]), "bold"))
        for row in list(zip(*table["columns"].values(), strict=True))[:_MAX_PASSAGES]:
            for name, cell in zip(table["columns"], row, strict=True):
                text = cell if isinstance(cell, str) else format_number(cell)
                lines.append(_label(name, [Content(sanitize(text))]))
            lines.append(Content(""))
    shown = findings.get("passages", ())[:_MAX_PASSAGES]
    for passage in sorted(shown, key=lambda passage: first is None or tuple(passage.get("place") or ()) != first):
        lines.append(Content.styled(sanitize(passage["title"]), "bold"))
        style = _STYLES.get(passage["marked"], "underline")
        for text in passage["texts"]:
            parts = [Content.styled(sanitize(part), style if is_marked else "") for part, is_marked in text["text"]]
            lines.append(_label(text["label"], parts))
        lines.append(Content(""))
    return Content("\n").join(lines)


def _meaning(bar: Mapping[str, Any]) -> str:
    return "dim" if bar["is_control"] else "active"


def _label(label: str, parts: Sequence[Content]) -> Content:
    return Content.assemble((f"  {sanitize(label)}  ", "$foreground 70%"), *parts)
