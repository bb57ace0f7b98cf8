"""Features of candidates: each against a plain count, and without a look at answers or at other examples."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from harness.candidate_ranker import (
    FEATURES,
    CandidateRanker,
    Candidates,
    candidate_features,
    drawn_candidates,
    first_fork,
    lead,
    prior_features,
    searched_candidates,
    share,
    united_candidates,
    with_prior,
)
from harness.candidate_text import LAYOUT_FEATURES, text_features

RNG = np.random.default_rng(3)


def _draws(examples: int = 4, trials: int = 30, length: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """Return all trials of some examples: row [rows] and suffixes [rows, length] of few tokens."""
    return np.repeat(np.arange(examples), trials), RNG.integers(0, 2, (examples * trials, length))


def _distinct(row: np.ndarray, suffixes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    owned, count = np.unique(np.column_stack([row, suffixes]), axis=0, return_counts=True)
    return owned[:, 0], owned[:, 1:], count


def test_the_draw_tree_is_a_count_over_the_other_draws() -> None:
    all_rows, trials = _draws()
    row, suffixes, count = _distinct(all_rows, trials)
    logprob = RNG.normal(size=len(row)) - 10
    found = drawn_candidates(row, suffixes, count, logprob, kept=3)
    for number in range(len(found)):
        own = trials[all_rows == found.row[number]]
        suffix = found.suffixes[number]
        for place in range(suffixes.shape[1]):
            with_beginning = (own[:, :place] == suffix[:place]).all(axis=1).sum() - 1
            continued = (own[:, : place + 1] == suffix[: place + 1]).all(axis=1).sum() - 1
            expected = Fraction(int(continued), int(with_beginning)) if with_beginning else 0
            assert found.conditionals[number, place] == pytest.approx(float(expected))
        times = (own == suffix).all(axis=1).sum()
        assert found.drawn[number] == pytest.approx(times / len(own))
        assert found.agreement[number] == pytest.approx((own == suffix).mean())
        counts = np.unique(own, axis=0, return_counts=True)[1]
        assert found.unseen[number] == pytest.approx((counts == 1).sum() / len(own))
        assert found.entropy[number] == pytest.approx(-sum(n / len(own) * np.log(n / len(own)) for n in counts))


def test_the_most_frequent_and_the_likeliest_draws_are_kept() -> None:
    row, suffixes, count = _distinct(*_draws())
    logprob = RNG.normal(size=len(row)) - 10
    found = drawn_candidates(row, suffixes, count, logprob, kept=2)
    for example in range(4):
        own = np.flatnonzero(row == example)
        kept = {*own[np.argsort(-logprob[own])[:2]], *own[np.lexsort((-logprob[own], -count[own]))[:2]]}
        expected = {tuple(suffix) for suffix in suffixes[sorted(kept)].tolist()}
        assert {tuple(suffix) for suffix in found.suffixes[found.row == example].tolist()} == expected
    assert (np.diff(found.row) >= 0).all()


def test_rivals_are_the_other_candidates_of_an_example() -> None:
    row = np.array([0, 0, 0, 1, 2, 2])
    value = np.array([3.0, 5.0, 4.0, 7.0, 2.0, 2.0])
    assert lead(row, value).tolist() == [-2.0, 1.0, -1.0, 0.0, 0.0, 0.0]
    assert np.exp(share(row, np.log(value))).tolist() == pytest.approx([3 / 12, 5 / 12, 4 / 12, 1, 0.5, 0.5])
    suffixes = np.array([[1, 2, 3], [1, 2, 4], [9, 2, 4], [5, 5, 5], [1, 1, 1], [1, 1, 2]])
    assert first_fork(row, suffixes, value).tolist() == [2.0, 0.0, 0.0, 3.0, 2.0, 2.0]


@pytest.mark.parametrize(
    ("prefix", "suffix", "expected"),
    [
        # The prefix has lines of 11 characters, and its words would not have fitted into 12 to 15.
        ("aaaa bbbb c\ndddd eeee f\ngg", "gg hhhh i\njjjj k", (0, 0, 0, 4, 0, 0, 0)),
        ("aaaa bbbb c\ndddd eeee f\ngg", "gg hhhh iiiiii\njjjj", (5, 1, 0, 4, 0, 0, 0)),
        ("aaaa bbbb c\ndddd eeee f\ngg", "gg\njjjj kk", (0, 0, 3, 4, 0, 0, 0)),
        ("aaaa bbbb c\ndddd eeee f\ngg", "gg hhhh i\n  jjjj", (0, 0, 0, 4, 1, 0, 1)),
        ("aaaa bbbb c\ndddd eeee f\ngg", "gg\thhhh i\njjjj", (0, 0, 0, 4, 0, 0, 1)),
        ("aaaa bbbb c\ndddd eeee f\ngg", "gg hhhh i \njjjj", (0, 0, 0, 4, 0, 1, 1)),
        # The marks of a comment are not its first word.
        ("/ aaaa bbbb\n/ dd eeeee\n/ gg", "gg\n/ hh", (0, 0, 0, 2, 0, 0, 0)),
        ("/ aaaa bbbb\n/ dd eeeee\n/ gg", "gg\n/ hh k", (0, 0, 3, 2, 0, 0, 0)),
        # This prefix is not wrapped: a word would have fitted.
        ("aaaa bbbb c\nd\neeee f", " gg", (0, 4, 0, -6, 0, 0, 0)),
        ("no line break here", " and a very long line without one", (0, 0, 0, 0, 0, 0, 0)),
    ],
)
def test_the_layout_is_judged_by_the_prefix(prefix: str, suffix: str, expected: tuple[int, ...]) -> None:
    texts = {1: prefix, 2: suffix}
    found = text_features(
        np.array([[1]]), np.array([0]), np.array([[2]]), lambda tokens: [texts[int(row[0])] for row in tokens]
    )
    assert tuple(found[name][0] for name in LAYOUT_FEATURES) == expected


def test_departures_from_copies_are_counted_after_three_tokens() -> None:
    found = text_features(np.array([[1, 2, 3, 4, 9]]), np.array([0, 0]), np.array([[1, 2, 3, 4], [1, 2, 3, 5]]), None)
    assert found["not copied"].tolist() == [0.0, 1.0]


def test_features_of_an_example_do_not_depend_on_other_examples() -> None:
    row, suffixes, count = _distinct(*_draws())
    candidates = drawn_candidates(row, suffixes, count, RNG.normal(size=len(row)) - 10, kept=2)
    prefixes = RNG.integers(0, 9, (4, 7))
    features = candidate_features(prefixes, candidates, None, np.ones(4))
    assert features.shape == (len(candidates), len(FEATURES)) and np.isfinite(features).all()
    for example in range(4):
        own = candidates.at(candidates.row == example)
        alone = Candidates(np.zeros(len(own), int), *(getattr(own, name) for name in list(vars(own))[1:]))
        assert np.allclose(candidate_features(prefixes[example : example + 1], alone, None, np.ones(1)),
                           features[candidates.row == example])  # fmt: skip


def test_a_suffix_that_was_drawn_and_searched_is_one_candidate() -> None:
    row, suffixes, count = _distinct(*_draws(examples=2, trials=6))
    drawn = drawn_candidates(row, suffixes, count, np.full(len(row), -3.0), kept=2)
    logprobs = np.log(np.full((2, 5), 0.5))
    searched = searched_candidates(np.array([0, 1]), np.stack([drawn.suffixes[0], np.full(5, 7)]), logprobs)
    both = united_candidates(drawn, searched)
    assert len(both) == len(drawn) + 1 and (np.diff(both.row) >= 0).all()
    new = np.flatnonzero((both.suffixes == 7).all(axis=1))[0]
    assert both.drawn[new] == 0 and both.entropy[new] == drawn.entropy[drawn.row == 1][0]


def test_the_ranker_learns_and_repeats_itself() -> None:
    features = RNG.normal(size=(1200, len(FEATURES)))
    probability = 1 / (1 + np.exp(-2 * features[:, 1]))
    is_right = RNG.random(1200) < probability
    rankers = [CandidateRanker(features[:800], is_right[:800]) for _ in range(2)]
    first, second = (ranker.probabilities(features[800:]) for ranker in rankers)
    assert (first == second).all() and ((first > 0) & (first < 1)).all()
    assert np.corrcoef(first, probability[800:])[0, 1] > 0.9
    prior = CandidateRanker(prior_features(features[:800]), is_right[:800])
    row = np.arange(400) // 4
    added = with_prior(features[800:], row, prior)[:, len(FEATURES) :]
    odds = prior.probabilities(prior_features(features[800:]))
    assert np.allclose(1 / (1 + np.exp(-added[:, 0])), odds)
    for one, other in itertools.pairwise(range(4)):
        assert (added[one, 0] > added[other, 0]) == (added[one, 1] > added[other, 1])


def test_the_trees_do_not_stop_early() -> None:
    """Train on more rows than scikit-learn's threshold for early stopping."""
    features = RNG.normal(size=(11_000, 2))
    trees = CandidateRanker(features, RNG.random(11_000) < 0.1)._models[1]
    assert trees.n_iter_ == trees.max_iter == 150
