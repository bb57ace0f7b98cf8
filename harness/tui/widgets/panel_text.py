"""The text of the panels of a run and of an audit: pure functions of a snapshot."""

from collections.abc import Iterable, Mapping, Sequence

from harness.core.text import pluralize, sanitize, shorten
from harness.core.times import format_duration, time_of_day
from harness.jobs.audit.reader import AuditFigure
from harness.tui.snapshot import AuditRow, AuditSnapshot, RunSnapshot, Snapshot
from harness.tui.widgets.keyed_table import Row

FIGURE_COLUMNS = ("figure", "value", "95 % interval", "n")
_MIN_BAR_CELLS, _MAX_BAR_CELLS, _STAGE_BAR_CELLS = 6, 40, 12
_MAX_NAME, _MAX_STAGE = 48, 24
_MAX_WARNINGS = 20
_LABEL_CELLS = 25
_BLOCKS = "▁▂▃▄▅▆▇█"


def header_lines(snapshot: Snapshot, *, width: int) -> tuple[str, str]:
    """Return two lines: attack, round, status, id and target; a bar of the budget, time left, progress and ETA.

    The bar takes the part of `width` columns that the text leaves.
    """
    summary = snapshot.summary
    target = "" if summary.target is None else f" · target {sanitize(summary.target)}"
    blind = " (blind)" if summary.is_blind else ""
    first = (
        f"{sanitize(summary.shown_attack)} on {sanitize(summary.round)}{blind} · {summary.status.words} · "
        f"{sanitize(summary.id)}{target}"
    )
    left = max(0.0, summary.budget_s - summary.elapsed_s)
    elapsed, budget = format_duration(summary.elapsed_s), format_duration(summary.budget_s)
    parts = [f"{elapsed} of {budget}, {format_duration(left)} left"]
    if summary.progress is not None:
        parts.append(f"{summary.progress:.0%} done")
    if summary.eta_s is not None:
        parts.append(f"ETA {format_duration(summary.eta_s)} ({'within' if summary.eta_s <= left else 'over'} budget)")
    if snapshot.fault is not None:
        return first, " · ".join([f"cannot be read now: {sanitize(snapshot.fault)}", *parts])
    if summary.reason:
        parts.append(sanitize(summary.reason))
    text = " · ".join(parts)
    return first, f"{bar(summary.elapsed_s / summary.budget_s, width - len(text) - 1)} {text}"


def metric_lines(snapshot: RunSnapshot) -> list[str]:
    """Return the score and the counts of a run; a blind round has a histogram of the best scores in place of the score.

    The upper bound is the recall of a perfect order of all candidates.
    """
    summary, figures = snapshot.summary, snapshot.figures
    if figures.recall_at_cap is None or figures.exact_at_1 is None or figures.any_of_n is None:
        low, high = figures.score_edges[0], figures.score_edges[-1]
        lines = [
            "blind round: no answers",
            _labelled("best scores", f"{low:.3f} … {high:.3f}"),
            _labelled("histogram", _histogram(figures.score_counts.tolist())),
        ]
    else:
        lines = [
            _labelled(f"Recall@{summary.error_cap}", f"{figures.recall_at_cap:.3f}{summary.interval_text}"),
            _labelled("exact@1", f"{figures.exact_at_1:.3f}"),
            _labelled("upper bound (any guess)", f"{figures.any_of_n:.3f}"),
        ]
    lines += [
        _labelled("guesses", f"{summary.guesses:,}"),
        _labelled("examples guessed", f"{figures.guessed:,}"),
        _labelled("submission", f"{figures.rows:,} rows"),
    ]
    if snapshot.loaded < 1:
        lines.append(f"reading the store: {snapshot.loaded:.0%}")
    return lines


def resource_lines(snapshot: RunSnapshot, suffix_length: int) -> list[str]:
    """Return the sampling rate and the load of the machine; nothing once the run is over."""
    if snapshot.summary.status.is_over:
        return []
    lines, rate = list[str](), snapshot.suffixes_per_s
    if rate is not None:
        lines = [_labelled("suffixes/s", f"{rate:,.1f}"), _labelled("tokens/s", f"{rate * suffix_length:,.0f}")]
    return lines + _machine_lines(snapshot.telemetry)


def figure_rows(figures: Sequence[AuditFigure]) -> list[Row]:
    """Return one table row for each figure of an audit, with its name as the key."""
    return [
        Row(
            figure.name,
            (
                shorten(figure.name, _MAX_NAME),
                "–" if figure.value is None else f"{figure.value:.4g}",
                "" if figure.low is None or figure.high is None else f"[{figure.low:.4g}, {figure.high:.4g}]",
                f"{figure.of:,}" if figure.of else "",
            ),
        )
        for figure in figures
    ]


def progress_lines(snapshot: AuditSnapshot) -> list[str]:
    """Return the progress of each stage of an audit, the load of the machine, and the warnings."""
    stages = [(shorten(sanitize(work.stage), _MAX_STAGE), work) for work in snapshot.stages]
    width = max((len(name) for name, _ in stages), default=0)
    lines = []
    for name, work in stages:
        share = min(1.0, work.done / work.announced) if work.announced > 0 else 1.0
        lines.append(f"{name:<{width}}  {bar(share, _STAGE_BAR_CELLS)} {share:>4.0%}  {work.batches_done:,} done")
    if not stages:
        lines.append("no stage has started")
    lines.append(pluralize(snapshot.summary.guesses, "row") + " written")
    if not snapshot.summary.status.is_over:
        lines += _machine_lines(snapshot.telemetry)
    return lines + warning_lines(snapshot.warnings)


def warning_lines(warnings: Sequence[str]) -> list[str]:
    """Return the warnings of an audit, newest first."""
    if not warnings:
        return []
    lines = ["", f"{pluralize(len(warnings), 'warning')}:"]
    lines += [f"! {sanitize(sentence)}" for sentence in reversed(warnings[-_MAX_WARNINGS:])]
    more = len(warnings) - _MAX_WARNINGS
    return lines + ([f"… and {more:,} earlier"] if more > 0 else [])


def row_line(row: AuditRow) -> str:
    """Return one row of an audit as one line: `14:03:59 reply · document 3 · text …`."""
    return sanitize(f"{time_of_day(row.at)} {row.table} · {row.text}")


def bar(share: float, width: int) -> str:
    """Return a bar of about `width` cells, of which `share` is filled."""
    cells = min(_MAX_BAR_CELLS, max(_MIN_BAR_CELLS, width))
    filled = round(min(1.0, share) * cells)
    return "█" * filled + "░" * (cells - filled)


def _machine_lines(sample: Mapping[str, float]) -> list[str]:
    lines = []
    if "cpu" in sample:
        lines.append(_labelled("CPU", f"{sample['cpu']:.0f} %, machine {sample.get('machine_cpu', 0):.0f} %"))
        free = sample.get("machine_memory_free", 0) / 2**30
        lines.append(_labelled("memory", f"{sample.get('memory', 0) / 2**30:.2f} GiB, {free:.1f} free"))
    if "gpu" in sample:
        lines.append(_labelled("GPU", f"{sample['gpu']:.0f} %, {sample.get('gpu_memory', 0) / 2**30:.1f} GiB"))
        if "gpu_power" in sample and "gpu_temperature" in sample:
            lines.append(_labelled("", f"{sample['gpu_power']:.0f} W, {sample['gpu_temperature']:.0f} °C"))
    return lines


def _labelled(label: str, value: str) -> str:
    return f"{label:<{_LABEL_CELLS}}{value}"


def _histogram(counts: Iterable[int]) -> str:
    heights = list(counts)
    most = max(heights, default=0)
    return "".join(_BLOCKS[min(7, height * 8 // (most + 1))] if height else " " for height in heights)
