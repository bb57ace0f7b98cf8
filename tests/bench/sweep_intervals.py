"""Simulate the comparisons of a sweep: `python -m tests.bench.sweep_intervals [SIMULATIONS]`.

Every simulated sweep has a baseline, other settings and an error cap that ends most walks. It prints how often a
sweep has any false alarm (Holm's test finds a difference where the true one is 0), how often all intervals of a sweep
cover their true differences, and how often there is a false alarm without a correction for their number.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from harness.analysis.parts import Part
from harness.analysis.sweep_differences import Submissions, correct, pair_with_baseline
from harness.core.arrays import Floats, Ints
from harness.core.intervals import JudgedRows
from harness.core.multiple_comparisons import ALPHA, replicates_for
from harness.core.scoring import recall_at_errors

_OTHERS = 10
_TRUTH = 4_000
_SEED = 20261124


@dataclass(frozen=True)
class Scenario:
    """A population of sweeps. certain: share of examples that are always or never solved.

    cluster: examples that are solved together. effect: what is added to the chance of each uncertain example, for
    each setting after the baseline.
    """

    name: str
    examples: int
    cap: int
    seeds: int = 1
    cluster: int = 1
    certain: float = 0.5
    effect: tuple[float, ...] = (0.0,) * _OTHERS


class Rates(NamedTuple):
    """Shares of the simulated sweeps.

    false_alarm: Holm's test finds a difference that is truly 0. covered: the intervals of all comparisons cover their
    true differences. uncorrected: any raw p-value of a true 0 is at most 0.05.
    """

    false_alarm: float
    covered: float
    uncorrected: float


SCENARIOS = (
    Scenario("no differences", 200, 20),
    Scenario("no differences, no cap, few uncertain examples", 200, 201, certain=0.9),
    Scenario(
        "no differences, no cap, few uncertain examples, 40 comparisons", 200, 201, certain=0.9, effect=(0.0,) * 40
    ),
    Scenario("one comparison, no difference, no cap, few uncertain examples", 200, 201, certain=0.95, effect=(0.0,)),
    Scenario("no differences, clusters of 4", 400, 40, cluster=4),
    Scenario("no differences, 3 seeds", 200, 20, seeds=3),
    Scenario("half of the settings differ", 400, 40, effect=(0.0,) * 5 + (0.25,) * 5),
    Scenario("all settings differ", 400, 40, effect=(0.3,) * _OTHERS),
)


def measure(scenario: Scenario, *, simulations: int) -> Rates:
    """Return the rates of one scenario."""
    generator = np.random.default_rng(_SEED)
    clusters = None if scenario.cluster == 1 else np.arange(scenario.examples) // scenario.cluster
    part = Part.whole(scenario.examples, cap=scenario.cap, clusters=clusters)
    truth = true_differences(scenario, generator)
    counted = np.array([_simulate(scenario, part, truth, generator) for _ in range(simulations)], np.float64)
    return Rates(*map(float, counted.mean(axis=0)))


def true_differences(scenario: Scenario, generator: np.random.Generator) -> Mapping[str, float]:
    """Return the expected difference of each setting: exactly 0, or the mean over many simulated sweeps."""
    effects = _effects(scenario)
    if not any(scenario.effect):
        return effects
    sums = dict.fromkeys(("baseline", *effects), 0.0)
    for _ in range(_TRUTH):
        for setting, by_seed in simulated(replace(scenario, seeds=1), generator).items():
            sums[setting] += recall_at_errors(*by_seed[0], cap=scenario.cap, examples=scenario.examples)
    return {name: (sums[name] - sums["baseline"]) / _TRUTH if effect else 0.0 for name, effect in effects.items()}


def simulated(scenario: Scenario, generator: np.random.Generator) -> Submissions:
    """Return the submissions of one sweep: a row for each example, the likely ones first."""
    units = scenario.examples // scenario.cluster
    chance = np.where(generator.random(units) < scenario.certain, generator.integers(2, size=units), 0.5)
    return {
        setting: {seed: _submission(scenario, chance, effect, generator) for seed in range(scenario.seeds)}
        for setting, effect in {"baseline": 0.0, **_effects(scenario)}.items()
    }


def _submission(scenario: Scenario, chance: Floats, effect: float, generator: np.random.Generator) -> JudgedRows:
    likely = np.where((chance > 0) & (chance < 1), chance + effect, chance)
    is_solved = np.repeat(generator.random(len(likely)) < likely, scenario.cluster)
    confidence = np.repeat(likely, scenario.cluster) + generator.normal(0, 0.3, scenario.examples)
    order: Ints = np.argsort(-confidence, kind="stable")
    return JudgedRows(is_solved[order], order)


def _simulate(
    scenario: Scenario, part: Part, truth: Mapping[str, float], generator: np.random.Generator
) -> tuple[bool, ...]:
    submissions = simulated(scenario, generator)
    pairs = pair_with_baseline(part, submissions, "baseline", replicates=replicates_for(len(truth)))
    found = correct([("simulated", None, pairs)])
    is_null = np.array([truth[one.setting] == 0 for one in found])

    def covers(interval: tuple[float, float] | None, setting: str) -> bool:
        return interval is None or interval[0] <= truth[setting] <= interval[1]

    return (
        bool((is_null & [one.is_different for one in found]).any()),
        all(covers(one.interval, one.setting) for one in found),
        bool((is_null & [one.p <= ALPHA for one in found]).any()),
    )


def _effects(scenario: Scenario) -> dict[str, float]:
    return {f"setting {number}": effect for number, effect in enumerate(scenario.effect, 1)}


def main() -> None:
    """Print the rates of each scenario."""
    simulations = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
    print(f"{simulations:,} simulated sweeps of each kind; a false alarm has a nominal rate of 5 %")
    for scenario in SCENARIOS:
        rates = measure(scenario, simulations=simulations)
        words = ", ".join(f"{name.replace('_', ' ')} {100 * rate:.1f} %" for name, rate in rates._asdict().items())
        print(f"{scenario.name}: {words}", flush=True)


if __name__ == "__main__":
    main()
