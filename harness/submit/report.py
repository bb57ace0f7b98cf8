"""The HTML page about one run, or about several runs of one round."""

from collections.abc import Iterator, Mapping, Sequence

from harness.analysis import comparison_tables
from harness.analysis.comparison import Comparison, comparison_of, require_comparable, require_one_round
from harness.analysis.parts import contrast
from harness.core.errors import HarnessError
from harness.core.findings import KeyFigure
from harness.core.scoring import Score
from harness.core.text import NO_VALUE, format_interval, format_p_value, format_score, pluralize
from harness.core.times import format_duration
from harness.figures.curves import history_panel, recall_panel
from harness.figures.palette import line_style, numbered
from harness.runs.folder import RunFolder
from harness.submit import run_tables
from harness.submit.html_page import Figure, inline_svg, page
from harness.submit.run_facts import RunFacts, differing_examples, run_facts, select_examples
from harness.submit.run_tables import Monospace, Rows

Scored = Sequence[tuple[RunFacts, Score]]
"""Runs with their scores, best first."""
_SCORES = ("recall", "precision", "exact_at_1", "any_guess_correct")
_PANEL = (5.2, 3.2)
_EXAMPLES = 4
_DIFFERING = 8


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
        "any_guess_correct": "which no order can exceed",
    }
    facts = [fact for fact in run.scores if fact.key in notes]
    return [*(KeyFigure(fact.label, format_score(fact.value), notes[fact.key]) for fact in facts), time]


def _headline_and_lead(runs: Sequence[RunFacts], ranked: Scored) -> tuple[str, str]:
    """Return the headline of a report and the sentence below it. `ranked` is empty if the runs cannot be compared."""
    if len(runs) == 1:
        return _headline(runs[0]), run_tables.headline(runs[0])
    if ranked:
        return _ranking(ranked)
    headline = f"{len(runs)} runs on round {runs[0].spec.round.name}"
    if any(run.score is None for run in runs):
        return headline, "The round is blind: its answers are not known, so there are no scores."
    return headline, "The runs attacked different numbers of examples, so they cannot be compared."


def _headline(run: RunFacts) -> str:
    attack = run.summary.shown_attack
    if run.score is None:
        return f"{attack}: {pluralize(len(run.submission.ids), 'row')} for blind round {run.spec.round.name}"
    partial = f" on {run.spec.examples:,} examples" if run.spec.is_partial else ""
    return f"{attack}: Recall@{run.score.cap:,} {format_score(run.score.recall_at_cap)}{partial}"


def _ranking(ranked: Scored) -> tuple[str, str]:
    """Return the headline and the lead on comparable runs."""
    (first, score), (second, second_score) = ranked[:2]
    assert first.result is not None and second.result is not None
    best, next_best = format_score(score.recall_at_cap), format_score(second_score.recall_at_cap)
    no_leader = f"No run is clearly the best of {len(ranked)}: Recall@{score.cap:,} {best} and {next_best}"
    if reasons := " ".join(filter(None, [first.result.not_tested_because, second.result.not_tested_because])):
        return no_leader, reasons
    paired = contrast(first.result.submission, second.result.submission, first.parts.whole)
    difference, (low, high, unit), _ = paired.difference
    headline = f"{first.spec.id} leads {len(ranked)} runs with Recall@{score.cap:,} {best}" if low > 0 else no_leader
    lead = (
        f"{first.spec.id} ({first.summary.shown_attack}) is {format_score(difference, is_signed=True)} "
        f"{format_interval(low, high, is_signed=True)} ahead of {second.spec.id} ({second.summary.shown_attack}); "
        f"95 % interval by {unit}, McNemar's exact test {format_p_value(paired.mcnemar_p)}."
    )
    return headline, lead


def report_page(folders: Sequence[RunFolder], *, redact: bool) -> str:
    """Return the page about the runs, all of one round. Equal records give equal pages.

    With `redact`, guesses and answers are replaced with their length and hash. Raises HarnessError if the runs are of
    several rounds, or a record or a file of the round cannot be read.
    """
    require_one_round([folder.attack_spec() for folder in folders])
    runs = [run_facts(folder) for folder in folders]
    comparisons, no_comparison = _comparisons(runs)
    rules = runs[0].spec.round
    styles = numbered(run.spec.id for run in runs)
    scored = [(run, run.score) for run in runs if run.score is not None]
    ranked = sorted(scored, key=lambda pair: -pair[1].recall_at_cap) if comparisons else []
    headline, lead = _headline_and_lead(runs, ranked)
    return page(
        "report.html.j2",
        headline=headline,
        lead=lead,
        key_figures=_key_figures(runs[0]) if len(runs) == 1 else (),
        ranked=ranked,
        highest=max((max(score.interval.high, score.recall_at_cap) for _, score in ranked), default=0.0) or 1.0,
        colours={run.spec.id: line_style(styles[run.spec.id])["color"] for run in runs},
        round=rules.name,
        round_title=rules.title,
        scores=_score_rows(runs),
        figures=_figures(runs, styles),
        comparisons=comparisons,
        no_comparison=no_comparison,
        differing=differing_examples(runs, limit=_DIFFERING, redact=redact) if len(runs) > 1 else (),
        runs=[(run, select_examples(run, limit=_EXAMPLES, redact=redact)) for run in runs],
        tables=run_tables,
        compared=comparison_tables,
        is_redacted=redact,
        unit=None if runs[0].score is None else str(runs[0].score.interval.unit),
    )


def _score_rows(runs: Sequence[RunFacts]) -> Rows:
    """Return a header and one row per run."""
    scores = [[fact for fact in run.scores if fact.key in _SCORES] for run in runs]
    labels = [fact.label for fact in next(filter(None, scores), [])]
    rows: Rows = [("Run", "Attack", "Status", *labels, "Rows", "Time")]
    for run, facts in zip(runs, scores, strict=True):
        summary, figures = run.summary, [fact.text or NO_VALUE for fact in facts]
        status = summary.status.words
        if run.spec.is_partial:
            status += f", partial: {run.spec.examples:,} examples, cap {run.spec.error_cap:,}"
        rows_submitted = f"{len(run.submission.ids):,}"
        rows.append((Monospace(run.spec.id), summary.shown_attack, status, *figures, rows_submitted, summary.time_text))
    return rows


def _figures(runs: Sequence[RunFacts], styles: Mapping[str, int]) -> list[Figure]:
    """Return the curves of all runs with as many examples as the first: recall, or the number of rows if blind."""
    same_size = [run for run in runs if run.spec.examples == runs[0].spec.examples]
    scores = [(run.spec.id, run.score) for run in same_size if run.score is not None]
    in_time = [(run.spec.id, run.curve) for run in same_size]
    if len(scores) < len(same_size):
        svg = history_panel(in_time, label="rows of the submission", size=_PANEL, styles=styles)
        return [_figure(svg, "rows", "Rows of the submission vs. time.")]
    cap = scores[0][1].cap
    only = " Only runs with as many examples as the first are drawn." if len(same_size) < len(runs) else ""
    recall_caption = f"Recall vs. errors, with the 95 % interval at the error cap of {cap:,}.{only}"
    figures = [
        _figure(recall_panel(scores, size=_PANEL, styles=styles), "recall", recall_caption),
        _figure(
            history_panel(in_time, label=f"Recall@{cap}", size=_PANEL, styles=styles),
            "time",
            f"Recall@{cap:,} vs. time.",
        ),
    ]
    figures += [figure for number, run in enumerate(same_size) for figure in _moment_figures(run, number)]
    parts = [(run.spec.id, run.not_in_train_score) for run in same_size if run.not_in_train_score is not None]
    if parts:
        caption = "Recall vs. errors on the examples whose answers are not in the training rows."
        figures.append(_figure(recall_panel(parts, size=_PANEL, styles=styles), "not-in-training-set", caption))
    return figures


def _moment_figures(run: RunFacts, number: int) -> Iterator[Figure]:
    """Yield recall vs. errors of one run at several times, and after several trials if its guesses have them."""
    if run.result is not None:
        moments = run.result.moments
        caption = f"{run.spec.id}: recall vs. errors after 1, 10 and 100 % of its budget, or at its end."
        if not moments.by_trials:
            caption = f"{caption} {moments.note}".rstrip()
        svg = recall_panel([moment.labelled for moment in moments.in_time], size=_PANEL)
        yield _figure(svg, f"times-{number}", caption)
        if moments.by_trials:
            caption = f"{run.spec.id}: recall vs. errors of its first trials. {moments.note}".rstrip()
            svg = recall_panel([moment.labelled for moment in moments.by_trials], size=_PANEL)
            yield _figure(svg, f"trials-{number}", caption)


def _figure(svg: str, name: str, caption: str) -> Figure:
    return inline_svg(svg, name, caption), caption


def _comparisons(runs: Sequence[RunFacts]) -> tuple[list[Comparison], str]:
    """Return the comparison of all runs, then of the first run with each other one if there are more than two.

    Without a comparison, the list is empty and the text is the reason ('' for a single run).
    """
    if len(runs) < 2:
        return [], ""
    try:
        require_comparable([run.spec for run in runs])
    except HarnessError as error:
        # The rest of the page is valid in a blind round, and for runs with different --limit.
        return [], str(error)
    results = [run.result for run in runs if run.result is not None]
    pairs = [[results[0], result] for result in results[1:]] if len(runs) > 2 else []
    return [comparison_of(group, runs[0].parts, runs[0].spec.round.name) for group in (results, *pairs)], ""
