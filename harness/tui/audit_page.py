"""The findings of an audit as the TUI shows them, from what `harness show --json` prints."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from textual.content import Content

from harness.core.text import format_interval, format_score, sanitize
from harness.tui.columns import Cell, Column, Row
from harness.tui.run_list import interval_bar, scale_title

_SUBJECT, _CONTROL = "active", "dim"
_MOST_PASSAGES = 20
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


def verdict(found: Mapping[str, Any]) -> Content:
    """Return the question with its answer, the evidence and what cannot be concluded; empty without a conclusion."""
    conclusion = found.get("conclusion") or {}
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


def bar_table(found: Mapping[str, Any]) -> Bars | None:
    """Return the first chart with its intervals as bars on a common scale; None without a chart."""
    charts: Sequence[Mapping[str, Any]] = found.get("bar_charts", ())
    if not charts:
        return None
    bars = charts[0]["bars"]
    ends = [bar[end] for bar in bars for end in ("value", "low", "high") if bar[end] is not None]
    low, high = min([0.0, *ends]), max([0.05, *ends])
    columns = [
        Column("", least=10),
        Column("of", least=7),
        Column("share", is_right=True),
        Column("95 % interval"),
        Column(scale_title(low, high), fills=True, least=8),
    ]
    rows, before = [], ""
    for number, bar in enumerate(bars):
        value, interval = bar["value"], (bar["low"], bar["high"])
        meaning = _CONTROL if bar["is_control"] else _SUBJECT
        drawn: Cell = ""
        if value is not None:
            start, end = (value if bound is None else bound for bound in interval)
            drawn = interval_bar(value, start, end, scale=(low, high), colour=meaning)
        known = None not in interval
        cells: list[Cell] = [
            [("" if bar["label"] == before else bar["label"], "bold")],
            [(bar["group"], meaning)],
            format_score(value),
            format_interval(*interval) if known else "",
            drawn,
        ]
        rows.append(Row(str(number), cells))
        before = bar["label"]
    return Bars(str(charts[0]["title"]), columns, rows)


def passages(found: Mapping[str, Any]) -> Content:
    """Return the passages with their marked parts coloured and underlined."""
    lines: list[Content] = []
    for passage in found.get("passages", ())[:_MOST_PASSAGES]:
        lines.append(Content.styled(sanitize(passage["title"]), "bold"))
        style = _STYLES.get(passage["marked"], "underline")
        for text in passage["texts"]:
            parts = [(sanitize(part), style if is_marked else "") for part, is_marked in text["text"]]
            lines.append(Content.assemble((f"  {sanitize(text['label'])}  ", "$foreground 55%"), *parts))
        lines.append(Content(""))
    return Content("\n").join(lines)
