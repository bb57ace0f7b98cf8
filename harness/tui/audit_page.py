"""The findings of an audit as the TUI shows them, from what its worker stored (`Findings.as_sketch`)."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from textual.content import Content

from harness.core.text import format_interval, format_number, format_score, sanitize
from harness.tui.columns import Cell, Column, Row
from harness.tui.run_list import interval_bar, scale_title

_MAX_PASSAGES = 20
_STYLES = {
    "different": "$text-error underline",
    "equal": "$text-success underline",
    "extractable": "$text-primary underline",
}


class Bars(NamedTuple):
    """A table of bars: its title, columns and rows."""

    title: str
    columns: list[Column]
    rows: list[Row]


def verdict(findings: Mapping[str, Any]) -> Content:
    """Return the question with its answer, the evidence and what cannot be concluded; empty without a conclusion."""
    conclusion = findings.get("conclusion") or {}
    if not conclusion:
        return Content("")
    parts: list[tuple[str, str]] = [
        (f"{sanitize(conclusion['question'])} ", "bold"),
        (sanitize(conclusion["answer"]), "bold reverse"),
        (f"  {sanitize(conclusion['evidence'])}.", ""),
    ]
    if conclusion["caveat"]:
        parts.append((f"\n{sanitize(conclusion['caveat'])}", "$foreground 55%"))
    return Content.assemble(*parts)


def bar_table(findings: Mapping[str, Any]) -> Bars | None:
    """Return the first chart with its intervals as bars on a common scale; None without a chart."""
    charts: Sequence[Mapping[str, Any]] = findings.get("bar_charts", ())
    if not charts:
        return None
    bars = charts[0]["bars"]
    ends = [bar[end] for bar in bars for end in ("value", "low", "high") if bar[end] is not None]
    low, high = min([0.0, *ends]), max([0.05, *ends])
    columns = [
        Column("", min_width=10),
        Column("of", min_width=7),
        Column("share", is_right=True),
        Column("95 % interval"),
        Column(scale_title(low, high), fills=True, min_width=8),
    ]
    rows = []
    for number, (bar, before) in enumerate(zip(bars, [None, *bars], strict=False)):
        value, interval, meaning = bar["value"], (bar["low"], bar["high"]), "dim" if bar["is_control"] else "active"
        start, end = (value if bound is None else bound for bound in interval)
        cells: list[Cell] = [
            [("" if before is not None and bar["label"] == before["label"] else bar["label"], "bold")],
            [(bar["group"], meaning)],
            format_score(value),
            "" if None in interval else format_interval(*interval),
            "" if value is None else interval_bar(value, start, end, scale=(low, high), colour=meaning),
        ]
        rows.append(Row(str(number), cells))
    return Bars(str(charts[0]["title"]), columns, rows)


def passages(findings: Mapping[str, Any]) -> Content:
    """Return the tables with texts, and the passages with their marked parts coloured and underlined."""
    lines: list[Content] = []
    for table in findings.get("text_tables", ()):
        lines.append(Content.styled(sanitize(table["title"]), "bold"))
        for row in list(zip(*table["columns"].values(), strict=True))[:_MAX_PASSAGES]:
            for name, cell in zip(table["columns"], row, strict=True):
                text = cell if isinstance(cell, str) else format_number(cell)
                lines.append(_label(name, [Content(sanitize(text))]))
            lines.append(Content(""))
    for passage in findings.get("passages", ())[:_MAX_PASSAGES]:
        lines.append(Content.styled(sanitize(passage["title"]), "bold"))
        style = _STYLES.get(passage["marked"], "underline")
        for text in passage["texts"]:
            parts = [Content.styled(sanitize(part), style if is_marked else "") for part, is_marked in text["text"]]
            lines.append(_label(text["label"], parts))
        lines.append(Content(""))
    return Content("\n").join(lines)


def _label(label: str, parts: Sequence[Content]) -> Content:
    return Content.assemble((f"  {sanitize(label)}  ", "$foreground 55%"), *parts)
