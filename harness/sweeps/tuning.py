"""A tuning: runs of one attack under one parent, on folds of a round's training examples, and what to run next.

The record of a tuning says what was asked for. Its progress follows from its runs, so Optuna's study is built from them
at each step instead of being stored a second time. Optuna chooses the next parameters (tree-structured Parzen
estimator, Bergstra et al. 2011) and prunes settings (median rule, Golovin et al. 2017).
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel

from harness.core.errors import HarnessError
from harness.core.extras import require_extra
from harness.core.options import Options, option
from harness.core.run_request import RunRequest
from harness.core.text import shorten
from harness.plugins.schema import fetch_schema
from harness.plugins.search_space import Span, every_setting, settings_of, space_of
from harness.runs.folder import RecordFiles, RunFolder, attack_runs
from harness.runs.specs import AttackSpec
from harness.runs.status import Status
from harness.runs.summary import run_summary

if TYPE_CHECKING:
    import optuna

_WIDE = 100
"""A span is searched on a log scale if its end is this many times its beginning."""
_UNPRUNED = 4
"""Number of settings that are tried on every fold before any is pruned."""
_MIN_RUNS_FOR_IMPORTANCE = 4
"""Number of complete settings from which the importance of parameters is estimated."""
_MIN_RUNS_FOR_ETA = 3
_MAX_REASON = 100
_ASKED = 20
"""The number of times that Optuna is asked for a setting that was not tried before."""


class TuneOptions(Options):
    """The parameters that a tuning searches, the folds and the number of runs."""

    heading: ClassVar[str] = "Search"

    runs: int = option(20, ge=1, description="Runs in total; the first use the defaults.")
    fold: tuple[str, ...] = option(
        (), unset="fold0of5 and fold1of5", description="Fold of the training examples; repeatable."
    )
    vary: tuple[str, ...] = option(
        (),
        metavar="NAME=VALUES",
        unset="all with bounds or choices",
        description="Parameter to search: NAME=LOW..HIGH or NAME=A,B,C; repeatable.",
    )


class Tuning(BaseModel, frozen=True, extra="forbid"):
    """The request for a tuning, and its time.

    request: that of each run, without its fold and the searched parameters.
    folds: such as `fold0of5`. vary: as typed. runs: their number in total. ray: as typed.
    """

    id: str
    created_at: float
    request: RunRequest
    folds: tuple[str, ...]
    vary: tuple[str, ...]
    runs: int
    ray: str


TUNINGS = RecordFiles("tuning", Tuning, see="harness list tunings")


@dataclass(frozen=True)
class Tried:
    """One run of a tuning, its recall (None if it has none), and its status (None if there is no record of it)."""

    folder: RunFolder
    spec: AttackSpec
    recall: float | None
    status: Status | None = None
    reason: str = ""
    """The reason of a crash."""
    elapsed_s: float = 0.0

    @property
    def why(self) -> str:
        """The reason, short enough for a line of a table."""
        has_reason = self.status is Status.CRASHED and self.reason
        return f" ({shorten(self.reason.rstrip('.'), _MAX_REASON)})" if has_reason else ""

    @property
    def fold(self) -> str:
        """The fold of the training examples that the run attacks."""
        return self.spec.round.name.rpartition(":")[2]


@dataclass(frozen=True)
class Setting:
    """One choice of the searched parameters, and its runs in the order of the folds."""

    params: dict[str, Any]
    runs: tuple[Tried, ...]

    @property
    def recalls(self) -> list[float]:
        """The recalls of its runs in the order of the folds, without runs that have none."""
        return [run.recall for run in self.runs if run.recall is not None]

    @property
    def recall(self) -> float | None:
        """The mean recall over its folds so far; None if a run has none, because one fold is easier than another."""
        return statistics.fmean(self.recalls) if len(self.recalls) == len(self.runs) else None

    def missing_folds(self, folds: Sequence[str]) -> str:
        """Return the missing part, such as `1 of 2 folds; fold1of5 crashed`; empty if it has a recall on all folds."""
        if len(self.recalls) == len(folds):
            return ""
        failed = (run for run in self.runs if run.recall is None)
        reasons = (f"{run.fold} {'failed' if run.status is None else run.status.words}{run.why}" for run in failed)
        return "; ".join((f"{len(self.recalls)} of {len(folds)} folds", *reasons))


@dataclass(frozen=True)
class Step:
    """The next run: settings as `--set` takes them, and the fold."""

    settings: list[str]
    fold: str


def settings_tried(space: Mapping[str, Span], tried: Sequence[Tried]) -> list[Setting]:
    """Return the settings of a tuning's runs, oldest first."""
    runs: dict[tuple[str, ...], list[Tried]] = {}
    for run in tried:
        runs.setdefault(tuple(repr(run.spec.params.get(name)) for name in space), []).append(run)
    return [
        Setting({name: runs_of_setting[0].spec.params.get(name) for name in space}, tuple(runs_of_setting))
        for runs_of_setting in runs.values()
    ]


def next_step(
    space: Mapping[str, Span],
    defaults: Mapping[str, Any] | None,
    tried: Sequence[Tried],
    folds: Sequence[str],
    *,
    seed: int,
) -> Step | None:
    """Return the next run, or None if no setting is left.

    The first setting is the attack's defaults. A setting continues on its next fold until it is pruned. Raises
    HarnessError if Optuna is not installed.
    """
    past = settings_tried(space, tried)
    for number, setting in enumerate(past):
        # An earlier setting is unfinished if one of its runs was lost and has been resumed since.
        is_unfinished = setting.recall is not None and len(setting.runs) < len(folds)
        if is_unfinished and not _is_pruned(space, past[: number + 1], folds):
            return Step(settings_of(space, setting.params), folds[len(setting.runs)])
    if not past and defaults is not None and all(name in defaults for name in space):
        return Step(settings_of(space, defaults), folds[0])
    past_settings = {tuple(settings_of(space, setting.params)) for setting in past}
    for attempt in range(_ASKED):
        # The seed follows from the number of runs, so that an interrupted tuning continues as it would have.
        study = _study(space, past, folds, seed=seed + len(tried) + attempt * 1_000_003)
        settings = settings_of(space, study.ask(_distributions(space)).params)
        if tuple(settings) not in past_settings:
            return Step(settings, folds[0])
    # Optuna repeats known settings, so the first unknown one is taken.
    for settings in every_setting(space):
        if tuple(settings) not in past_settings:
            return Step(settings, folds[0])
    return None


def best_first(past: Sequence[Setting]) -> list[Setting]:
    """Return the settings by their number of folds, because one fold may be an easy one, then by their mean recall.

    Those with a run that has no recall come last.
    """

    def rank(setting: Setting) -> tuple[int, float]:
        return (-1, len(setting.recalls)) if setting.recall is None else (len(setting.runs), setting.recall)

    return sorted(past, key=rank, reverse=True)


def best_of(past: Sequence[Setting]) -> Setting | None:
    """Return the first setting of `best_first`; None if there is no recall."""
    return next((setting for setting in best_first(past) if setting.recall is not None), None)


def is_pruned(space: Mapping[str, Span], past: Sequence[Setting], folds: Sequence[str]) -> bool:
    """Return True if the last setting of `past` ended before its last fold because it was below the median."""
    return len(past[-1].runs) < len(folds) and past[-1].recall is not None and _is_pruned(space, past, folds)


def importances(space: Mapping[str, Span], past: Sequence[Setting], folds: Sequence[str]) -> dict[str, float]:
    """Return how much of the variance of recall each parameter explains, largest first (fANOVA, Hutter et al. 2014).

    The shares sum to 1. The result is empty as long as there are too few complete settings, or if Optuna is missing.
    """
    try:
        library = require_optuna()
        study = _study(space, past, folds, seed=0)
        complete = [trial.value for trial in study.trials if trial.state is library.trial.TrialState.COMPLETE]
        if len(complete) < _MIN_RUNS_FOR_IMPORTANCE or len(set(complete)) < 2:
            return {}
        evaluator = library.importance.FanovaImportanceEvaluator(seed=0)
        return dict(library.importance.get_param_importances(study, evaluator=evaluator))
    except (HarnessError, ValueError, RuntimeError):
        return {}


def require_optuna() -> Any:
    """Return the library, with its log off. Raises HarnessError if it is not installed."""
    require_extra("tune", "`harness tune`")
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def runs_of(id_: str) -> list[Tried]:
    """Return the runs of the tuning `id_`, oldest first."""
    tried = []
    for folder, spec in attack_runs():
        if spec.parent == id_:
            summary = run_summary(folder)
            recall = summary.recall_at_cap if summary.status.is_complete else None
            tried.append(Tried(folder, spec, recall, summary.status, summary.reason, summary.elapsed_s))
    return sorted(tried, key=lambda run: run.spec.created_at)


def seconds_left(tuning: Tuning, runs: Sequence[Tried]) -> float | None:
    """Return the seconds until the last run ends, if the others take as long as those that ended.

    Those at work share what is left. None before three have ended, and for a tuning that goes on past its number of
    runs, because its record does not say until when.
    """
    ended = [run.elapsed_s for run in runs if run.status is not None and run.status.is_over]
    at_work = [run.elapsed_s for run in runs if run.status is not None and not run.status.is_over]
    if len(ended) < _MIN_RUNS_FOR_ETA or len(ended) + len(at_work) > tuning.runs:
        return None
    mean = statistics.fmean(ended)
    left = mean * (tuning.runs - len(ended) - len(at_work)) + sum(max(0.0, mean - seconds) for seconds in at_work)
    return left / max(1, len(at_work))


def searched_space(tuning: Tuning, runs: Sequence[Tried]) -> dict[str, Span]:
    """Return the searched parameters, as the attack of the first run declares them; empty without runs.

    Raises HarnessError if the declaration cannot be read.
    """
    if not runs:
        return {}
    first = runs[0]
    schema = fetch_schema(first.folder.code / first.spec.attack.file, digest=first.spec.attack.sha256)
    return dict(space_of(schema.schema, tuning.request.settings, tuning.vary))


def _study(space: Mapping[str, Span], past: Sequence[Setting], folds: Sequence[str], *, seed: int) -> "optuna.Study":
    """Return Optuna's study of the settings so far: the mean recall after each fold, unfinished ones as pruned."""
    library = require_optuna()
    study: optuna.Study = library.create_study(
        direction="maximize",
        sampler=library.samplers.TPESampler(seed=seed),
        pruner=library.pruners.MedianPruner(n_startup_trials=_UNPRUNED),
    )
    for setting in past:
        if setting.recall is not None and _is_inside(space, setting):
            study.add_trial(_trial(space, setting, is_complete=len(setting.runs) == len(folds)))
    return study


def _is_pruned(space: Mapping[str, Span], past: Sequence[Setting], folds: Sequence[str]) -> bool:
    """Return True if the last setting is below the median of the complete ones after as many folds.

    A setting outside the space is never pruned: the attack's defaults may be one, and the others are compared with it.
    """
    if not _is_inside(space, past[-1]):
        return False
    study = _study(space, past[:-1], folds, seed=0)
    return bool(study.pruner.prune(study, _trial(space, past[-1], is_complete=False)))


def _is_inside(space: Mapping[str, Span], setting: Setting) -> bool:
    return all(span.holds(setting.params[name]) for name, span in space.items())


def _trial(space: Mapping[str, Span], setting: Setting, *, is_complete: bool) -> "optuna.trial.FrozenTrial":
    library = require_optuna()
    states = library.trial.TrialState
    recalls = setting.recalls
    trial: optuna.trial.FrozenTrial = library.trial.create_trial(
        params=setting.params,
        distributions=_distributions(space),
        intermediate_values={step: statistics.fmean(recalls[: step + 1]) for step in range(len(recalls))},
        value=setting.recall if is_complete else None,
        state=states.COMPLETE if is_complete else states.PRUNED,
    )
    return trial


def _distributions(space: Mapping[str, Span]) -> dict[str, Any]:
    return {name: _distribution(span) for name, span in space.items()}


def _distribution(span: Span) -> Any:
    kinds = require_optuna().distributions
    if span.choices:
        return kinds.CategoricalDistribution(span.choices)
    is_wide = span.low > 0 and span.high / span.low >= _WIDE
    if span.is_whole:
        return kinds.IntDistribution(int(span.low), int(span.high), log=is_wide)
    return kinds.FloatDistribution(span.low, span.high, log=is_wide)
