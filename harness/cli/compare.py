"""`harness compare`: runs of one round side by side, in tables, in a figure, or as JSON."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli.completion import run_names
from harness.cli.output import aligned, counted, print_json, visible

if TYPE_CHECKING:
    from harness.core.comparison import Contrast, Part
    from harness.core.intervals import Interval
    from harness.core.scoring import Score
    from harness.runs.comparison import ComparedRun, Comparison

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
    from harness.runs.comparison import compared
    from harness.runs.folder import run_folder

    if plot is not None:
        from harness.figures.curves import figure_format

        figure_format(plot)
    comparison = compared([run_folder(name) for name in runs])
    if plot is not None:
        _draw(comparison, plot)
    if json:
        print_json(comparison.as_json())
    else:
        print("\n\n".join(_sections(comparison)))


def _draw(comparison: "Comparison", path: Path) -> None:
    from harness.figures.curves import DrawnRun, write_comparison

    drawn = [DrawnRun(visible(run.id), run.score, run.unreachable, run.recall_over_time) for run in comparison.runs]
    write_comparison(drawn, path, title=f"round {comparison.round}")


def _sections(comparison: "Comparison") -> list[str]:
    whole, part = comparison.whole, comparison.unreachable
    sections = [f"round {comparison.round}, {len(whole):,} examples\n{_scores_and_pace(comparison)}"]
    if part is None:
        sections.append(
            f"nothing on the part that cannot be reached: {visible(comparison.no_unreachable_because or '')}"
        )
    else:
        sections.append(
            f"the {len(part):,} examples that cannot be reached from the training rows\n{_scores_on(comparison, part)}"
        )
    sections.append(_recall_in_time(comparison))
    if comparison.contrast is not None:
        sections.append(_contrast_in_words(comparison, comparison.contrast, "all examples"))
    if comparison.unreachable_contrast is not None:
        sections.append(
            _contrast_in_words(comparison, comparison.unreachable_contrast, "the part that cannot be reached")
        )
    sections.append(_settings_that_differ(comparison))
    return sections


def _scores_and_pace(comparison: "Comparison") -> str:
    from harness.core.durations import clock

    header = ("run", "attack", "status", *_score_header(comparison.whole), "time", "suffixes/s")
    rows = [
        (
            *_names(run),
            str(run.status),
            *_score_cells(run.score),
            f"{clock(run.elapsed_s)}/{clock(run.budget_s)}",
            "–" if run.suffixes_per_s is None else f"{run.suffixes_per_s:,.1f}",
        )
        for run in comparison.runs
    ]
    return aligned([header, *rows])


def _scores_on(comparison: "Comparison", part: "Part") -> str:
    rows = [(*_names(run), *_score_cells(run.unreachable)) for run in comparison.runs if run.unreachable is not None]
    return aligned([("run", "attack", *_score_header(part)), *rows])


def _recall_in_time(comparison: "Comparison") -> str:
    from harness.runs.comparison import BUDGET_SHARES

    header = ("run", *(f"{share:.0%}" for share in BUDGET_SHARES))
    rows = [
        (visible(run.id), *("–" if recall is None else f"{recall:.3f}" for recall in run.recall_at_shares))
        for run in comparison.runs
    ]
    return f"recall at {counted(comparison.whole.cap, 'error')} after a part of the budget\n{aligned([header, *rows])}"


def _contrast_in_words(comparison: "Comparison", contrast: "Contrast", where: str) -> str:
    from harness.core.comparison import MCNEMAR_CAVEAT

    first, second = (visible(run.id) for run in comparison.runs)
    difference, interval = contrast.difference
    return "\n".join(
        [
            f"{first} less {second}, on {where}",
            f"difference {difference:+.3f} {_bounds(interval, '+.3f')} ({interval.unit})",
            f"McNemar's exact test p = {contrast.mcnemar_p:.3g} ({MCNEMAR_CAVEAT})",
            f"solved within the cap by {first} alone: {_first_ids(contrast.only_first.tolist())}",
            f"solved within the cap by {second} alone: {_first_ids(contrast.only_second.tolist())}",
        ]
    )


def _settings_that_differ(comparison: "Comparison") -> str:
    if not comparison.differing:
        return "nothing differs in attack, parameters, seed, budget, target, versions and hardware"
    header = ("what differs", *(visible(run.id) for run in comparison.runs))
    rows = [(visible(name), *map(_value, values)) for name, values in comparison.differing.items()]
    return aligned([header, *rows])


def _names(run: "ComparedRun") -> tuple[str, str]:
    return visible(run.id), visible(run.attack)


def _score_header(part: "Part") -> tuple[str, str]:
    return f"recall at {counted(part.cap, 'error')}", "precision"


def _score_cells(score: "Score") -> tuple[str, str]:
    return f"{score.recall_at_cap:.3f} {_bounds(score.interval, '.3f')}", f"{score.precision_at_cap:.3f}"


def _bounds(interval: "Interval", form: str) -> str:
    return f"[{interval.low:{form}}, {interval.high:{form}}]"


def _first_ids(ids: list[int]) -> str:
    if not ids:
        return "none"
    rest = ", …" if len(ids) > _IDS_SHOWN else ""
    return f"{len(ids):,} ({', '.join(map(str, ids[:_IDS_SHOWN]))}{rest})"


def _value(value: Any) -> str:
    """A setting in a cell; of a long one both ends, since paths differ in the last part."""
    text = "–" if value is None else visible(str(value))
    return text if len(text) <= _CELL else f"{text[: _CELL // 2]}…{text[1 - _CELL // 2 :]}"
