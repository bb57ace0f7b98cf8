import numpy as np
import pytest

from harness.core.errors import HarnessError
from harness.core.policy import Policy
from harness.engine.results import SearchResult
from harness.engine.target import Target
from tests.unit.engine.conftest import load_on
from tests.unit.engine.reference import exact_probabilities

POLICIES = [
    Policy(),
    Policy(top_k=5),
    Policy(temperature=0.7, repetition_penalty=1.3),
    Policy(top_k=12, top_p=0.8, typical_p=0.9, temperature=0.58, repetition_penalty=1.1),
    Policy(typical_p=0.6),
    Policy(temperature=3, decay_tokens=2),
]


def _assert_same(found: SearchResult, wanted: SearchResult) -> None:
    assert (found.row == wanted.row).all() and (found.suffixes == wanted.suffixes).all()
    assert np.allclose(found.policy_logprob, wanted.policy_logprob, atol=1e-4)


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_a_wide_search_finds_the_likeliest_suffixes(target, prefixes, policy):
    exact = exact_probabilities(target, prefixes[0], policy, length=2)
    best = np.sort(exact.reshape(-1))[::-1]
    found = target.search(prefixes[:1], width=61, policy=policy, length=2)
    assert np.allclose(np.exp(found.policy_logprob), exact[tuple(found.suffixes.T)], atol=1e-5)
    assert len(found) >= 3
    assert np.allclose(np.exp(found.policy_logprob), best[: len(found)], atol=1e-5)


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
@pytest.mark.parametrize("width", [1, 2, 5])
def test_a_narrow_search_extends_the_likeliest_first_tokens(target, prefixes, policy, width):
    exact = exact_probabilities(target, prefixes[0], policy, length=2)
    found = target.search(prefixes[:1], width=width, policy=policy, length=2)
    assert 1 <= len(found) <= width
    followed = np.argsort(-exact.sum(1), kind="stable")[:width]
    best = np.sort(exact[followed].reshape(-1))[::-1]
    assert np.allclose(np.exp(found.policy_logprob), best[: len(found)], atol=1e-5)


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
@pytest.mark.parametrize("least", [0.05, 0.003])
def test_a_least_probability_finds_every_suffix_above_it(target, prefixes, policy, least):
    for row in (0, 3):
        exact = exact_probabilities(target, prefixes[row], policy, length=2)
        found = target.search(prefixes[row : row + 1], policy=policy, least=least, length=2)
        wanted = {tuple(suffix) for suffix in np.argwhere(exact >= least).tolist()}
        assert {tuple(suffix) for suffix in found.suffixes.tolist()} == wanted


def test_the_default_order_is_the_models_probability(target, prefixes):
    found = target.search(prefixes, width=6, length=5)
    assert np.allclose(found.policy_logprob, found.token_logprobs.sum(1), atol=1e-4)
    scored = target.score(prefixes[found.row], found.suffixes)
    assert np.allclose(found.token_logprobs, scored.token_logprobs, atol=1e-4)
    assert np.allclose(found.last_prefix_logprob[found.row], scored.last_prefix_logprob, atol=1e-4)
    assert (np.diff(found.policy_logprob)[np.diff(found.row) == 0] <= 0).all()
    assert (np.bincount(found.row) == 6).all()
    assert (np.unique(np.column_stack([found.row, found.suffixes]), axis=0)[:, 0] == found.row).all()


def test_a_width_of_one_is_greedy(target, prefixes):
    found = target.search(prefixes, width=1, length=20)
    greedy = target.sample(prefixes, Policy(top_k=1), length=20)
    assert (found.suffixes == greedy.suffixes).all() and (found.row == np.arange(9)).all()


def test_a_wider_search_finds_likelier_suffixes(neo, prefixes):
    narrow, wide = (neo.search(prefixes, width=width, length=8) for width in (2, 30))
    best = [np.array([found.policy_logprob[found.row == row][0] for row in range(9)]) for found in (narrow, wide)]
    assert best[1].mean() > best[0].mean()


def test_suffixes_of_exactly_the_least_probability_are_found(device, folders, prefixes):
    model = load_on(device, folders["neo"]).model
    model.transformer.wte.weight.data.zero_()
    found = Target(model).search(prefixes[:1], least=61.0**-2, length=2)
    assert len(found) == 61**2


@pytest.mark.parametrize("bounds", [{"width": 4}, {"least": 1e-3}, {"width": 3, "least": 1e-3}], ids=str)
def test_rows_at_once_and_grouping_change_no_result(target, prefixes, bounds):
    def search(rows: np.ndarray) -> SearchResult:
        return target.search(prefixes[rows], policy=Policy(temperature=0.5), length=4, **bounds)

    wanted = search(np.arange(5))
    for rows_at_once in (1, 5, 64):
        target.rows_at_once = rows_at_once
        _assert_same(search(np.arange(5)), wanted)
    order = np.array([4, 0, 2, 1, 3])
    found = search(order)
    for place, row in enumerate(order):
        assert (found.suffixes[found.row == place] == wanted.suffixes[wanted.row == row]).all()


def test_a_policy_that_allows_one_token_leaves_one_suffix(neo, prefixes):
    found = neo.search(prefixes, width=8, policy=Policy(top_k=1), length=5)
    assert (found.row == np.arange(9)).all() and (found.policy_logprob == 0).all()


def test_prefixes_without_a_likely_suffix_have_none(neo, prefixes):
    found = neo.search(prefixes, least=0.999, length=6)
    assert len(found) == 0 and found.suffixes.shape == (0, 6)


def test_no_prefixes_give_no_results(neo):
    assert len(neo.search(np.empty((0, 12), np.uint16), width=2, length=3)) == 0


def test_out_of_memory_restarts_the_search_with_half_the_rows(neo, prefixes, fail_passes):
    wanted = neo.search(prefixes, width=4, length=6)
    fail_passes(lambda rows: len(rows) > 8)
    _assert_same(neo.search(prefixes, width=4, length=6), wanted)
    assert neo.rows_at_once == 8


@pytest.mark.parametrize(
    ("bounds", "sentence"),
    [({"width": 8}, "a search of width 8 for one prefix"), ({"least": 1e-4}, "the suffixes of one prefix")],
)
def test_too_little_memory_for_one_prefix_is_an_error(neo, prefixes, fail_passes, bounds, sentence):
    fail_passes(lambda rows: len(rows) > 4)
    with pytest.raises(HarnessError, match=f"no room for {sentence}"):
        neo.search(prefixes, policy=Policy(temperature=0.5), length=6, **bounds)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({}, "a width or a least probability"),
        ({"width": 0}, "Width and length must be at least 1"),
        ({"least": 0.0}, r"least in \(0, 1\]"),
        ({"least": 1.5}, r"least in \(0, 1\]"),
        ({"width": 1, "length": 63}, "context of 64 tokens"),
    ],
)
def test_invalid_input_is_refused(neo, arguments, sentence):
    with pytest.raises(HarnessError, match=sentence):
        neo.search(np.array([[1, 2]]), **{"length": 3, **arguments})
