"""`harness compare`: runs of one round side by side, in tables, in a figure, or as JSON."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.completion import run_names
from harness.cli.output import align_columns, print_json, sanitize, shorten_middle

if TYPE_CHECKING:
    from harness.analysis.comparison import Comparison
    from harness.analysis.comparison_tables import Table

_IDS_SHOWN = 10
_CELL = 44


def compare(
    runs: Annotated[
        list[str],
        typer.Argument(
            help="Two runs or more, by id, unambiguous start, or `latest`.",
            metavar="RUN RUN…",
            autocompletion=run_names,
            show_default=False,
        ),
    ],
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the curves to an .svg or .png file.")] = None,
    json: Annotated[bool, typer.Option("--json", help="One line of JSON on stdout.")] = False,
) -> None:
    """Compare runs of one round: recall, pace, and what was set differently; two of them also example by example."""
    from harness.analysis.comparison import compare_runs
    from harness.runs.folder import run_folder

    if plot is not None:
        from harness.figures.curves import figure_format

        figure_format(plot)
    comparison = compare_runs([run_folder(name) for name in runs])
    if plot is not None:
        _draw(comparison, plot)
    if json:
        print_json(comparison.as_json())
    else:
        print("\n\n".join(_sections(comparison)))


def _draw(comparison: "Comparison", path: Path) -> None:
    from harness.figures.curves import PlottedRun, write_comparison

    drawn = [
        PlottedRun(sanitize(run.id), run.score, run.unreachable, run.recall_over_time, run.unreachable_over_time)
        for run in comparison.runs
    ]
    write_comparison(drawn, path, title=f"round {comparison.round}")


def _sections(comparison: "Comparison") -> list[str]:
    from harness.analysis import comparison_tables as tables

    first, second = (comparison.runs[0].id, comparison.runs[1].id)
    sections = [
        _section(f"round {comparison.round}, {len(comparison.whole):,} examples", tables.scores_and_pace(comparison)),
        _section(tables.unreachable_heading(comparison), tables.scores_on_unreachable(comparison)),
        _section(tables.recall_over_budget_heading(comparison), tables.recall_over_budget(comparison)),
    ]
    for where, contrast in tables.contrasts(comparison):
        lines = tables.contrast_lines(comparison, contrast, where)
        for name, ids in ((first, contrast.only_first), (second, contrast.only_second)):
            lines.append(f"solved within the cap by {name} alone: {_first_ids(ids.tolist())}")
        sections.append("\n".join(map(sanitize, lines)))
    differing = tables.differing_settings(comparison)
    sections.append(_section("", differing) if differing else tables.NOTHING_DIFFERS)
    return sections


def _section(title: str, table: "Table") -> str:
    rows = [[shorten_middle(sanitize(cell), _CELL) for cell in row] for row in table]
    return "\n".join(filter(None, (sanitize(title), align_columns(rows) if rows else "")))


def _first_ids(ids: list[int]) -> str:
    if not ids:
        return "none"
    rest = ", …" if len(ids) > _IDS_SHOWN else ""
    return f"{len(ids):,} ({', '.join(map(str, ids[:_IDS_SHOWN]))}{rest})"
