"""The HTML report on one run, or on several runs of one round side by side."""

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from harness.analysis import comparison_tables
from harness.analysis.comparison import Comparison, compare_runs, require_one_round
from harness.core.errors import HarnessError
from harness.core.text import NO_VALUE
from harness.figures.curves import history_panel, recall_panel
from harness.figures.palette import numbered
from harness.runs.folder import RunFolder
from harness.submit import run_tables
from harness.submit.html_page import inline_svg, page
from harness.submit.report_summary import report_summary
from harness.submit.run_facts import RunFacts, run_facts
from harness.submit.run_tables import Monospace, Rows
from harness.submit.shown_examples import differing_examples, select_examples

_PANEL = (5.2, 3.2)
_EXAMPLES = 4
_DIFFERING = 8


Figure = tuple[Markup, str]
"""An SVG figure of the page and its caption."""


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
    return page(
        "report.html.j2",
        summary=report_summary(runs, styles),
        round=rules.name,
        round_title=rules.title,
        scores=_scores(runs),
        figures=_figures(runs, styles, comparisons[0] if comparisons else None),
        comparisons=comparisons,
        no_comparison=no_comparison,
        differing=differing_examples(runs, most=_DIFFERING, redact=redact) if len(runs) > 1 else (),
        runs=[(run, select_examples(run, most=_EXAMPLES, redact=redact)) for run in runs],
        tables=run_tables,
        compared=comparison_tables,
        is_redacted=redact,
        unit=None if runs[0].score is None else str(runs[0].score.interval.unit),
    )


def _scores(runs: Sequence[RunFacts]) -> Rows:
    """Return a header and one row per run."""
    labels = next((tuple(fact.label for fact in run.scores) for run in runs if run.scores), ())
    rows: Rows = [("Run", "Attack", "Status", *labels, "Rows", "Time")]
    for run in runs:
        summary = run.summary
        figures = tuple(fact.text or NO_VALUE for fact in run.scores)
        status = summary.status.words
        if run.spec.is_partial:
            status += f", partial: {run.spec.examples:,} examples, cap {run.spec.error_cap:,}"
        rows_submitted = f"{len(run.submission.ids):,}"
        rows.append((Monospace(run.spec.id), summary.shown_attack, status, *figures, rows_submitted, summary.time_text))
    return rows


def _figures(runs: Sequence[RunFacts], styles: Mapping[str, int], compared: Comparison | None) -> list[Figure]:
    """Return the curves of all runs with as many examples as the first: recall, or the number of rows if blind.

    Recall vs. time is on the clock of the comparison, if there is one.
    """
    drawn = [run for run in runs if run.spec.examples == runs[0].spec.examples]
    scores = [(run.spec.id, run.score) for run in drawn if run.score is not None]
    in_time = [(run.spec.id, run.curve) for run in drawn]
    if len(scores) < len(drawn):
        svg = history_panel(in_time, label="rows of the submission", size=_PANEL, styles=styles)
        return [_figure(svg, "rows", "Rows of the submission vs. time.")]
    cap, clock = scores[0][1].cap, ""
    if compared is not None:
        clock = compared.clock.title
        in_time = [(run.id, tuple(run.history_on(compared.clock, run.whole))) for run in compared.runs]
    only = " Only runs with as many examples as the first are drawn." if len(drawn) < len(runs) else ""
    recall_caption = f"Recall vs. errors, with the 95 % interval at the error cap of {cap:,}.{only}"
    figures = [
        _figure(recall_panel(scores, size=_PANEL, styles=styles), "recall", recall_caption),
        _figure(
            history_panel(in_time, label=f"Recall@{cap}", size=_PANEL, styles=styles, clock=clock),
            "time",
            f"Recall@{cap:,} vs. time.",
        ),
    ]
    parts = [(run.spec.id, run.unreachable_score) for run in drawn if run.unreachable_score is not None]
    if parts:
        caption = "Recall vs. errors on the examples whose answers are not in the training rows."
        figures.append(_figure(recall_panel(parts, size=_PANEL, styles=styles), "unreachable", caption))
    return figures


def _figure(svg: str, name: str, caption: str) -> Figure:
    return inline_svg(svg, name, caption), caption


def _comparisons(runs: Sequence[RunFacts]) -> tuple[list[Comparison], str]:
    """Return the comparison of all runs, then of the first run with each other one if there are more than two.

    Without a comparison, the list is empty and the text is the reason ('' for a single run).
    """
    if len(runs) < 2:
        return [], ""
    folders = [run.folder for run in runs]
    pairs = [[folders[0], other] for other in folders[1:]] if len(runs) > 2 else []
    try:
        return [compare_runs(group) for group in (folders, *pairs)], ""
    except HarnessError as error:
        # The rest of the page is valid in a blind round, and for runs with different --limit.
        return [], str(error)
