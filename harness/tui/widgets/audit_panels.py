"""An audit in words: its figures as rows, its stages, its warnings and its newest rows, each a pure function."""

from collections.abc import Sequence

from harness.core.text import pluralize, sanitize, shorten
from harness.core.times import time_of_day
from harness.jobs.audit.reader import AuditFigure
from harness.tui.snapshot import AuditRow, AuditSnapshot
from harness.tui.widgets.keyed_table import Row
from harness.tui.widgets.panels import gauge, machine_lines

FIGURE_COLUMNS = ("figure", "value", "95 % interval", "out of")
_LONGEST_NAME, _LONGEST_STAGE = 48, 24
_STAGE_GAUGE = 12
_MOST_WARNINGS = 20


def figure_rows(figures: Sequence[AuditFigure]) -> list[Row]:
    """A row a figure, by its name."""
    return [
        Row(
            figure.name,
            (
                shorten(figure.name, _LONGEST_NAME),
                _number(figure.value),
                "" if figure.low is None or figure.high is None else f"[{figure.low:.4g}, {figure.high:.4g}]",
                f"{figure.of:,}" if figure.of else "",
            ),
        )
        for figure in figures
    ]


def progress_lines(snapshot: AuditSnapshot) -> list[str]:
    """Each stage with what is done of it, what the machine does meanwhile, and what was left out."""
    stages = [(shorten(sanitize(work.stage), _LONGEST_STAGE), work) for work in snapshot.stages]
    widest = max((len(name) for name, _ in stages), default=0)
    lines = []
    for name, work in stages:
        share = min(1.0, work.done / work.announced) if work.announced > 0 else 1.0
        bar = gauge(share, _STAGE_GAUGE)
        lines.append(f"{name:<{widest}}  {bar} {share:>4.0%}  {work.batches_done:,} done")
    if not stages:
        lines.append("no stage was begun yet")
    lines.append(pluralize(snapshot.summary.guesses, "row") + " written")
    if not snapshot.summary.status.is_over:
        lines += machine_lines(snapshot.telemetry)
    return lines + warning_lines(snapshot.warnings)


def warning_lines(warnings: Sequence[str]) -> list[str]:
    """What was left out or went wrong, the newest first."""
    if not warnings:
        return []
    lines = ["", f"{pluralize(len(warnings), 'warning')}:"]
    lines += [f"! {sanitize(sentence)}" for sentence in reversed(warnings[-_MOST_WARNINGS:])]
    rest = len(warnings) - _MOST_WARNINGS
    return lines + ([f"… and {rest:,} before"] if rest > 0 else [])


def row_line(row: AuditRow) -> str:
    """`14:03:59 reply · document 3 · text …`, on one line."""
    return sanitize(f"{time_of_day(row.at)} {row.table} · {row.words}")


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"
