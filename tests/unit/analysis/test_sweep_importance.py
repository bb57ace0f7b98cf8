"""The shares of variance that factors explain, against hand-made grids with known effects."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.analysis.sweep_importance import ATTACK, PARAMETERS, Observation, complete_grid, importances


def grid(recall_of, *, attack="some", trials=(1, 2, 4), top_k=(5, 10), seeds=(0, 1)):
    """Return one run per combination; `recall_of(trials, top_k, seed)` is its recall."""
    return [
        Observation(
            recall_of(one, k, seed),
            attack,
            f"{attack} trials={one} top_k={k}",
            {"trials": str(one), "top_k": str(k)},
            {"round": "demo", "seed": str(seed)},
        )
        for seed, one, k in itertools.product(seeds, trials, top_k)
    ]


def shares(found):
    return {factor.factor: factor.share for factor in found.factors}


def test_additive_effects_have_their_share_of_the_variance():
    (found,) = importances(grid(lambda trials, k, seed: 0.1 * trials + 0.02 * k))
    by_trials = np.var(np.array([1, 2, 4]) * 0.1)
    by_k = np.var(np.array([5, 10]) * 0.02)
    assert shares(found) == pytest.approx(
        {"trials": by_trials / (by_trials + by_k), "top_k": by_k / (by_trials + by_k), "seed": 0}
    )
    assert found.rest == pytest.approx(0, abs=1e-9)
    assert (found.runs, found.runs_left_out, found.left_out) == (12, 0, ())


def test_an_interaction_is_in_the_rest():
    (found,) = importances(grid(lambda trials, k, _: float((trials == 1) == (k == 5)), trials=(1, 2)))
    assert max(shares(found).values()) == pytest.approx(0)
    assert found.rest == pytest.approx(1)


@given(st.lists(st.floats(0, 1), min_size=12, max_size=12))
def test_the_shares_and_the_rest_sum_to_one(recalls):
    values = iter(recalls)
    (found,) = importances(grid(lambda *_: next(values)))
    if not found.reason:
        assert sum(shares(found).values()) + found.rest == pytest.approx(1)
        assert all(share >= 0 for share in shares(found).values())


def test_without_an_effect_a_factor_explains_what_chance_says():
    generator = np.random.default_rng(3)
    drawn = [importances(grid(lambda *_: generator.random()))[0] for _ in range(400)]
    for name in ("trials", "top_k", "seed"):
        factors = [factor for found in drawn for factor in found.factors if factor.factor == name]
        assert np.mean([factor.share for factor in factors]) == pytest.approx(factors[0].by_chance, abs=0.02)


def test_an_incomplete_last_seed_is_left_out():
    runs = grid(lambda trials, k, seed: trials + 100 * seed)[:9]
    (found,) = importances(runs)
    assert (found.runs, found.runs_left_out, found.left_out) == (6, 3, ("seed 1",))
    assert shares(found)["trials"] == pytest.approx(1)


@given(st.sets(st.tuples(st.sampled_from("abc"), st.sampled_from("xyz"), st.sampled_from("12")), min_size=1))
def test_what_is_kept_is_a_complete_grid(cells):
    levels = [dict(zip(("letter", "last", "seed"), cell, strict=True)) for cell in sorted(cells)]
    kept, left_out = complete_grid(levels)
    assert kept
    size = np.prod([len({levels[place][name] for place in kept}) for name in levels[0]])
    assert len(kept) == size
    assert bool(left_out) == (len(kept) < len(levels))


def test_parameters_are_nested_in_attacks():
    one = grid(lambda trials, *_: 0.1 + 0.01 * trials, attack="one", top_k=(5,))
    other = grid(lambda trials, *_: 0.5 + 0.01 * trials, attack="other", top_k=(5,))
    whole, *each = importances([*one, *other])
    assert [found.of for found in (whole, *each)] == [None, "one", "other"]
    found = shares(whole)
    assert found[ATTACK] + found[PARAMETERS] == pytest.approx(1)
    between, within = 0.4**2 / 4, np.var([0.01, 0.02, 0.04])
    assert found[ATTACK] == pytest.approx(between / (between + within))


def test_too_few_or_equal_runs_have_a_reason():
    assert "fewer than 4 runs" in importances(grid(lambda *_: 0.1)[:2])[0].reason
    assert "is the same" in importances(grid(lambda *_: 0.1))[0].reason
    assert importances([]) == []
