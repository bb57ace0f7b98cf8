"""The share of the variance of recall in a sweep that each factor explains.

A sweep is a grid, so the functional analysis of variance (Hooker 2007; Hutter, Hoos and Leyton-Brown 2014, who apply it
to hyperparameters) needs no model: the main effect of a factor is the variance of the mean recalls of its levels, and
its share is that of all recalls. What main effects do not explain is interactions and the noise between seeds.

Main effects add up only on a complete grid. If runs are missing, levels are left out until the rest is complete. A
factor without any effect explains (levels - 1) / (runs - 1) on average, because every order of the recalls is then
equally likely.
"""

import itertools
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

ATTACK = "attack"
PARAMETERS = "parameters of the attacks"
_SETTING = "setting"
_LEAST_DIFFERENCE = 1e-9
_LEAST_RUNS = 4


class Observation(NamedTuple):
    """One finished run: its recall, and its level of each factor, with the same factors for all runs.

    setting: the attack and its parameters.
    """

    recall: float
    attack: str
    setting: str
    params: Mapping[str, str]
    conditions: Mapping[str, str]


@dataclass(frozen=True)
class FactorShare:
    """The share of the variance that a factor explains, and the share that it would explain by chance."""

    factor: str
    levels: int
    share: float
    by_chance: float


@dataclass(frozen=True)
class Importance:
    """The factors of some runs, largest share first, and the rest: interactions and the noise between seeds.

    of: the attack whose runs these are, or None for all attacks. left_out: levels that were left out because runs of
    them are missing. reason: why there are no shares, or empty.
    """

    of: str | None
    runs: int
    runs_left_out: int
    left_out: tuple[str, ...]
    factors: tuple[FactorShare, ...]
    rest: float
    reason: str

    def as_json(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        return {
            "attack": self.of,
            "runs": self.runs,
            "runs_left_out": self.runs_left_out,
            "left_out": list(self.left_out),
            "factors": [vars(factor) for factor in self.factors],
            "rest": self.rest if self.factors else None,
            "reason": self.reason or None,
        }


def importances(runs: Sequence[Observation]) -> list[Importance]:
    """Return the importance of the factors over all attacks if there are several, then within each attack.

    Over all attacks, their parameters are one factor, which is nested in the attack. An attack with one setting beside
    others is left out.
    """
    attacks = list(dict.fromkeys(run.attack for run in runs))
    found = []
    if len(attacks) > 1:
        found.append(_importance(None, runs, [{_SETTING: run.setting, **run.conditions} for run in runs]))
    for attack in attacks:
        own = [run for run in runs if run.attack == attack]
        if len(attacks) == 1 or len({run.setting for run in own}) > 1:
            found.append(_importance(attack, own, [{**run.params, **run.conditions} for run in own]))
    return found


def _importance(of: str | None, runs: Sequence[Observation], levels: Sequence[Mapping[str, str]]) -> Importance:
    kept, left_out = complete_grid(levels)
    recalls = [runs[place].recall for place in kept]
    lacking = Importance(of, len(kept), len(runs) - len(kept), left_out, (), 0.0, "")
    if len(kept) < _LEAST_RUNS:
        return replace(lacking, reason=f"fewer than {_LEAST_RUNS} runs form a complete grid")
    # Recalls are fractions of at most millions of examples. A smaller difference is rounding, and its square may be 0.
    if max(recalls) - min(recalls) < _LEAST_DIFFERENCE:
        return replace(lacking, reason="the recall of all runs is the same")
    total = _variance_between([[recall] for recall in recalls])

    def explained(by: Sequence[str]) -> float:
        groups: dict[str, list[float]] = {}
        for level, recall in zip(by, recalls, strict=True):
            groups.setdefault(level, []).append(recall)
        return _variance_between(list(groups.values())) / total

    shares = {}
    for name in levels[0]:
        by = [levels[place][name] for place in kept]
        shares[name] = (len(set(by)), explained(by))
    if _SETTING in shares:
        settings, whole = shares.pop(_SETTING)
        by_attack = [runs[place].attack for place in kept]
        attacks, share = len(set(by_attack)), explained(by_attack)
        # Settings are nested in attacks: what they explain beyond their attack is the effect of parameters.
        shares |= {ATTACK: (attacks, share), PARAMETERS: (settings - attacks + 1, whole - share)}
    factors = [
        FactorShare(name, levels, share, (levels - 1) / (len(kept) - 1))
        for name, (levels, share) in shares.items()
        if levels > 1
    ]
    factors.sort(key=lambda factor: -factor.share)
    rest = max(0.0, 1.0 - sum(factor.share for factor in factors))
    return replace(lacking, factors=tuple(factors), rest=rest)


def complete_grid(levels: Sequence[Mapping[str, str]]) -> tuple[list[int], tuple[str, ...]]:
    """Return the runs that form a complete grid, as places in `levels`, and the levels that were left out.

    As long as a combination of levels has no run, the level with the largest share of missing combinations is left
    out, the later one of equal ones, because a sweep runs its first seeds first. All runs have the same factors, and no
    two the same levels.
    """
    kept, left_out = list(range(len(levels))), []
    while kept:
        factors = {name: list(dict.fromkeys(levels[place][name] for place in kept)) for name in levels[0]}
        size = 1
        for names in factors.values():
            size *= len(names)
        if size == len(kept):
            break
        # The combinations of a level are as many as the grid has divided by the levels of its factor.
        worst, fewest = ("", ""), 2.0
        for (name, names), place in itertools.product(factors.items(), range(max(map(len, factors.values())))):
            if place < len(names) > 1:
                count = sum(levels[one][name] == names[place] for one in kept)
                if (present := count * len(names) / size) <= fewest:
                    worst, fewest = (name, names[place]), present
        kept = [place for place in kept if levels[place][worst[0]] != worst[1]]
        left_out.append(f"{worst[0]} {worst[1]}")
    return kept, tuple(left_out)


def _variance_between(groups: Sequence[Sequence[float]]) -> float:
    """Return the sum of squares between groups: of each group's mean around the mean of all, times its size."""
    centre = statistics.fmean(value for group in groups for value in group)
    return sum(len(group) * (statistics.fmean(group) - centre) ** 2 for group in groups)
