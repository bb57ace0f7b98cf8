"""The summary at the top of a report: its headline, the answer in a sentence, and the scores side by side."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from harness.analysis.contrast import contrast
from harness.core.findings import KeyFigure
from harness.core.scoring import Score
from harness.core.text import format_interval, format_p_value, format_score, pluralize
from harness.core.times import format_duration
from harness.figures.palette import line_style
from harness.submit import run_tables
from harness.submit.run_facts import RunFacts


class RunScore(NamedTuple):
    """One run in the summary of several: its colour in all figures, its score as text, and its interval to draw.

    `low`, `high` and `point` are percentages of a scale that all runs share.
    """

    run: str
    attack: str
    colour: str
    recall: str
    interval: str
    low: float
    high: float
    point: float


class ReportSummary(NamedTuple):
    """The top of a report.

    `scores` is empty for a single run and for runs that cannot be compared. `scale` is the score at 100 % of the scale.
    """

    headline: str
    lead: str
    key_figures: Sequence[KeyFigure] = ()
    scores: Sequence[RunScore] = ()
    scale: str = ""


def report_summary(runs: Sequence[RunFacts], styles: Mapping[str, int]) -> ReportSummary:
    """Return the summary. `styles` maps the id of each run to the number of its line style."""
    if len(runs) == 1:
        return ReportSummary(_headline(runs[0]), run_tables.headline(runs[0]), _key_figures(runs[0]))
    scored = [(run, run.score) for run in runs if run.score is not None]
    scored.sort(key=lambda pair: -pair[1].recall_at_cap)
    name = runs[0].spec.round.name
    headline = f"{len(runs)} runs on round {name}"
    if len(scored) < len(runs):
        return ReportSummary(headline, "The round is blind: its answers are not known, so there are no scores.")
    if len({run.spec.examples for run in runs}) > 1:
        return ReportSummary(headline, "The runs attacked different numbers of examples, so they cannot be compared.")
    highest = max(max(score.interval.high, score.recall_at_cap) for _, score in scored) or 1.0
    return ReportSummary(*_ranking(scored), (), _scores(scored, styles, highest), format_score(highest))


def _headline(run: RunFacts) -> str:
    attack = run.summary.shown_attack
    if run.score is None:
        return f"{attack}: {pluralize(len(run.submission.ids), 'row')} for blind round {run.spec.round.name}"
    partial = f" on {run.spec.examples:,} examples" if run.spec.is_partial else ""
    return f"{attack}: Recall@{run.score.cap:,} {format_score(run.score.recall_at_cap)}{partial}"


def _key_figures(run: RunFacts) -> list[KeyFigure]:
    score, summary = run.score, run.summary
    time = KeyFigure("Time", format_duration(summary.elapsed_s), summary.time_text.partition(" ")[2])
    if score is None:
        return [
            KeyFigure("Rows submitted", f"{len(run.submission.ids):,}", f"of {summary.guesses:,} guesses"),
            KeyFigure("Examples attacked", f"{run.spec.examples:,}"),
            time,
        ]
    notes = {
        "recall": f"{format_interval(score.interval.low, score.interval.high)}, {score.solved:,} of {score.examples:,}",
        "precision": f"{score.rows_read:,} rows read",
        "exact_at_1": "first row of each example",
        "any_of_n": "which no order can exceed",
    }
    figures = [KeyFigure(fact.label, format_score(fact.value), notes[fact.key]) for fact in run.scores]
    return [*figures, time]


def _ranking(scored: Sequence[tuple[RunFacts, Score]]) -> tuple[str, str]:
    """Return the headline and the lead on comparable runs, best first."""
    (first, score), (second, other) = scored[:2]
    assert first.walk is not None and second.walk is not None
    found = contrast(first.walk, second.walk, first.parts.whole)
    difference, (low, high, unit), _ = found.difference
    recalls = f"{format_score(score.recall_at_cap)} and {format_score(other.recall_at_cap)}"
    if low > 0:
        headline = f"{first.spec.id} leads {len(scored)} runs with Recall@{score.cap:,} {recalls.partition(' ')[0]}"
    else:
        headline = f"No run is clearly the best of {len(scored)}: Recall@{score.cap:,} {recalls}"
    lead = (
        f"{first.spec.id} ({first.summary.shown_attack}) is {format_score(difference, is_signed=True)} "
        f"{format_interval(low, high, is_signed=True)} ahead of {second.spec.id} ({second.summary.shown_attack}); "
        f"95 % interval by {unit}, McNemar's exact test {format_p_value(found.mcnemar_p)}."
    )
    return headline, lead


def _scores(scored: Sequence[tuple[RunFacts, Score]], styles: Mapping[str, int], highest: float) -> list[RunScore]:

    def place(recall: float) -> float:
        return round(100 * recall / highest, 2)

    return [
        RunScore(
            run.spec.id,
            run.summary.shown_attack,
            line_style(styles[run.spec.id])["color"],
            format_score(score.recall_at_cap),
            format_interval(score.interval.low, score.interval.high),
            place(score.interval.low),
            place(score.interval.high),
            place(score.recall_at_cap),
        )
        for run, score in scored
    ]
