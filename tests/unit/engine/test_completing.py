"""Prompts of several lengths that are completed together have the completions that each has alone."""

import numpy as np
import pytest
import torch

from harness.core.errors import HarnessError
from harness.core.policy import Policy
from harness.engine.target import Target
from tests.tools.tiers import first_is_fast, slow_values
from tests.unit.engine.architectures import KNOWN, UNKNOWN, VOCABULARY, random_model
from tests.unit.engine.conftest import load_on, with_first_token
from tests.unit.engine.reference import plain_draws

POLICIES = [
    Policy(top_k=1),
    Policy(),
    Policy(top_k=8, top_p=0.9, repetition_penalty=1.3),
    Policy(temperature=9, decay_tokens=5),
]
LENGTHS = [7, 1, 12, 16, 3, 9]


def made(*lengths: int) -> list[np.ndarray]:
    generator = np.random.default_rng(4)
    return [generator.integers(0, VOCABULARY, length) for length in lengths]


PROMPTS = made(13, 5, 21, 5, 1, 8)
"""Prompts shorter and longer than the windows of 8 tokens."""


def assert_alone(target: Target, policy: Policy) -> None:
    together = target.complete(PROMPTS, policy, lengths=LENGTHS, seed=3)
    for prompt, length, suffix in zip(PROMPTS, LENGTHS, together, strict=True):
        assert suffix.tolist() == plain_draws(target, prompt, policy, 1, 3, length)[0].tolist()


@pytest.mark.parametrize("policy", [POLICIES[0], *slow_values(POLICIES[1:])], ids=repr)
def test_a_completion_is_the_one_that_its_prompt_has_alone(target, policy, monkeypatch):
    # The logits of two rows exist at a time.
    monkeypatch.setattr(target.runner, "logit_bytes", 2 * 4 * VOCABULARY)
    assert_alone(target, policy)


@pytest.mark.filterwarnings("ignore:the engine's own decoder")
@pytest.mark.parametrize("name", first_is_fast([*KNOWN, *UNKNOWN], rest=pytest.mark.slow))
def test_every_architecture_completes_prompts_of_several_lengths(tmp_path, name, monkeypatch):
    random_model({**KNOWN, **UNKNOWN}[name]).save_pretrained(tmp_path)
    target = load_on(torch.device("cpu"), tmp_path)
    for policy in POLICIES[:2]:
        assert_alone(target, policy)
    monkeypatch.setattr(target.runner, "decoder", None)
    assert_alone(target, POLICIES[0])


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_prompts_of_one_length_have_the_draws_of_sample(neo, prefixes, policy):
    distinct = np.unique(prefixes, axis=0)
    found = neo.complete(list(distinct), policy, lengths=[6] * len(distinct), seed=5)
    assert np.array_equal(found, neo.sample(distinct, policy, seed=5, length=6).suffixes)


def test_fewer_rows_go_together_when_memory_runs_out(neo, fail_passes):
    wanted = neo.complete(PROMPTS, POLICIES[1], lengths=LENGTHS)
    fail_passes(lambda rows: len(rows) > 2)
    found = neo.complete(PROMPTS, POLICIES[1], lengths=LENGTHS)
    assert neo.rows_at_once == 2
    assert all(map(np.array_equal, found, wanted))


def test_prompts_with_and_without_the_first_token_are_completed_as_alone(tmp_path, folders):
    target = load_on(torch.device("cpu"), with_first_token(folders["neo"], tmp_path / "model"))
    assert target.bos_token == 5
    plain = made(4, 9, 6, 3)
    prompts = [np.insert(plain[0], 0, 5), plain[1], np.insert(plain[2], 0, 5), plain[3]]
    together = target.complete(prompts, POLICIES[1], lengths=[5, 8, 3, 9])
    for prompt, suffix in zip(prompts, together, strict=True):
        assert np.array_equal(target.sample(prompt[None], POLICIES[1], length=len(suffix)).suffixes[0], suffix)


def test_steps_are_reported_until_all_is_done(neo, monkeypatch):
    steps: list[tuple[float, str]] = []
    monkeypatch.setattr(neo, "report_step", lambda *step: steps.append(step))
    neo.rows_at_once = 4
    neo.complete(PROMPTS, lengths=LENGTHS)
    shares = [share for share, _ in steps]
    assert shares == sorted(shares) and shares[-1] == 1
    assert steps[0][1].startswith("6 prefixes, token 0 of ")


def test_nothing_is_completed_beyond_the_context(neo):
    assert neo.complete([], lengths=[]) == []
    with pytest.raises(HarnessError, match="context of 64 tokens is shorter"):
        neo.complete(PROMPTS, lengths=[*LENGTHS[:-1], 60])
    with pytest.raises(HarnessError, match="at least 1, not 0"):
        neo.complete(PROMPTS, lengths=[*LENGTHS[:-1], 0])
