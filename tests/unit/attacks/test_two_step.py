"""The second step of two_step: features of candidates and their classifier."""

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
import torch

from harness.core.errors import HarnessError
from harness.core.examples import Training
from harness.core.policy import Policy
from harness.engine.target import Target
from tests.unit.attacks.running import SmallContext, attack_of, run

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
    context.batches = lambda *trials, **options: iter(()) if "over" in options else batches(*trials, **options)  # type: ignore[method-assign]
    guesses = run("two_step", context, width=3)
    assert len(guesses) == 3 * len(prefixes) and (guesses.score < 0).all()


def test_without_a_right_training_candidate_the_likelihood_decides(
    neo: Target, prefixes: np.ndarray, training: Training, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = dataclasses.replace(training, suffixes=np.full_like(training.suffixes, 60))
    guesses = run("two_step", SmallContext(neo, prefixes, LENGTH, wrong), width=3)
    assert (guesses.score < 0).all()
    assert "too few training candidates" in capsys.readouterr().out


@pytest.mark.parametrize("candidates", ["draws", "both"])
def test_draws_are_candidates(neo: Target, prefixes: np.ndarray, training: Training, candidates: str) -> None:
    context = SmallContext(neo, prefixes, LENGTH, training)
    guesses = run("two_step", context, candidates=candidates, trials=20, kept=2, width=3)
    drawn = neo.sample(prefixes, Policy(top_k=10), 20, 0)
    searched = neo.search(prefixes, 3)
    of_draws = {(row, tuple(suffix)) for row, suffix in zip(drawn.row, drawn.suffixes.tolist(), strict=True)}
    of_search = {(row, tuple(suffix)) for row, suffix in zip(searched.row, searched.suffixes.tolist(), strict=True)}
    found = {(row, tuple(suffix)) for row, suffix in zip(guesses.ids, guesses.suffixes.tolist(), strict=True)}
    assert len(found) == len(guesses)
    assert found <= of_draws | of_search and found & of_draws
    assert (of_search <= found) == (candidates == "both")


def test_a_first_ranker_learns_from_other_clusters(neo: Target, prefixes: np.ndarray, training: Training) -> None:
    clusters = np.maximum(np.arange(160) // 4, 15)  # The largest cluster has 64 examples.
    context = SmallContext(neo, prefixes, LENGTH, dataclasses.replace(training, clusters=clusters))
    attack = attack_of("two_step", candidates="both", width=3, trials=20, examples=80, few_trials=5)
    train, others = attack.training(context)
    assert len(train) == 80 and len(others) == 80 and not set(train.clusters) & set(others.clusters)
    guesses = run("two_step", context, candidates="both", width=3, trials=20, examples=80, few_trials=5)
    assert set(context.begun) == {"guess", "train", "few"} and context.announced.keys() == set(context.begun)
    assert ((guesses.score > 0) & (guesses.score < 1 + 1e-6)).all()


@pytest.mark.parametrize("seed", range(3))
def test_the_examples_with_all_trials_are_random_clusters(neo: Target, prefixes: np.ndarray, training: Training,
                                                          seed: int) -> None:  # fmt: skip
    clusters = np.maximum(np.arange(160) // 4, 15)
    context = SmallContext(neo, prefixes, LENGTH, dataclasses.replace(training, clusters=clusters), seed=seed)
    train, few = attack_of("two_step", candidates="draws", examples=20, few_trials=2).training(context)
    assert train is not None and few is not None
    assert len(train) == 20 and len(few) == 140 and len(set(train.clusters)) == 5
    assert not set(train.clusters) & set(few.clusters)


def test_few_trials_without_effect_are_reported(
    neo: Target, prefixes: np.ndarray, training: Training, capsys: pytest.CaptureFixture[str]
) -> None:
    context = SmallContext(neo, prefixes, LENGTH, training)
    train, few = attack_of("two_step", candidates="search", examples=20, few_trials=2).training(context)
    assert train is not None and len(train) == 20 and few is None
    assert "few_trials has no effect" in capsys.readouterr().out


def test_prefixes_of_one_token_have_no_loss(neo: Target, prefixes: np.ndarray, training: Training) -> None:
    short = dataclasses.replace(training, prefixes=training.prefixes[:, :1])
    guesses = run("two_step", SmallContext(neo, prefixes[:, :1], LENGTH, short), width=3)
    assert np.isfinite(guesses.score).all()
