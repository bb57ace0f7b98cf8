"""The report: one page about one run, or about several of one round side by side; every figure is read from records."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from markupsafe import Markup

from harness.analysis import comparison_tables
from harness.analysis.comparison import Comparison, compare_runs, require_one_round
from harness.core.errors import HarnessError
from harness.core.text import pluralize
from harness.core.times import format_duration
from harness.figures.panels import recall_in_time_panel, recall_panel, rows_in_time_panel
from harness.runs.folder import RunFolder
from harness.submit import tables
from harness.submit.examples import ChosenExamples, chosen_examples, where_runs_differ
from harness.submit.facts import RunFacts, run_facts
from harness.submit.pages import inline_svg, page
from harness.submit.tables import Code, Rows

_PANEL = (5.2, 3.2)
_EXAMPLES = 4
_DIFFERING = 8


class DrawnFigure(NamedTuple):
    """A figure of the page."""

    svg: Markup
    caption: str


class RunSection(NamedTuple):
    """What the page says of one run; tables as `harness.submit.tables` words them."""

    id: str
    headline: str
    cautions: Sequence[str]
    note: str
    results: Rows
    at_errors: Rows
    method: str
    reference: str
    parameters: Rows
    queries: str
    stages: Rows
    training: str
    overlap: Rows
    target: Rows
    record: Rows
    examples: ChosenExamples


class ComparisonSection(NamedTuple):
    """Runs against each other; contrasts: of the first with each other one, each in lines."""

    unreachable: str
    unreachable_scores: Rows
    in_time: str
    recall_in_time: Rows
    contrasts: Sequence[Sequence[str]]
    differing: Rows


def report_page(folders: Sequence[RunFolder], *, redact: bool) -> str:
    """The page about the runs, all of one round. Equal records give equal pages.

    With `redact`, guesses and answers are told by their length and hash. Raises HarnessError when the runs are of
    several rounds, or a record or a file of the round cannot be read.
    """
    require_one_round([folder.spec() for folder in folders])
    runs = [run_facts(folder) for folder in folders]
    comparison, no_comparison = _comparison(runs)
    rules = runs[0].spec.round
    return page(
        "report.html.j2",
        round=rules.name,
        round_title=rules.title,
        names=[run.spec.id for run in runs],
        scores=_scores(runs),
        figures=_figures(runs),
        comparison=comparison,
        no_comparison=no_comparison,
        differing=where_runs_differ(runs, most=_DIFFERING, redact=redact) if len(runs) > 1 else (),
        runs=[_section(run, redact=redact) for run in runs],
        is_redacted=redact,
        unit=None if runs[0].score is None else str(runs[0].score.interval.unit),
    )


def _scores(runs: Sequence[RunFacts]) -> Rows:
    """A header, and a row a run."""
    cap = pluralize(runs[0].spec.round.error_cap, "error")
    header = ("Run", "Attack", "Status", f"Recall at {cap}", "Precision", "First right", "Any right", "Rows", "Time")
    rows: Rows = [header]
    for run in runs:
        summary, score = run.summary, run.score
        figures = ("blind", "–", "–", "–")
        if score is not None:
            recall = f"{score.recall_at_cap:.3f} [{score.interval.low:.3f}, {score.interval.high:.3f}]"
            figures = (recall, f"{score.precision_at_cap:.3f}", _fraction(run.exact_at_1), _fraction(run.any_of_n))
        counts = (
            f"{len(run.submission.ids):,}",
            f"{format_duration(summary.elapsed_s)} of {format_duration(summary.budget_s)}",
        )
        status = summary.status.words
        if run.spec.is_partial:
            status += f", partial: {run.spec.examples:,} examples, cap {run.spec.error_cap:,}"
        rows.append((Code(run.spec.id), summary.shown_attack, status, *figures, *counts))
    return rows


def _figures(runs: Sequence[RunFacts]) -> list[DrawnFigure]:
    """The curves of all runs that have as many examples as the first: recall, or where that is unknown, rows."""
    drawn = [run for run in runs if run.spec.examples == runs[0].spec.examples]
    scores = [(run.spec.id, run.score) for run in drawn if run.score is not None]
    if len(scores) < len(drawn):
        rows = [(run.spec.id, [(moment.spent, float(moment.rows)) for moment in run.course]) for run in drawn]
        return [_figure(rows_in_time_panel(rows, size=_PANEL), "rows", "Rows of the submission against time.")]
    cap = scores[0][1].cap
    in_time = [
        (run.spec.id, [(moment.spent, moment.recall) for moment in run.course if moment.recall is not None])
        for run in drawn
    ]
    at_cap = pluralize(cap, "error")
    figures = [
        _figure(
            recall_panel(scores, size=_PANEL),
            "recall",
            f"Recall against errors: the walk down the whole submission, the cap, and the 95 % interval at {at_cap}.",
        ),
        _figure(recall_in_time_panel(in_time, cap=cap, size=_PANEL), "time", f"Recall at {at_cap} against time spent."),
    ]
    if len(drawn) < len(runs):
        only = "Drawn are the runs that attacked as many examples as the first."
        figures[0] = figures[0]._replace(caption=f"{figures[0].caption} {only}")
    parts = [(run.spec.id, run.unreachable_score) for run in drawn if run.unreachable_score is not None]
    if parts:
        caption = "Recall against errors on the examples that training rows do not give away."
        figures.append(_figure(recall_panel(parts, size=_PANEL), "unreachable", caption))
    return figures


def _figure(svg: str, name: str, caption: str) -> DrawnFigure:
    return DrawnFigure(inline_svg(svg, name, caption), caption)


def _comparison(runs: Sequence[RunFacts]) -> tuple[ComparisonSection | None, str]:
    """The comparison of two runs or more, or None and why there is none (nothing, for a single run)."""
    if len(runs) < 2:
        return None, ""
    folders = [run.folder for run in runs]
    try:
        whole = _where_it_tells(compare_runs(folders))
        pairs = [whole]
        if len(runs) > 2:
            pairs = [_where_it_tells(compare_runs([folders[0], other])) for other in folders[1:]]
    except HarnessError as error:
        # The figures of each stand all the same: a blind round, or runs with several --limit.
        return None, str(error)
    return (
        ComparisonSection(
            unreachable=comparison_tables.unreachable_heading(whole),
            unreachable_scores=comparison_tables.scores_on_unreachable(whole),
            in_time=comparison_tables.recall_over_budget_heading(whole),
            recall_in_time=comparison_tables.recall_over_budget(whole),
            contrasts=[lines for pair in pairs for lines in _contrasts(pair)],
            differing=comparison_tables.differing_settings(whole),
        ),
        "",
    )


def _where_it_tells(comparison: Comparison) -> Comparison:
    """The comparison without its unreachable part where that is all examples, and would be told twice."""
    part = comparison.unreachable
    if part is None or len(part) < len(comparison.whole):
        return comparison
    return replace(
        comparison,
        unreachable=None,
        no_unreachable_because="the training rows give no answer away.",
        runs=tuple(replace(run, unreachable=None, unreachable_at_shares=None) for run in comparison.runs),
        unreachable_contrast=None,
    )


def _contrasts(pair: Comparison) -> list[list[str]]:
    return [
        comparison_tables.contrast_lines(pair, contrast, where) for where, contrast in comparison_tables.contrasts(pair)
    ]


def _section(run: RunFacts, *, redact: bool) -> RunSection:
    return RunSection(
        id=run.spec.id,
        headline=tables.headline(run),
        cautions=tables.cautions(run),
        note=run.summary.note,
        results=tables.results(run),
        at_errors=[] if run.score is None else tables.at_errors(run.score),
        method=run.method,
        reference=run.spec.attack.reference,
        parameters=tables.parameters(run),
        queries=tables.queries_in_words(run),
        stages=tables.stages(run),
        training=tables.training_in_words(run),
        overlap=tables.training_overlap(run),
        target=tables.target_and_machine(run),
        record=tables.record(run),
        examples=chosen_examples(run, most=_EXAMPLES, redact=redact),
    )


def _fraction(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
