"""The shares of variance that factors explain, on hand-made grids with known effects."""

import itertools

import pytest

from harness.analysis.sweep_differences import Observation, importances
from harness.core import extras


def grid(recall_of, *, attack="some", first="trials", second="top_k", seeds=(0, 1)):
    """Return one run per combination; `recall_of(trials, top_k, seed)` is its recall."""
    return [
        Observation(recall_of(trials, k, seed), attack, {first: str(trials), second: str(k)}, {"seed": str(seed)})
        for seed, trials, k in itertools.product(seeds, (1, 2, 4), (5, 10))
    ]


def shares(importance):
    return {factor.factor: factor.share for factor in importance.factors}


def test_the_factor_with_the_larger_effect_has_the_larger_share():
    (importance,) = importances(grid(lambda trials, k, seed: 0.1 * trials + 0.02 * k))
    assert list(shares(importance)) == ["trials", "top_k", "seed"] and shares(importance)["trials"] > 0.5
    assert sum(shares(importance).values()) == pytest.approx(1)
    assert importances(grid(lambda trials, k, seed: 0.1 * trials + 0.02 * k)) == [importance]


@pytest.mark.parametrize("name", ["seed", "round", "target"])
def test_a_parameter_may_have_the_name_of_a_condition(name):
    runs = [
        Observation(0.1 * level, "some", {name: str(level)}, {"seed": "0", "round": "demo", "target": "of the round"})
        for level in range(1, 5)
    ]
    (importance,) = importances(runs)
    assert shares(importance) == {f"parameter {name}": 1.0}


def test_several_attacks_are_compared_with_each_other_first():
    runs = grid(lambda trials, k, seed: 0.1 * trials) + grid(lambda trials, k, seed: 0.5, attack="other")
    everything, of_some, of_other = importances(runs)
    assert (everything.attack, of_some.attack, of_other.attack) == (None, "some", "other")
    assert next(iter(shares(everything))) == "attack"
    assert of_other.reason == "the recall of all runs is the same"


def test_an_incomplete_grid_has_shares():
    (importance,) = importances(grid(lambda trials, k, seed: 0.1 * trials)[:-3])
    assert importance.runs == 9 and next(iter(shares(importance))) == "trials"


def test_few_runs_have_no_shares():
    (importance,) = importances(grid(lambda trials, k, seed: 0.1 * trials)[:3])
    assert importance.as_json() == {"attack": "some", "runs": 3, "factors": [], "reason": "fewer than 4 finished runs"}


def test_without_optuna_the_reason_says_what_to_install(monkeypatch):
    monkeypatch.setitem(extras.EXTRAS, "tune", ("no_such_module",))
    (importance,) = importances(grid(lambda trials, k, seed: 0.1 * trials))
    assert not importance.factors and "the importance of parameters needs it" in importance.reason
