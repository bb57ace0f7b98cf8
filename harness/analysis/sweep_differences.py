"""Differences between the settings of a sweep and its baseline."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from harness.analysis.parts import Part
from harness.core.intervals import JudgedRows, Unit, shared_replicates
from harness.core.multiple_comparisons import ALPHA, PairedBootstrap, holm
from harness.core.scoring import recall_at_errors

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
    """Name of the round."""
    target: str | None
    """Target. Null for the target of the round."""
    setting: str
    """Name of the setting."""
    seeds: tuple[int, ...]
    """Seeds that the setting and the baseline have finished."""
    difference: float
    """Mean recall minus the mean recall of the baseline."""
    p: float
    """p-value of no difference, two-sided."""
    holm_p: float
    """p-value, corrected for all comparisons that the finished runs allow."""
    interval_level: float
    """Level of `interval`, such as 0.95."""
    interval: tuple[float, float] | None
    """Interval of the difference: low, high. It excludes 0 exactly if `is_different`. Null with too few replicates."""
    interval_unit: Unit
    """Unit that the bootstrap draws."""

    @property
    def is_different(self) -> bool:
        """True if `holm_p` is at most 0.05."""
        return self.holm_p <= ALPHA

    def as_json(self) -> dict[str, Any]:
        """Return the fields as a JSON object.

        Keys:
            round, target, setting, seeds, difference, p, holm_p, interval_level, interval, interval_unit, is_different
        """
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


def correct(groups: Sequence[tuple[str, str | None, Sequence[Paired]]]) -> list[SettingDifference]:
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
            interval_unit=bootstrap.unit,
        )
        for (round_, target, (setting, seeds, bootstrap)), p, divisor in zip(family, adjusted, divisors, strict=True)
    ]
