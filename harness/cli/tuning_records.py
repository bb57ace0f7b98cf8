"""Tunings as commands list and show them."""

from typing import Any

from harness.cli.output import align_columns, print_json, sanitize, say
from harness.core.errors import HarnessError
from harness.core.text import format_score
from harness.core.times import date_and_time
from harness.plugins.parameters import space_of
from harness.plugins.schema import fetch_schema
from harness.runs.folder import all_run_folders
from harness.runs.tuning import TUNINGS, Setting, Tuning, best_of, runs_of, settings_tried


def print_tuning(tuning: Tuning, *, json: bool) -> None:
    """Print the settings that a tuning has tried, with their recall on each fold.

    The searched parameters are those of the attack as it ran: each run has a copy of its source.
    """
    runs, space = runs_of(tuning.id), {}
    if runs:
        first = runs[0]
        schema = fetch_schema(first.folder.code / first.spec.attack.file, digest=first.spec.attack.sha256)
        space = space_of(schema.schema, tuning.settings, tuning.vary)
    tried = settings_tried(space, runs)
    best = best_of(tried)
    if json:
        print_json(
            {
                "id": tuning.id,
                "attack": tuning.attack,
                "round": tuning.round,
                "settings": [_setting_as_json(setting) for setting in tried],
                "best": None if best is None else best.params,
            }
        )
        return
    if not tried:
        say(f"{tuning.id} has no runs. `harness tune --resume {tuning.id}` continues it.")
        return
    print(align_columns([(*space, *tuning.folds, "recall"), *(_row(setting, tuning.folds) for setting in tried)]))


def print_tunings(*, json: bool) -> None:
    """Print all tunings, newest first, with the number of runs that each has."""
    tunings = [TUNINGS.named(id_) for id_ in TUNINGS.ids()]
    parents: list[str | None] = []
    for folder in all_run_folders() if tunings else ():
        try:
            parents.append(folder.spec().parent)
        except HarnessError:
            continue
    counts = {tuning.id: parents.count(tuning.id) for tuning in tunings}
    if json:
        listed = [
            tuning.model_dump(include={"id", "attack", "round", "created_at"}) | {"runs": counts[tuning.id]}
            for tuning in tunings
        ]
        print_json({"tunings": listed})
    elif tunings:
        rows = [
            (tuning.id, tuning.attack, tuning.round, str(counts[tuning.id]), date_and_time(tuning.created_at))
            for tuning in tunings
        ]
        print(align_columns([("tuning", "attack", "round", "runs", "started"), *rows]))
    else:
        say("no tunings yet. `harness tune ATTACK` starts one.")


def recall_text(recall: float | None) -> str:
    """Return a recall with three digits, or a dash."""
    return format_score(recall)


def _row(setting: Setting, folds: tuple[str, ...]) -> tuple[str, ...]:
    """Return the values of a setting, its recall on each fold (empty if it was not tried there), and their mean."""
    recalls = {run.fold: recall_text(run.recall) for run in setting.runs}
    return (
        *(sanitize(str(value)) for value in setting.params.values()),
        *(recalls.get(fold, "") for fold in folds),
        recall_text(setting.recall),
    )


def _setting_as_json(setting: Setting) -> dict[str, Any]:
    return {
        "params": setting.params,
        "recall_at_cap": setting.recall,
        "runs": [{"id": run.folder.id, "fold": run.fold, "recall_at_cap": run.recall} for run in setting.runs],
    }
