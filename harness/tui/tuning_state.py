"""The tunings as the screen shows them. It knows nothing of Textual."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from harness.core.errors import HarnessError
from harness.core.text import format_score
from harness.plugins.parameters import Span, space_of
from harness.plugins.schema import fetch_schema
from harness.runs.tuning import TUNINGS, Tried, Tuning, importances, is_pruned, runs_of, settings_tried


@dataclass(frozen=True)
class SettingView:
    """One choice of parameters.

    number: from 1, in the order of the tuning. recall: the mean over its folds. recalls: on each fold, as text.
    """

    number: int
    params: dict[str, Any]
    recall: float | None
    recalls: tuple[str, ...]
    is_pruned: bool


@dataclass(frozen=True)
class TuningView:
    """A tuning, with its settings, best first. importances: the share of each parameter, largest first."""

    id: str
    attack: str
    round: str
    created_at: float
    run_count: int
    best: float | None
    parameters: tuple[str, ...]
    folds: tuple[str, ...]
    settings: tuple[SettingView, ...]
    importances: dict[str, float]


def read_tunings() -> list[TuningView]:
    """Return all tunings, newest first. Raises HarnessError if a record cannot be read."""
    return [_view(TUNINGS.named(id_)) for id_ in TUNINGS.ids()]


def _view(tuning: Tuning) -> TuningView:
    runs = runs_of(tuning.id)
    space = _space(tuning, runs)
    past = settings_tried(space, runs)
    settings = []
    for number, tried in enumerate(past, 1):
        recalls = {run.fold: run.recall for run in tried.runs}
        shown = tuple(format_score(recalls[fold]) if fold in recalls else "" for fold in tuning.folds)
        pruned = is_pruned(space, past[:number], tuning.folds)
        settings.append(SettingView(number, tried.params, tried.recall, shown, pruned))
    # As `harness tune` chooses: a setting with more folds comes first, because one fold may be an easy one.
    settings.sort(
        key=lambda one: (sum(map(bool, one.recalls)), -1.0 if one.recall is None else one.recall), reverse=True
    )
    best = settings[0].recall if settings else None
    return TuningView(
        tuning.id,
        tuning.attack,
        tuning.round,
        tuning.created_at,
        len(runs),
        best,
        tuple(space),
        tuning.folds,
        tuple(settings),
        importances(space, past, tuning.folds),
    )


def _space(tuning: Tuning, runs: Sequence[Tried]) -> dict[str, Span]:
    """Return the searched parameters, as the attack of the first run declares them."""
    with contextlib.suppress(HarnessError):
        if runs:
            first = runs[0]
            schema = fetch_schema(first.folder.code / first.spec.attack.file, digest=first.spec.attack.sha256)
            return dict(space_of(schema.schema, tuning.settings, tuning.vary))
    return {}
