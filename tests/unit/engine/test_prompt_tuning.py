"""Soft prompts: losses, training, and resumed training."""

from pathlib import Path

import numpy as np
import pytest
import torch

from harness.core.errors import HarnessError
from harness.core.examples import Schedule, Training
from harness.engine import prompt_tuning
from harness.engine.loading import load_target
from harness.engine.prompt_tuning import PromptTuning, suffix_losses
from harness.engine.target import Target
from tests.unit.engine.architectures import KNOWN, random_model
from tests.unit.engine.conftest import load_on, with_first_token
from tests.unit.engine.reference import examples_of_a_prompt

LENGTH = 6


@pytest.fixture(scope="module")
def training() -> Training:
    return examples_of_a_prompt()


def _mean(losses: torch.Tensor) -> torch.Tensor:
    return losses.mean(dim=1)


def test_training_losses_equal_those_of_score(target: Target, training: Training) -> None:
    tuning = PromptTuning(target, 3, Schedule(0.1))
    prompt = torch.tensor(tuning.prompt, dtype=torch.float32, device=target.device)
    losses = suffix_losses(target, prompt, training.prefixes[:5], training.suffixes[:5])
    scored = target.score(training.prefixes[:5], training.suffixes[:5], tuning.view)
    assert np.allclose(-losses.detach().cpu().numpy(), scored.token_logprobs, atol=1e-4)


def test_training_losses_have_the_cap_of_the_models_logits(tmp_path: Path, training: Training) -> None:
    random_model(KNOWN["gemma2"]).save_pretrained(tmp_path)
    target = load_on(torch.device("cpu"), tmp_path)
    assert target.runner.head is not None
    test_training_losses_equal_those_of_score(target, training)


def test_rows_that_begin_with_the_first_token_have_it_once_in_training(
    device: torch.device, folders: dict[str, Path], tmp_path: Path, training: Training
) -> None:
    target = load_on(device, with_first_token(folders["neo"], tmp_path / "model"))
    assert target.bos_token == 5
    prefixes = training.prefixes[:6].copy()
    prefixes[:, 0] = [5, 1, 2, 5, 3, 5]
    tuning = PromptTuning(target, 3, Schedule(0.1))
    prompt = torch.tensor(tuning.prompt, dtype=torch.float32, device=target.device)
    losses = suffix_losses(target, prompt, prefixes, training.suffixes[:6])
    scored = target.score(prefixes, training.suffixes[:6], tuning.view)
    assert np.allclose(-losses.detach().cpu().numpy(), scored.token_logprobs, atol=1e-4)


def test_a_prompt_starts_from_the_first_tokens_of_the_vocabulary(neo: Target) -> None:
    first = neo.model.get_input_embeddings().weight[:4].detach().cpu().numpy()
    assert np.allclose(PromptTuning(neo, 4, Schedule(0.1)).prompt, first)


def test_training_lowers_the_loss_and_keeps_the_target(neo: Target, training: Training) -> None:
    weights = [parameter.detach().clone() for parameter in neo.model.parameters()]
    tuning = PromptTuning(neo, 4, Schedule(0.05))
    losses = [tuning.step(training.prefixes, training.suffixes, _mean) for _ in range(30)]
    assert losses[-1] < losses[0] - 0.3
    assert all(torch.equal(*pair) for pair in zip(weights, neo.model.parameters(), strict=True))
    assert all(parameter.grad is None for parameter in neo.model.parameters())


def test_training_continues_exactly_from_its_state(neo: Target, training: Training) -> None:
    schedule = Schedule(0.05, warmup=3, steps=10)
    uninterrupted = PromptTuning(neo, 4, schedule, weight_decay=0.01)
    for _ in range(8):
        uninterrupted.step(training.prefixes, training.suffixes, _mean)
    first = PromptTuning(neo, 4, schedule, weight_decay=0.01)
    for _ in range(5):
        first.step(training.prefixes, training.suffixes, _mean)
    second = PromptTuning(neo, 4, schedule, weight_decay=0.01, state=first.state)
    for _ in range(3):
        second.step(training.prefixes, training.suffixes, _mean)
    assert second.steps == 8
    # The gradient of attention on a GPU adds in any order.
    tolerance = 0 if neo.device.type == "cpu" else 1e-4
    assert np.allclose(second.state, uninterrupted.state, rtol=0, atol=tolerance)


def test_small_gradients_survive_in_float16(device: torch.device, folders: dict[str, Path], training: Training) -> None:
    gradients = {}
    for dtype in ("float32", "float16"):
        target = load_target(folders["neo"], device=str(device), dtype=dtype, threads=1)
        # Each row's share of the loss is so small that its gradient has no number in float16.
        tuning = PromptTuning(target, 4, Schedule(0.05))
        _, gradient = tuning._gradient(training.prefixes, training.suffixes, lambda one: 1e-4 * one.mean(dim=1), 8)
        gradients[dtype] = gradient.flatten()
    assert torch.cosine_similarity(*gradients.values(), dim=0) >= 0.9999


def test_out_of_memory_splits_a_training_step(neo: Target, training: Training, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = PromptTuning(neo, 4, Schedule(0.05))
    expected = plain.step(training.prefixes, training.suffixes, _mean)
    losses_of = prompt_tuning.suffix_losses

    def fail_above_11_rows(target, prompt, prefixes, suffixes):
        if len(prefixes) > 11:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return losses_of(target, prompt, prefixes, suffixes)

    monkeypatch.setattr(prompt_tuning, "suffix_losses", fail_above_11_rows)
    tuning = PromptTuning(neo, 4, Schedule(0.05))
    assert tuning.step(training.prefixes, training.suffixes, _mean) == pytest.approx(expected, abs=1e-5)
    assert np.allclose(tuning.prompt, plain.prompt, atol=1e-5)


def test_too_little_memory_to_train_on_one_row_is_an_error(
    neo: Target, training: Training, monkeypatch: pytest.MonkeyPatch
) -> None:
    def always_fail(target, prompt, prefixes, suffixes):
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(prompt_tuning, "suffix_losses", always_fail)
    with pytest.raises(HarnessError, match=r"no room to train on one sequence\. Free memory or use"):
        PromptTuning(neo, 4, Schedule(0.05)).step(training.prefixes, training.suffixes, _mean)


def test_a_prompt_beyond_the_context_is_refused(target: Target, training: Training) -> None:
    tuning = PromptTuning(target, 47, Schedule(0.05))
    with pytest.raises(HarnessError, match=r"context of 64 tokens is shorter .* 12 \+ 6 tokens after 47 positions"):
        tuning.step(training.prefixes, training.suffixes, _mean)
    assert PromptTuning(target, 46, Schedule(0.05)).step(training.prefixes[:2], training.suffixes[:2], _mean) > 0


def test_a_diverged_training_step_keeps_the_prompt(neo: Target, training: Training) -> None:
    tuning = PromptTuning(neo, 4, Schedule(0.05))
    tuning.step(training.prefixes, training.suffixes, _mean)
    before = tuning.state
    with pytest.raises(HarnessError, match="diverged at step 2 with a loss of nan"):
        tuning.step(training.prefixes, training.suffixes, lambda losses: losses.mean(dim=1) * torch.inf * 0)
    assert np.array_equal(tuning.state, before)


def test_the_learning_rate_follows_its_schedule() -> None:
    schedule = Schedule(1.0, warmup=4, steps=12)
    assert [schedule.at(step) for step in (0, 1, 3, 4, 8, 11, 12)] == [0.25, 0.5, 1.0, 1.0, 0.5, 0.125, 0.0]
    assert Schedule(0.3).at(10**6) == 0.3
