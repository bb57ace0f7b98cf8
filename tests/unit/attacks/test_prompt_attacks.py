"""Attacks that train a soft prompt."""

import numpy as np
import pytest
import torch

from harness.core.examples import Training
from harness.engine.target import Target
from tests.tools.devices import slow_on_gpu
from tests.unit.attacks.running import SmallContext, attack_of, function_of, run
from tests.unit.engine.reference import examples_of_a_prompt

LENGTH = 6


@pytest.fixture(scope="module")
def training() -> Training:
    return examples_of_a_prompt()


def test_the_smoothing_loss_adds_the_mean_of_the_hardest_tokens() -> None:
    attack = attack_of("ethicist", hardest=2, alpha=0.7)
    losses = torch.tensor([[1.0, 4.0, 0.0, 3.0], [1.0, 1.0, 1.0, 1.0]])
    assert torch.allclose(attack.smoothed_loss(losses), torch.tensor([2.0 + 0.7 * 3.5, 1.0 + 0.7]))


def test_calibrated_confidence_is_a_share_of_counts_times_probabilities() -> None:
    calibrated_confidence = function_of("ethicist", "calibrated_confidence")
    row, count = np.array([0, 0, 2]), np.array([3, 1, 9])
    probability = np.array([0.01, 0.05, 1e-30])
    found = calibrated_confidence(row, count, np.log(probability))
    assert np.allclose(found, [0.03 / 0.08, 0.05 / 0.08, 1.0])


@slow_on_gpu
@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("soft_prompt", {"tokens": 8, "epochs": 20, "batch": 20}),
        ("ethicist", {"tokens": 8, "epochs": 40, "batch": 20, "warmup": 2, "trials": 5, "patience": 40}),
    ],
)
def test_a_trained_attack_learns_from_its_training_examples(
    neo: Target, training: Training, prefixes: np.ndarray, name: str, params: dict[str, float]
) -> None:
    untrained = run(
        name, SmallContext(neo, prefixes[:5], LENGTH, training), **params | {"epochs": 1, "learning_rate": 1e-9}
    )
    trained = run(name, SmallContext(neo, prefixes[:5], LENGTH, training), **params | {"learning_rate": 0.1})
    assert np.isin(trained.suffixes, [7, 8, 9]).mean() > np.isin(untrained.suffixes, [7, 8, 9]).mean() + 0.2


def test_training_stops_early_and_uses_the_best_prompt(neo: Target, training: Training, prefixes: np.ndarray) -> None:
    # With random suffixes, training on some rows soon increases the loss on the others.
    noise = np.random.default_rng(9).integers(0, 61, training.suffixes.shape).astype(np.uint16)
    training = Training(training.prefixes, noise, None, training.clusters)
    context = SmallContext(neo, prefixes[:2], LENGTH, training)
    run("ethicist", context, tokens=8, epochs=40, patience=2, batch=18, learning_rate=0.3, warmup=0, trials=2)
    saved = {name: array[0] for name, array in context.kept_arrays.items() if name.startswith("epoch")}
    losses = [saved[f"epoch {number + 1}"] for number in range(len(saved))]
    assert len(losses) < 40 and int(np.argmin(losses)) == len(losses) - 3
    # The ETA does not wait for the other epochs.
    cancelled = [stage for stage, trials in context.announced.items() if trials == 0]
    assert cancelled == [f"epoch {number + 1}" for number in range(len(losses), 40)]
