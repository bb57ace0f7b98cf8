"""The run in words: its header, its figures and what the machine does, each a pure function of a snapshot."""

from collections.abc import Iterable, Mapping

from harness.core.text import sanitize
from harness.core.times import format_duration
from harness.tui.snapshot import AuditSnapshot, Snapshot

_LEAST_GAUGE_CELLS, _MOST_GAUGE_CELLS = 6, 40
_BARS = "▁▂▃▄▅▆▇█"


def header_lines(snapshot: Snapshot | AuditSnapshot, *, width: int) -> tuple[str, str]:
    """Who runs, and how far: status, gauge of the budget, what is left, progress and ETA.

    The gauge takes what the words leave of `width` columns.
    """
    summary = snapshot.summary
    target = "" if summary.target is None else f" · target {sanitize(summary.target)}"
    blind = ", which is blind" if summary.is_blind else ""
    first = (
        f"{sanitize(summary.shown_attack)} on {sanitize(summary.round)}{blind} · {summary.status.words} · "
        f"{sanitize(summary.id)}{target}"
    )
    left = max(0.0, summary.budget_s - summary.elapsed_s)
    parts = [
        f"{format_duration(summary.elapsed_s)} of {format_duration(summary.budget_s)}, {format_duration(left)} left"
    ]
    if summary.progress is not None:
        parts.append(f"{summary.progress:.0%} done")
    if summary.eta_s is not None:
        parts.append(
            f"ETA {format_duration(summary.eta_s)} {'fits' if summary.eta_s <= left else 'beyond the budget!'}"
        )
    if snapshot.fault is not None:
        return first, " · ".join([f"cannot be read now: {sanitize(snapshot.fault)}", *parts])
    if summary.reason:
        parts.append(sanitize(summary.reason))
    words = " · ".join(parts)
    return first, f"{gauge(summary.elapsed_s / summary.budget_s, width - len(words) - 1)} {words}"


def figure_lines(snapshot: Snapshot) -> list[str]:
    """The score and what stands behind it; counts and the spread of scores where the round is blind.

    The ceiling is that of any ranker: the recall of a perfect order of the candidates.
    """
    summary, figures = snapshot.summary, snapshot.figures
    lines = []
    if figures.recall_at_cap is None or figures.exact_at_1 is None or figures.any_of_n is None:
        lines += ["this round is blind: no answers", f"score spread  {_spread(figures.score_counts.tolist())}"]
        low, high = figures.score_edges[0], figures.score_edges[-1]
        lines.append(f"best scores   {low:.3f} … {high:.3f}")
    else:
        interval = summary.recall_interval
        bounds = "" if interval is None else f" [{interval[0]:.3f}, {interval[1]:.3f}]"
        lines += [
            f"recall at {summary.error_cap:<5} {figures.recall_at_cap:.3f}{bounds}",
            f"exact@1         {figures.exact_at_1:.3f}",
            f"any of n        {figures.any_of_n:.3f}  the ceiling",
        ]
    lines += [
        f"guesses         {summary.guesses:,}",
        f"examples        {figures.guessed:,} guessed",
        f"submission      {figures.rows:,} rows",
    ]
    if snapshot.loaded < 1:
        lines.append(f"reading the store: {snapshot.loaded:.0%}")
    return lines


def resource_lines(snapshot: Snapshot, suffix_length: int) -> list[str]:
    """What the machine does for the run, with GPU readings where there are any; nothing once the run is over."""
    seen, lines = snapshot.telemetry, list[str]()
    if snapshot.summary.status.is_over:
        return lines
    if snapshot.suffixes_per_s is not None:
        rate = snapshot.suffixes_per_s
        lines += [f"suffixes        {rate:,.1f} a second", f"tokens          {rate * suffix_length:,.0f} a second"]
    return lines + machine_lines(seen)


def machine_lines(seen: Mapping[str, float]) -> list[str]:
    """The last look at the machine, with GPU readings where there are any; nothing before the first."""
    lines = []
    if "cpu" in seen:
        lines.append(f"CPU             {seen['cpu']:.0f} %, machine {seen.get('machine_cpu', 0):.0f} %")
        free = seen.get("machine_memory_free", 0) / 2**30
        lines.append(f"memory          {seen.get('memory', 0) / 2**30:.2f} GiB, {free:.1f} free")
    if "gpu" in seen:
        lines.append(f"GPU             {seen['gpu']:.0f} %, {seen.get('gpu_memory', 0) / 2**30:.1f} GiB")
        if "gpu_power" in seen and "gpu_temperature" in seen:
            lines.append(f"                {seen['gpu_power']:.0f} W, {seen['gpu_temperature']:.0f} °C")
    return lines


def gauge(share: float, room: int) -> str:
    """A bar of which `share` is filled, as long as `room` cells allow."""
    cells = min(_MOST_GAUGE_CELLS, max(_LEAST_GAUGE_CELLS, room))
    filled = round(min(1.0, share) * cells)
    return "█" * filled + "░" * (cells - filled)


def _spread(counts: Iterable[int]) -> str:
    heights = list(counts)
    most = max(heights, default=0)
    return "".join(_BARS[min(7, height * 8 // (most + 1))] if height else " " for height in heights)
