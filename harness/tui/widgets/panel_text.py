"""The text of the panels of a run and of an audit: pure functions of a snapshot."""

from collections.abc import Mapping, Sequence

from harness.core.text import format_number, pluralize, sanitize, shorten, shorten_middle
from harness.runs.audit_reader import AuditFigure
from harness.runs.facts import score_facts
from harness.runs.reader import StageWork
from harness.tui.columns import Column, bar, spark
from harness.tui.snapshot import AuditSnapshot, RunSnapshot
from harness.tui.tables import CellsOf, Table, table_of

Fact = tuple[str, str]
"""A label and a value."""
_STAGE_BAR_CELLS = 12
_MAX_STAGE = 24
_MAX_WARNINGS = 20
_LABEL_CELLS = 10


def metric_facts(snapshot: RunSnapshot) -> list[Fact]:
    """Return the scores but the recall, and the counts of a run; a blind round has no scores."""
    summary, figures = snapshot.summary, snapshot.figures
    # The recall is above them, in large digits.
    shares = score_facts(0, None, "", figures.exact_at_1, figures.any_guess_correct)[1:] if figures.guessed else []
    is_blind = figures.recall_at_cap is None
    facts = [
        *([("answers", "unknown: the round is blind")] if is_blind else [(fact.label, fact.text) for fact in shares]),
        ("guesses", f"{summary.guesses:,}"),
        ("examples", f"{figures.guessed:,}"),
        ("submission", f"{figures.rows:,} rows"),
    ]
    if len(summary.stages) > 1:
        facts += [
            (shorten(f"stage {work.stage}", _MAX_STAGE), f"{_stage_bar(work)} {share_done(work):.0%}")
            for work in summary.stages
        ]
    if snapshot.loaded < 1:
        facts.append(("reading", f"{snapshot.loaded:.0%}"))
    return facts


def resource_facts(snapshot: RunSnapshot) -> list[Fact]:
    """Return the sampling rate and the load of the machine; nothing once the run is over."""
    if snapshot.summary.status.is_over:
        return []
    facts = list[Fact]()
    if rates := snapshot.rates:
        trend = spark(rates, max(rates))
        facts = [("suffixes/s", f"{rates[-1]:,.1f}  {trend}")]
    warning = snapshot.summary.warning
    return [*facts, *_machine_facts(snapshot.telemetry), *([("warning", sanitize(warning))] if warning else [])]


def figure_table(figures: Sequence[AuditFigure]) -> Table:
    """Return the figures of an audit."""
    columns: CellsOf[AuditFigure] = {
        # Names differ at their end.
        Column("figure", min_width=8, fills=True): lambda figure: (
            lambda width: [(shorten_middle(sanitize(figure.name), width), "")]
        ),
        Column("value", is_right=True): lambda figure: format_number(figure.value),
        Column("95 % interval"): _interval,
        Column("n", is_right=True): lambda figure: f"{figure.of:,}" if figure.of else "",
    }
    return table_of(columns, {figure.name: figure for figure in figures})


def _interval(figure: AuditFigure) -> str:
    has_interval = figure.low is not None and figure.high is not None
    return f"[{format_number(figure.low)}, {format_number(figure.high)}]" if has_interval else ""


def progress_lines(snapshot: AuditSnapshot) -> list[str]:
    """Return the progress of each stage of an audit, the load of the machine, and the warnings."""
    stages = [(shorten(sanitize(work.stage), _MAX_STAGE), work) for work in snapshot.summary.stages if work.announced]
    width = max((len(name) for name, _ in stages), default=0)
    lines = []
    for name, work in stages:
        words = f"{_stage_bar(work)} {share_done(work):>4.0%}  batches done: {work.batches_done:,}"
        lines.append(f"{name:<{width}}  {words}")
    if not snapshot.summary.stages:
        lines.append("no stage has started")
    lines.append(pluralize(snapshot.summary.guesses, "row") + " written")
    if not snapshot.summary.status.is_over:
        lines += [f"{label:<{_LABEL_CELLS}}{value}" for label, value in _machine_facts(snapshot.telemetry)]
    return lines + warning_lines(snapshot.warnings)


def warning_lines(warnings: Sequence[str]) -> list[str]:
    """Return the warnings of an audit, newest first."""
    if not warnings:
        return []
    lines = ["", f"{pluralize(len(warnings), 'warning')}:"]
    lines += [f"! {sanitize(sentence)}" for sentence in reversed(warnings[-_MAX_WARNINGS:])]
    more = len(warnings) - _MAX_WARNINGS
    return lines + ([f"… and {more:,} earlier"] if more > 0 else [])


def share_done(work: StageWork) -> float:
    """Return the share of a stage's work that is done."""
    return min(1.0, work.done / work.announced) if work.announced > 0 else 1.0


def _stage_bar(work: StageWork) -> str:
    return "".join(bar(share_done(work), _STAGE_BAR_CELLS))


def _machine_facts(sample: Mapping[str, float]) -> list[Fact]:
    facts: list[Fact] = []
    if "cpu" in sample:
        facts.append(("CPU", f"{sample['cpu']:.0f} %, machine {sample.get('machine_cpu', 0):.0f} %"))
        free = sample.get("machine_memory_free", 0) / 2**30
        facts.append(("memory", f"{sample.get('memory', 0) / 2**30:.2f} GiB, {free:.1f} free"))
    if "gpu" in sample:
        facts.append(("GPU", f"{sample['gpu']:.0f} %, {sample.get('gpu_memory', 0) / 2**30:.1f} GiB"))
        if "gpu_power" in sample and "gpu_temperature" in sample:
            facts.append(("GPU power", f"{sample['gpu_power']:.0f} W, {sample['gpu_temperature']:.0f} °C"))
    return facts
