"""The HTML page about a sweep."""

from collections.abc import Mapping, Sequence

from harness.analysis import sweep_tables
from harness.analysis.sweep_results import SettingRow, SweepResults, place_name
from harness.analysis.sweep_tables import recall_over_time
from harness.core.findings import KeyFigure
from harness.core.text import format_score, pluralize
from harness.core.times import date_and_time
from harness.figures.curves import history_panel
from harness.figures.palette import numbered
from harness.submit.html_page import Figure, inline_svg, page

_SWEEP_PANEL = (10.6, 3.8)


def sweep_page(results: SweepResults) -> str:
    """Return the page about what a sweep has found so far. Equal records give equal pages.

    Raises HarnessError if a file of a round cannot be read.
    """
    places = sweep_tables.places(results)
    styles = numbered(row.setting for _, rows in places for row in rows)
    return page(
        "sweep.html.j2",
        results=results,
        started=date_and_time(results.sweep.created_at),
        headline=_sweep_headline(results),
        key_figures=_sweep_key_figures(results),
        places=[(name, rows, _figure(number, rows, styles)) for number, (name, rows) in enumerate(places)],
        tables=sweep_tables,
    )


def _sweep_headline(results: SweepResults) -> str:
    best = max(
        (row for row in results.rows if row.recall_at_cap is not None),
        key=lambda row: row.recall_at_cap or 0.0,
        default=None,
    )
    counts = f"{results.finished:,} of {pluralize(len(results.sweep.runs), 'run')} finished"
    if best is None:
        return f"{results.sweep.id}: {counts}, no recall yet"
    return f"{best.setting} has the highest mean recall, {format_score(best.recall_at_cap)} on {place_name(best)}"


def _sweep_key_figures(results: SweepResults) -> list[KeyFigure]:
    different = sum(difference.is_different for difference in results.differences)
    figures = [
        KeyFigure("Runs finished", f"{results.finished:,}", f"of {len(results.sweep.runs):,}"),
        KeyFigure("Settings", f"{len({row.setting for row in results.rows}):,}"),
    ]
    if results.baseline is not None:
        details = f"of {pluralize(len(results.differences), 'comparison')} with {results.baseline}"
        figures.append(KeyFigure("Different from the baseline", f"{different:,}", details))
    return figures


def _figure(number: int, rows: Sequence[SettingRow], styles: Mapping[str, int]) -> Figure | None:
    """Return the curves of the settings of one round and target, None if no run has a recall."""
    if not (curves := recall_over_time(rows)):
        return None
    cap = next(row.error_cap for row in rows if row.error_cap)
    caption = f"Recall@{cap:,} over the budget: mean of the finished runs of each setting."
    svg = history_panel(curves, label=f"Recall@{cap}", size=_SWEEP_PANEL, styles=styles)
    return inline_svg(svg, f"time-{number}", caption), caption
