"""Differences between the attacks of a sweep, and the importance of their parameters."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from harness.analysis.parts import Part
from harness.core.errors import HarnessError
from harness.core.intervals import JudgedRows, Unit, shared_replicates
from harness.core.multiple_comparisons import ALPHA, PairedBootstrap, holm
from harness.core.scoring import recall_at_errors
from harness.sweeps.tuning import require_optuna

Submissions = Mapping[str, Mapping[int, JudgedRows]]
"""The submission of each finished run, by its setting and its seed."""


class Paired(NamedTuple):
    """One setting, the seeds that both it and the baseline have finished, and the bootstrap of their difference."""

    setting: str
    seeds: tuple[int, ...]
    bootstrap: PairedBootstrap


@dataclass(frozen=True)
class SettingDifference:
    """Mean recall of a setting minus that of the baseline, over the same examples and the same seeds."""

    round: str
    target: str | None
    setting: str
    seeds: tuple[int, ...]
    difference: float
    p: float
    holm_p: float
    """The p-value corrected for all comparisons of the sweep."""
    interval_level: float
    interval: tuple[float, float] | None
    """Interval at `interval_level`. It excludes 0 exactly if holm_p is at most 0.05. None with too few replicates."""
    joint_interval: tuple[float, float] | None
    """These intervals cover all true differences of the sweep with 95 % probability. None with too few replicates."""
    interval_unit: Unit

    @property
    def is_different(self) -> bool:
        """True if Holm's test finds a difference at an error rate of 5 %."""
        return self.holm_p <= ALPHA

    def as_json(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        return vars(self) | {"is_different": self.is_different}


def pair_with_baseline(part: Part, submissions: Submissions, baseline: str, *, replicates: int) -> list[Paired]:
    """Return the bootstrap of each other setting against the baseline on `part`, in the order of `submissions`.

    All submissions share the replicates. A setting without a seed that the baseline has finished is left out.
    """
    numbered = [(setting, seed) for setting, by_seed in submissions.items() for seed in by_seed]
    if baseline not in submissions or len(submissions) < 2:
        return []
    rows = [part.rows_of(submissions[setting][seed]) for setting, seed in numbered]
    recalls, unit, units = shared_replicates(
        rows, cap=part.cap, examples=len(part), clusters=part.clusters, replicates=replicates
    )
    replicated = dict(zip(numbered, recalls, strict=True))
    scores = {
        key: recall_at_errors(*judged, cap=part.cap, examples=len(part))
        for key, judged in zip(numbered, rows, strict=True)
    }
    pairs = []
    for setting, by_seed in submissions.items():
        seeds = tuple(seed for seed in by_seed if seed in submissions[baseline])
        if setting == baseline or not seeds:
            continue
        bootstrap = PairedBootstrap.of(
            statistics.fmean(scores[setting, seed] - scores[baseline, seed] for seed in seeds),
            [replicated[setting, seed] for seed in seeds],
            [replicated[baseline, seed] for seed in seeds],
            unit=unit,
            units=units,
        )
        pairs.append(Paired(setting, seeds, bootstrap))
    return pairs


def corrected(groups: Sequence[tuple[str, str | None, Sequence[Paired]]]) -> list[SettingDifference]:
    """Return the differences of all groups, corrected together; a group is a round, a target and its comparisons."""
    family = [(round_, target, paired) for round_, target, pairs in groups for paired in pairs]
    adjusted, divisors = holm(np.array([paired.bootstrap.p_value for _, _, paired in family], np.float64))
    return [
        SettingDifference(
            round=round_,
            target=target,
            setting=setting,
            seeds=seeds,
            difference=bootstrap.difference,
            p=bootstrap.p_value,
            holm_p=float(p),
            interval_level=1 - ALPHA / int(divisor),
            interval=bootstrap.interval(int(divisor)),
            joint_interval=bootstrap.interval(len(family)),
            interval_unit=bootstrap.unit,
        )
        for (round_, target, (setting, seeds, bootstrap)), p, divisor in zip(family, adjusted, divisors, strict=True)
    ]


_LEAST_DIFFERENCE = 1e-9
_LEAST_RUNS = 4


class Observation(NamedTuple):
    """One finished run: its recall, and its level of each factor. All runs of an attack have the same factors."""

    recall: float
    attack: str
    params: Mapping[str, str]
    conditions: Mapping[str, str]


@dataclass(frozen=True)
class FactorShare:
    """A factor, its number of levels, and the share of the explained variance that is due to it."""

    factor: str
    levels: int
    share: float


@dataclass(frozen=True)
class Importance:
    """The factors of some runs, largest share first. The shares sum to 1."""

    attack: str | None
    """The attack whose runs these are, None for all attacks."""
    runs: int
    factors: tuple[FactorShare, ...]
    reason: str
    """The reason that there are no shares, or empty."""

    def as_json(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        return vars(self) | {"factors": [vars(factor) for factor in self.factors], "reason": self.reason or None}


def importances(runs: Sequence[Observation]) -> list[Importance]:
    """Return the importance of the factors over all attacks if there are several, then within each attack.

    An attack with one setting is left out if there are several attacks.
    """
    attacks = list(dict.fromkeys(run.attack for run in runs))
    results = []
    if len(attacks) > 1:
        results.append(_importance(None, runs, [{"attack": run.attack, **run.conditions} for run in runs]))
    for attack in attacks:
        of_attack = [run for run in runs if run.attack == attack]
        if len(attacks) == 1 or len({tuple(run.params.items()) for run in of_attack}) > 1:
            results.append(_importance(attack, of_attack, [_factors_of(run) for run in of_attack]))
    return results


def _factors_of(run: Observation) -> dict[str, str]:
    """Return the levels of a run. A parameter may have the name of a condition, such as `seed`."""
    params = {f"parameter {name}" if name in run.conditions else name: level for name, level in run.params.items()}
    return {**params, **run.conditions}


def _importance(attack: str | None, runs: Sequence[Observation], levels: Sequence[Mapping[str, str]]) -> Importance:
    choices = {name: list(dict.fromkeys(of_run[name] for of_run in levels)) for name in levels[0]}
    choices = {name: names for name, names in choices.items() if len(names) > 1}
    recalls = [run.recall for run in runs]
    shares: dict[str, float] = {}
    reason = ""
    if len(runs) < _LEAST_RUNS:
        reason = f"fewer than {_LEAST_RUNS} finished runs"
    elif not choices:
        reason = "no factor varies"
    # Recalls are fractions of at most millions of examples. A smaller difference is rounding.
    elif max(recalls) - min(recalls) < _LEAST_DIFFERENCE:
        reason = "the recall of all runs is the same"
    else:
        try:
            shares = _fanova(choices, levels, recalls)
        except HarnessError as error:
            reason = str(error).rstrip(".")
    factors = tuple(FactorShare(name, len(choices[name]), share) for name, share in shares.items())
    return Importance(attack, len(runs), factors, reason)


def _fanova(
    choices: Mapping[str, Sequence[str]], levels: Sequence[Mapping[str, str]], recalls: Sequence[float]
) -> dict[str, float]:
    """Return the share of each factor, largest first. Raises HarnessError if Optuna is not installed."""
    library = require_optuna("the importance of parameters")
    study = library.create_study(direction="maximize")
    distributions = {name: library.distributions.CategoricalDistribution(names) for name, names in choices.items()}
    for of_run, recall in zip(levels, recalls, strict=True):
        params = {name: of_run[name] for name in choices}
        study.add_trial(library.trial.create_trial(params=params, distributions=distributions, value=recall))
    evaluator = library.importance.FanovaImportanceEvaluator(seed=0)
    return dict(library.importance.get_param_importances(study, evaluator=evaluator))
