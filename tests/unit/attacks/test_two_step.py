"""The second step of two_step: features of candidates and their classifier."""

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
import torch

from harness.core.errors import HarnessError
from harness.core.examples import Training
from harness.engine.target import Target
from tests.unit.attacks.running import SmallContext, function_of, run

LENGTH = 6


@pytest.fixture(scope="module")
def training(targets_on: Callable[[torch.device], dict[str, Target]]) -> Training:
    """Return training rows, half of which have suffixes that the target considers likely."""
    rng = np.random.default_rng(8)
    prefixes = rng.integers(0, 61, (160, 12)).astype(np.uint16)
    neo = targets_on(torch.device("cpu"))["neo"]
    suffixes = neo.search(prefixes, 3, length=LENGTH).suffixes.reshape(160, 3, LENGTH)
    answers = np.where(np.arange(160)[:, None] % 2, suffixes[np.arange(160), rng.integers(0, 3, 160)], 60)
    return Training(prefixes, answers.astype(np.uint16), None, np.arange(160))


def test_candidates_are_compared_within_their_prefix() -> None:
    compare_with_others = function_of("two_step", "compare_with_others")
    row, place = np.array([0, 0, 0, 1]), np.array([0, 1, 2, 0])
    total = np.log([0.5, 0.2, 0.1, 0.3])
    share, together, lead = compare_with_others(row, total, place)
    assert np.allclose(np.exp(share), [0.625, 0.25, 0.125, 1.0])
    assert np.allclose(np.exp(together), [0.8, 0.8, 0.8, 0.3])
    assert np.allclose(np.exp(lead), [2.5, 0.4, 0.2, 1.0])


def test_features_are_finite_and_independent_of_other_prefixes(neo: Target, prefixes: np.ndarray) -> None:
    candidate_features = function_of("two_step", "candidate_features")
    found = neo.search(prefixes[:4], 3, length=LENGTH)
    own = neo.score(prefixes[:4, :1], prefixes[:4, 1:]).token_logprobs
    features = candidate_features(prefixes[:4], own, found.row, found.suffixes, found.token_logprobs)
    assert np.isfinite(features).all() and features.shape[0] == 12
    assert np.allclose(features[:, 0], found.token_logprobs.sum(axis=1))
    selected = found.row == 2
    alone = candidate_features(
        prefixes[2:3], own[2:3], np.zeros(3, int), found.suffixes[selected], found.token_logprobs[selected]
    )
    assert np.allclose(features[selected], alone)


def test_the_classifier_is_accurate_and_calibrated() -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(1200, 5))
    probability = 1 / (1 + np.exp(-2 * features[:, 1]))
    is_correct = rng.random(1200) < probability
    classifier = function_of("two_step", "Classifier")(features[:800], is_correct[:800], np.arange(800) % 4)
    found = classifier.probabilities(features[800:])
    assert ((found > 0) & (found < 1)).all()
    assert np.corrcoef(found, probability[800:])[0, 1] > 0.9
    # Calibrated: about 60 % of the candidates with probability 0.6 are correct.
    for low, high in ((0.0, 0.3), (0.3, 0.7), (0.7, 1.0)):
        inside = (found >= low) & (found < high)
        assert abs(found[inside].mean() - is_correct[800:][inside].mean()) < 0.1


def test_candidates_are_ordered_by_probability(neo: Target, prefixes: np.ndarray, training: Training) -> None:
    context = SmallContext(neo, prefixes, LENGTH, training)
    guesses = run("two_step", context, width=3)
    assert len(guesses) == 3 * len(prefixes)
    assert ((guesses.score > 0) & (guesses.score < 1)).all() and (np.diff(guesses.score) <= 0).all()
    assert len(np.unique(guesses.score)) > 5


def test_a_resumed_run_uses_the_kept_candidates(neo: Target, prefixes: np.ndarray, training: Training) -> None:
    uninterrupted = SmallContext(neo, prefixes, LENGTH, training)
    expected = run("two_step", uninterrupted, width=3)
    resumed = SmallContext(neo, prefixes, LENGTH, training, kept_arrays=dict(uninterrupted.kept_arrays))
    # All batches are done and only the second step is left.
    resumed.batches = lambda *args, **kwargs: iter(())  # type: ignore[method-assign]
    assert (run("two_step", resumed, width=3).suffixes == expected.suffixes).all()


class _WithoutTraining(SmallContext):
    @property
    def train(self) -> Training:
        raise HarnessError("the round has no training examples, and the attack asks for them.")


def test_without_training_examples_the_likelihood_decides(
    neo: Target, prefixes: np.ndarray, capsys: pytest.CaptureFixture[str]
) -> None:
    guesses = run("two_step", _WithoutTraining(neo, prefixes, LENGTH), width=3)
    scored = neo.score(prefixes[guesses.ids], guesses.suffixes)
    assert np.allclose(guesses.score, scored.token_logprobs.sum(axis=1), atol=1e-4)
    assert "no training examples" in capsys.readouterr().out


def test_finishing_before_the_second_step_keeps_the_likelihood_order(
    neo: Target, prefixes: np.ndarray, training: Training
) -> None:
    context = SmallContext(neo, prefixes, LENGTH, training)
    batches = context.batches
    context.batches = lambda **options: iter(()) if "over" in options else batches(**options)  # type: ignore[method-assign]
    guesses = run("two_step", context, width=3)
    assert len(guesses) == 3 * len(prefixes) and (guesses.score < 0).all()


def test_without_a_right_training_candidate_the_likelihood_decides(
    neo: Target, prefixes: np.ndarray, training: Training, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = dataclasses.replace(training, suffixes=np.full_like(training.suffixes, 60))
    guesses = run("two_step", SmallContext(neo, prefixes, LENGTH, wrong), width=3)
    assert (guesses.score < 0).all()
    assert "too few training candidates" in capsys.readouterr().out


def test_the_trees_do_not_stop_early() -> None:
    """Train on more rows than scikit-learn's threshold for early stopping."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(11_000, 2))
    trees = function_of("two_step", "train_trees")(features, rng.random(11_000) < 0.1)
    assert trees.n_iter_ == trees.max_iter == 150
