"""The share of the variance of recall in a sweep that each factor explains, by Optuna's fANOVA (Hutter et al. 2014)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from harness.core.errors import HarnessError
from harness.runs.tuning import require_optuna

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
    """The factors of some runs, largest share first. The shares sum to 1.

    of: the attack whose runs these are, or None for all attacks. reason: why there are no shares, or empty.
    """

    of: str | None
    runs: int
    factors: tuple[FactorShare, ...]
    reason: str

    def as_json(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        return {
            "attack": self.of,
            "runs": self.runs,
            "factors": [vars(factor) for factor in self.factors],
            "reason": self.reason or None,
        }


def importances(runs: Sequence[Observation]) -> list[Importance]:
    """Return the importance of the factors over all attacks if there are several, then within each attack.

    An attack with one setting is left out if there are several attacks.
    """
    attacks = list(dict.fromkeys(run.attack for run in runs))
    found = []
    if len(attacks) > 1:
        found.append(_importance(None, runs, [{"attack": run.attack, **run.conditions} for run in runs]))
    for attack in attacks:
        own = [run for run in runs if run.attack == attack]
        if len(attacks) == 1 or len({tuple(run.params.items()) for run in own}) > 1:
            found.append(_importance(attack, own, [_factors_of(run) for run in own]))
    return found


def _factors_of(run: Observation) -> dict[str, str]:
    """Return the levels of a run. A parameter may have the name of a condition, such as `seed`."""
    params = {f"parameter {name}" if name in run.conditions else name: level for name, level in run.params.items()}
    return {**params, **run.conditions}


def _importance(of: str | None, runs: Sequence[Observation], levels: Sequence[Mapping[str, str]]) -> Importance:
    choices = {name: list(dict.fromkeys(one[name] for one in levels)) for name in levels[0]}
    choices = {name: names for name, names in choices.items() if len(names) > 1}
    recalls = [run.recall for run in runs]
    if len(runs) < _LEAST_RUNS:
        return Importance(of, len(runs), (), f"fewer than {_LEAST_RUNS} finished runs")
    # Recalls are fractions of at most millions of examples. A smaller difference is rounding.
    if not choices or max(recalls) - min(recalls) < _LEAST_DIFFERENCE:
        return Importance(of, len(runs), (), "the recall of all runs is the same" if choices else "no factor varies")
    try:
        shares = _fanova(choices, levels, recalls)
    except HarnessError as error:
        return Importance(of, len(runs), (), str(error).rstrip("."))
    return Importance(of, len(runs), tuple(FactorShare(name, len(choices[name]), shares[name]) for name in shares), "")


def _fanova(
    choices: Mapping[str, Sequence[str]], levels: Sequence[Mapping[str, str]], recalls: Sequence[float]
) -> dict[str, float]:
    """Return the share of each factor, largest first. Raises HarnessError if Optuna is not installed."""
    library = require_optuna("the importance of parameters")
    study = library.create_study(direction="maximize")
    distributions = {name: library.distributions.CategoricalDistribution(names) for name, names in choices.items()}
    for one, recall in zip(levels, recalls, strict=True):
        params = {name: one[name] for name in choices}
        study.add_trial(library.trial.create_trial(params=params, distributions=distributions, value=recall))
    evaluator = library.importance.FanovaImportanceEvaluator(seed=0)
    return dict(library.importance.get_param_importances(study, evaluator=evaluator))
