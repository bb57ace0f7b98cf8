"""The tables and sentences of a comparison, as the command, the TUI and the report show them.

Cells contain text from records and files unchanged. The caller sanitizes them before printing.
"""

from harness.analysis.comparison import ComparedRun, Comparison, Trajectory
from harness.analysis.parts import MCNEMAR_CAVEAT, Contrast, Part
from harness.analysis.replay import BUDGET_SHARES
from harness.core.scoring import ERROR_COUNTS, Score
from harness.core.text import NO_VALUE, format_interval, format_number, format_p_value, format_score
from harness.core.times import format_duration, format_seconds

_MAX_LEADS = 20
Table = list[tuple[str, ...]]
MOMENTS_HEADING = (
    "Recall vs. errors of each run after 1, 10 and 100 % of its budget or at its end, and of its first trials"
)
NOTHING_DIFFERS = "attack, parameters, seed, budget, target, versions and hardware are the same"


def scores_and_pace(comparison: Comparison) -> Table:
    """Return a header row and one row per run with its score on all examples, its time and its pace."""
    header = ("run", "attack", "status", *_score_header(comparison.whole), "time", "suffixes/s")
    rows = [
        (
            run.id,
            run.shown_attack,
            run.status.words,
            *_score_cells(run, run.whole.score),
            f"{format_duration(run.elapsed_s)}/{format_duration(run.budget_s)}",
            format_number(run.suffixes_per_s),
        )
        for run in comparison.runs
    ]
    return [header, *rows]


def scores_not_in_train(comparison: Comparison) -> Table:
    """Return a header and a row per run: its score on examples not in the training rows; [] if there are none."""
    if comparison.not_in_train is None:
        return []
    rows = [
        (run.id, run.shown_attack, *_score_cells(run, run.not_in_train.score))
        for run in comparison.runs
        if run.not_in_train is not None
    ]
    return [("run", "attack", *_score_header(comparison.not_in_train)), *rows]


def not_in_train_heading(comparison: Comparison) -> str:
    """Return the heading of `scores_not_in_train`, or why there is no such table."""
    if comparison.not_in_train is None:
        return f"no separate scores on examples not in the training rows: {comparison.not_in_train_absent_because}"
    return f"{len(comparison.not_in_train):,} examples that are not in the training rows"


def recall_over_budget(comparison: Comparison) -> Table:
    """Return a header row and one row per run with its recall after each of BUDGET_SHARES, on all examples and on the
    part that is not in the training rows.
    """
    header = ("run", *(f"{100 * share:g} %" for share in BUDGET_SHARES))
    on_part = [f"{header_cell}, not in train" for header_cell in header[1:]] if comparison.not_in_train else []
    rows = [
        (run.id, *_recalls(run, run.whole), *([] if run.not_in_train is None else _recalls(run, run.not_in_train)))
        for run in comparison.runs
    ]
    return [(*header, *on_part), *rows]


def recall_over_budget_heading(comparison: Comparison) -> str:
    """Return the heading of `recall_over_budget`."""
    part = comparison.not_in_train
    heading = f"Recall@{comparison.whole.cap} after a share of the budget"
    return (
        heading
        if part is None
        else f"{heading}, and Recall@{part.cap} on the {len(part):,} examples not in the training rows"
    )


def recall_at_moments(comparison: Comparison) -> Table:
    """Return a header row and one row for each run and moment, with its recall at each of ERROR_COUNTS."""
    rows = [
        (run.id, moment.name, *(format_score(moment.score.at_errors(errors).recall) for errors in ERROR_COUNTS))
        for run in comparison.runs
        for moment in (*run.moments.in_time, *run.moments.by_trials)
    ]
    return [("run", "", *(f"Recall@{errors:,}" for errors in ERROR_COUNTS)), *rows]


def leads_heading(comparison: Comparison) -> str:
    """Return the heading of `who_leads`."""
    left_out = len(comparison.leads) - _MAX_LEADS
    only = f", the {_MAX_LEADS} longest spans of {len(comparison.leads)}" if left_out > 0 else ""
    return f"Who leads when, by wall clock until {format_duration(comparison.budget_s)}{only}"


def who_leads(comparison: Comparison) -> Table:
    """Return a header row and one row per span of the budget: from when to when, the leader, its lead, the second."""
    longest = sorted(comparison.leads, key=lambda lead: lead.start - lead.end)[:_MAX_LEADS]
    rows = []
    for lead in sorted(longest):
        leader = "no run alone" if lead.leader is None else comparison.runs[lead.leader].id
        second = "" if lead.second is None else comparison.runs[lead.second].id
        low, high = (format_score(ahead, is_signed=True) for ahead in (lead.min_margin, lead.max_margin))
        ahead = "" if lead.leader is None else low if low == high else f"{low} to {high}"
        rows.append((format_seconds(lead.start), format_seconds(lead.end), leader, ahead, second))
    return [("from", "to", "leads", "ahead by", "second"), *rows]


def last_lead(comparison: Comparison) -> str:
    """Return which run leads at the end of the budget, and since when; empty if no run alone does."""
    last = comparison.leads[-1]
    if last.leader is None:
        return ""
    return f"{comparison.runs[last.leader].id.partition('-')[0]} leads from {format_seconds(last.start)} on"


def differing_settings(comparison: Comparison) -> Table:
    """Return a header row and one row per setting that is not the same for all runs, or [] if all are the same."""
    if not comparison.differing:
        return []
    header = ("setting", *(run.id for run in comparison.runs))
    differing = comparison.differing.items()
    return [header, *((name, *(NO_VALUE if value is None else str(value) for value in row)) for name, row in differing)]


def contrast_lines(comparison: Comparison, contrast: Contrast, where: str) -> list[str]:
    """Return the difference of the first run and the second with its interval, and McNemar's test, as lines."""
    first, second = (run.id for run in comparison.runs)
    difference, interval, _ = contrast.difference
    return [
        f"{first} − {second}, on {where}",
        f"difference {format_score(difference, is_signed=True)} "
        f"{format_interval(interval.low, interval.high, is_signed=True)} (95 %, {interval.unit})",
        f"McNemar's exact test {format_p_value(contrast.mcnemar_p)} ({MCNEMAR_CAVEAT})",
    ]


def contrasts(comparison: Comparison) -> list[tuple[str, Contrast]]:
    """Return each contrast of a pair of runs with the name of its examples."""
    pairs = (
        ("all examples", comparison.contrast),
        ("the examples not in the training rows", comparison.not_in_train_contrast),
    )
    return [(where, contrast) for where, contrast in pairs if contrast is not None]


def reasons_without_test(comparison: Comparison) -> list[str]:
    """Return why two runs have no contrast, as lines; none for more than two, which have no contrast anyway."""
    return comparison.not_tested_because if len(comparison.runs) == 2 else []


def _recalls(run: ComparedRun, trajectory: Trajectory) -> list[str]:
    """Return the recalls after BUDGET_SHARES as text. Those of a run without a guess say nothing."""
    return [format_score(recall if run.guesses else None) for recall in trajectory.recall_at_shares]


def _score_header(part: Part) -> tuple[str, str]:
    return f"Recall@{part.cap}", "precision"


def _score_cells(run: ComparedRun, score: Score) -> tuple[str, str]:
    if not run.guesses:
        return NO_VALUE, NO_VALUE
    interval = format_interval(score.interval.low, score.interval.high)
    return f"{format_score(score.recall_at_cap)} {interval}", format_score(score.precision_at_cap)
