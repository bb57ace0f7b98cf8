import functools
import itertools

import numpy as np
import pytest

from harness.audits import beam
from harness.audits.leakage.inexact import count_partial_suffixes, inexact_probabilities
from harness.core.policy import Policy
from tests.unit.engine.conftest import configurations, load_on, save_model
from tests.unit.engine.reference import exact_probabilities

POLICIES = (
    Policy(top_k=1),
    Policy(),
    Policy(temperature=0.7),
    Policy(top_k=3),
    Policy(top_p=0.8),
    Policy(typical_p=0.7),
    Policy(repetition_penalty=1.4),
    Policy(temperature=3, decay_tokens=3),
)
LENGTH = 4


@pytest.fixture(scope="module", params=["neo", "llama"])
def six_on(request, tmp_path_factory):
    """Return a function that loads a target of six tokens to a device."""
    configuration = configurations(6, width=16, heads=2, window=4, spread=0.6)[request.param]
    folder = save_model(configuration, tmp_path_factory.mktemp("six"), seed=11)
    return functools.cache(lambda device: load_on(device, folder))


@pytest.fixture
def six(device, six_on):
    target = six_on(device)
    target.rows_at_once = 1024
    return target


@pytest.fixture
def pairs() -> tuple[np.ndarray, np.ndarray]:
    made = np.random.default_rng(2).integers(0, 6, (5, 7 + LENGTH))
    return made[:, :7], made[:, 7:]


def _by_brute_force(target, prefix, suffix, policy) -> tuple[np.ndarray, dict[tuple[int, ...], float]]:
    """The probability of each number of substitutions, and of every suffix."""
    probabilities = exact_probabilities(target, prefix, policy, len(suffix))
    counted = np.zeros(len(suffix) + 1)
    for tokens in itertools.product(range(6), repeat=len(suffix)):
        counted[(np.array(tokens) != suffix).sum()] += probabilities[tokens]
    return counted, {tokens: probabilities[tokens] for tokens in itertools.product(range(6), repeat=len(suffix))}


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_the_search_agrees_with_brute_force(six, pairs, policy):
    prefixes, suffixes = pairs
    found = inexact_probabilities(six, prefixes, suffixes, policy, errors=2, branches=10_000, min_probability=0)
    assert found.probability.shape == (5, 3)
    for row in range(5):
        wanted, each = _by_brute_force(six, prefixes[row], suffixes[row], policy)
        assert found.probability[row] == pytest.approx(wanted[:3], abs=1e-5)
        assert found.bound[row] == pytest.approx(0, abs=1e-9)
        mine = found.row == row
        for tokens, logprob in zip(found.matches[mine], found.logprob[mine], strict=True):
            assert np.exp(logprob) == pytest.approx(each[tuple(tokens)], abs=1e-5)
        errors = (found.matches[mine] != suffixes[row]).sum(axis=1)
        for wrong in (1, 2):
            partial = [each[tokens] for tokens in each if (np.array(tokens) != suffixes[row]).sum() == wrong]
            best = sorted((value for value in partial if value > 0), reverse=True)[:8]
            assert np.exp(found.logprob[mine][errors == wrong]) == pytest.approx(best, abs=1e-5)


@pytest.mark.parametrize("policy", [Policy(), Policy(top_p=0.9), Policy(typical_p=0.9)], ids=str)
@pytest.mark.parametrize(("branches", "least", "head"), [(3, 0.0, 256), (256, 0.02, 256), (256, 0.0, 2)])
def test_the_bound_covers_what_is_not_followed(six, pairs, monkeypatch, policy, branches, least, head):
    monkeypatch.setattr(beam, "_HEAD", head)
    prefixes, suffixes = pairs
    found = inexact_probabilities(six, prefixes, suffixes, policy, errors=2, branches=branches, min_probability=least)
    assert found.bound.max() > 1e-3
    for row in range(5):
        wanted, _ = _by_brute_force(six, prefixes[row], suffixes[row], policy)
        assert (found.probability[row] <= wanted[:3] + 1e-5).all()
        assert (wanted[:3] <= found.probability[row] + found.bound[row] + 1e-5).all()


def test_all_matches_above_the_least_probability_are_returned_and_no_others(six, pairs):
    prefixes, suffixes = pairs
    policy, least = Policy(temperature=0.3), 0.01
    found = inexact_probabilities(six, prefixes, suffixes, policy, errors=2, min_probability=least, best=1000)
    for row in range(5):
        _, each = _by_brute_force(six, prefixes[row], suffixes[row], policy)
        wrong = {tokens: (np.array(tokens) != suffixes[row]).sum() for tokens in each}
        likely = {tokens for tokens in each if wrong[tokens] in (1, 2) and each[tokens] >= least}
        assert {tuple(tokens) for tokens in found.matches[found.row == row].tolist()} == likely


def test_few_partial_suffixes_are_all_followed(six, pairs):
    limited = inexact_probabilities(six, *pairs, Policy(top_k=3), branches=1, min_probability=0.5)
    assert (limited.bound == 0).all()
    assert np.allclose(
        limited.probability, inexact_probabilities(six, *pairs, Policy(top_k=3), branches=999).probability
    )
    assert count_partial_suffixes(Policy(top_k=10), 8, 2) == 1 + 7 * 9 + 21 * 81


def test_one_substitution_of_a_single_token_has_the_complement(six, pairs):
    prefixes, suffixes = pairs
    found = inexact_probabilities(six, prefixes, suffixes[:, :1], Policy(), errors=1)
    assert found.probability.sum(axis=1) == pytest.approx(1)


def test_splitting_the_suffixes_changes_no_result(six, pairs):
    wanted = inexact_probabilities(six, *pairs, Policy(top_k=5))
    six.rows_at_once = 70
    found = inexact_probabilities(six, *pairs, Policy(top_k=5))
    assert np.allclose(found.probability, wanted.probability, atol=1e-6)
    assert found.matches.tolist() == wanted.matches.tolist()
