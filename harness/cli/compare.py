"""`harness compare`: runs of one round side by side, as tables, a figure or JSON."""

from functools import partial
from pathlib import Path

from typer import Option

from harness.analysis import comparison_tables as tables
from harness.analysis.comparison import ComparedRun, Comparison, Trajectory, compare_runs
from harness.cli.options import Json, Runs
from harness.cli.output import print_json, sanitize, table_section
from harness.runs.folder import run_folder
from harness.runs.specs import AttackSpec

_MAX_IDS = 10
_section = partial(table_section, max_width=44)


def compare(
    runs: Runs,
    plot: Path | None = Option(None, metavar="FILE", help="Draw the curves to an .svg or .png file."),
    json: Json = False,
) -> None:
    """Compare two or more runs of one round.

    Prints recall, speed and the settings that differ. Two runs are also compared example by example.
    """
    if plot is not None:
        from harness.figures.curves import figure_format

        figure_format(plot)
    comparison = compare_runs([run_folder(name, AttackSpec) for name in runs])
    if plot is not None:
        _draw(comparison, plot)
    print_json(comparison.as_json()) if json else print("\n\n".join(_sections(comparison)))


def _draw(comparison: Comparison, path: Path) -> None:
    from harness.figures.curves import PlottedRun, write_comparison

    def plotted(run: ComparedRun, on: Trajectory) -> PlottedRun:
        return PlottedRun(sanitize(run.id), on.score, on.recall_over_time)

    runs = []
    for run in comparison.runs:
        in_time, by_trials = ([moment.labelled for moment in moments] for moments in run.moments[:2])
        plot = plotted(run, run.whole)
        runs.append(plot._replace(in_time=in_time, by_trials=by_trials, note=run.moments.note))
    not_in_train = [plotted(run, run.not_in_train) for run in comparison.runs if run.not_in_train is not None]
    write_comparison(runs, not_in_train, path, title=f"round {comparison.round}")


def _sections(comparison: Comparison) -> list[str]:
    first, second = (comparison.runs[0].id, comparison.runs[1].id)
    sections = [
        _section(f"round {comparison.round}, {len(comparison.whole):,} examples", tables.scores_and_pace(comparison)),
        _section(tables.not_in_train_heading(comparison), tables.scores_not_in_train(comparison)),
        _section(tables.recall_over_budget_heading(comparison), tables.recall_over_budget(comparison)),
        "\n".join(
            [_section(tables.MOMENTS_HEADING, tables.recall_at_moments(comparison))]
            + [sanitize(f"{run.id}: {run.moments.note}") for run in comparison.runs if run.moments.note]
        ),
        _section(tables.leads_heading(comparison), tables.who_leads(comparison)),
    ]
    for where, contrast in tables.contrasts(comparison):
        lines = tables.contrast_lines(comparison, contrast, where)
        for name, ids in ((first, contrast.only_first), (second, contrast.only_second)):
            lines.append(f"solved within the error cap only by {name}: {_ids_text(ids.tolist())}")
        sections.append("\n".join(map(sanitize, lines)))
    sections += map(sanitize, tables.reasons_without_test(comparison))
    differing = tables.differing_settings(comparison)
    sections.append(_section("", differing) if differing else tables.NOTHING_DIFFERS)
    return sections


def _ids_text(ids: list[int]) -> str:
    if not ids:
        return "none"
    rest = ", …" if len(ids) > _MAX_IDS else ""
    return f"{len(ids):,} ({', '.join(map(str, ids[:_MAX_IDS]))}{rest})"
