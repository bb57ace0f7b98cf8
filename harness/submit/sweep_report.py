"""The HTML report on one sweep."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from markupsafe import Markup

from harness.analysis import sweep_tables
from harness.analysis.sweep_curves import recall_over_time
from harness.analysis.sweep_importance import Importance
from harness.analysis.sweep_results import SettingRow, SweepResults, place_name
from harness.core.findings import BarChart, KeyFigure
from harness.core.text import format_score, pluralize
from harness.core.times import date_and_time
from harness.figures.charts import draw_charts
from harness.figures.curves import history_panel
from harness.figures.forest import MOST_ROWS, ForestRow, forest_panel
from harness.figures.palette import numbered
from harness.submit.html_page import inline_svg, page
from harness.submit.run_tables import Rows

_PANEL = (10.6, 3.8)


class _Section(NamedTuple):
    """A part of the page: a title, a table (which may be empty), and figures with their captions."""

    title: str
    table: Rows
    figures: tuple[tuple[Markup, str], ...] = ()


def sweep_page(results: SweepResults) -> str:
    """Return the page about what a sweep has found so far. Equal records give equal pages.

    Raises HarnessError if a file of a round cannot be read.
    """
    places = sweep_tables.places(results)
    styles = numbered(row.setting for _, rows in places for row in rows)
    return page(
        "sweep.html.j2",
        sweep=results.sweep.id,
        started=date_and_time(results.sweep.created_at),
        headline=_headline(results),
        key_figures=_key_figures(results),
        notes=results.notes,
        settings=[_settings(number, name, rows, styles) for number, (name, rows) in enumerate(places)],
        differences=_differences(results),
        differences_note=sweep_tables.differences_note(results) if results.differences else "",
        importance=_importance(results.importances),
    )


def _headline(results: SweepResults) -> str:
    best = max((row for row in results.rows if row.recall is not None), key=lambda row: row.recall or 0.0, default=None)
    counts = f"{results.finished:,} of {pluralize(len(results.sweep.runs), 'run')} finished"
    if best is None:
        return f"{results.sweep.id}: {counts}, no recall yet"
    return f"{best.setting} has the highest mean recall, {format_score(best.recall)} on {place_name(best)}"


def _key_figures(results: SweepResults) -> list[KeyFigure]:
    different = sum(one.is_different for one in results.differences)
    figures = [
        KeyFigure("Runs finished", f"{results.finished:,}", f"of {len(results.sweep.runs):,}"),
        KeyFigure("Settings", f"{len({row.setting for row in results.rows}):,}"),
    ]
    if results.baseline is not None:
        compared = f"of {pluralize(len(results.differences), 'comparison')} with {results.baseline}"
        figures.append(KeyFigure("Different from the baseline", f"{different:,}", compared))
    return figures


def _settings(number: int, name: str, rows: list[SettingRow], styles: Mapping[str, int]) -> _Section:
    curves = recall_over_time(rows)
    figures: tuple[tuple[Markup, str], ...] = ()
    if curves:
        cap = next(row.error_cap for row in rows if row.error_cap)
        caption = f"Recall@{cap:,} over the budget: mean of the finished runs of each setting."
        svg = history_panel(curves, label=f"Recall@{cap}", size=_PANEL, styles=styles)
        figures = ((inline_svg(svg, f"time-{number}", caption), caption),)
    return _Section(name, list(sweep_tables.settings_table(rows)), figures)


def _differences(results: SweepResults) -> _Section:
    if not results.differences:
        return _Section("", [])
    many = len(sweep_tables.places(results)) > 1
    rows = []
    for one in results.differences:
        name = f"{one.setting}, {sweep_tables.place_of(results, one)}" if many else one.setting
        rows.append(ForestRow(name, one.difference, one.interval, one.is_different))
    first = f" The first {MOST_ROWS} of {len(rows):,} are drawn." if len(rows) > MOST_ROWS else ""
    caption = f"Difference from {results.baseline}. Blue: different from 0 after Holm's correction.{first}"
    drawing = forest_panel(rows, label=f"recall minus recall of {results.baseline}")
    figure = (inline_svg(drawing.svg, "forest", caption), caption)
    table = list(sweep_tables.differences_table(results, with_joint=True))
    return _Section(sweep_tables.differences_heading(results), table, (figure,))


def _importance(found: tuple[Importance, ...]) -> list[_Section]:
    drawn = [one for one in found if one.factors]
    drawings = dict(zip(map(id, drawn), draw_charts([_bars(one) for one in drawn]), strict=True))
    sections = []
    for number, one in enumerate(found):
        title = sweep_tables.importance_heading(one)
        figures: tuple[tuple[Markup, str], ...] = ()
        if id(one) in drawings:
            caption = "Share of the explained variance of recall that is due to each factor."
            figures = ((inline_svg(drawings[id(one)].svg, f"importance-{number}", caption), caption),)
        sections.append(_Section(title, list(sweep_tables.importance_table(one)), figures))
    return sections


def _bars(found: Importance) -> BarChart:
    return BarChart(
        name="importance",
        title="",
        y_label="share of the explained variance",
        labels=[factor.factor for factor in found.factors],
        groups=["share"],
        values=np.array([[factor.share for factor in found.factors]], np.float64),
    )
