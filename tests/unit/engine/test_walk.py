"""Step-by-step decoding."""

import numpy as np
import pytest
import torch

from harness.core.errors import HarnessError
from harness.core.policy import Policy, PrefixView
from tests.unit.engine.reference import decode_greedily, to_device


def decode_with_candidates(walk):
    """Greedy decoding that tries four tokens a step and drops three of them."""
    while walk.suffixes.shape[1] < walk.length:
        tokens, logprobs = walk.leading(4)
        walk.advance(tokens.reshape(-1), np.repeat(np.arange(len(walk.owner)), 4))
        best = logprobs.argmax(axis=1) + 4 * np.arange(len(logprobs))
        walk.select(best)
    return walk.suffixes


@pytest.mark.parametrize("follow", [decode_greedily, decode_with_candidates])
@pytest.mark.parametrize("rows_at_once", [1, 8, 64])
def test_a_walk_along_the_likeliest_tokens_is_greedy(target, prefixes, follow, rows_at_once):
    target.rows_at_once = rows_at_once
    found = target.walk(prefixes[:5], follow, branches=4, length=4)
    assert (found == target.sample(prefixes[:5], Policy(top_k=1), length=4).suffixes).all()


def test_states_are_the_models_last_hidden_states(neo, prefixes):
    def follow(walk):
        walk.advance(np.array([1] * len(walk.owner)))
        whole = to_device(neo, np.column_stack([walk.prefixes, walk.suffixes]))
        with torch.inference_mode():
            wanted = neo.model.base_model(whole).last_hidden_state
        assert torch.allclose(walk.prefix_states, wanted[:, :-1], atol=1e-4)
        assert torch.allclose(walk.states, wanted[:, -1], atol=1e-4)
        return walk.suffixes

    assert neo.walk(prefixes, follow, length=1).tolist() == [[1]] * 9


def test_leading_tokens_follow_the_policy(target, prefixes):
    def follow(walk):
        tokens, logprobs = walk.leading(5, Policy(top_k=3, repetition_penalty=1.2))
        assert tokens.shape == (len(walk.owner), 3)
        assert np.allclose(np.exp(logprobs).sum(axis=1), 1)
        return tokens[:, :1]

    target.walk(prefixes, follow, length=1)


def test_leading_tokens_follow_a_decaying_temperature(target, prefixes):
    def follow(walk):
        for temperature in (4.0, 2.5, 1.0, 1.0):
            _, logprobs = walk.leading(5, Policy(temperature=4, decay_tokens=3))
            tokens, wanted = walk.leading(5, Policy(temperature=temperature))
            assert np.allclose(logprobs, wanted)
            walk.advance(tokens[:, 0])
        return walk.suffixes

    target.walk(prefixes, follow, length=4)


def test_out_of_memory_restarts_a_walk_with_fewer_prefixes(neo, prefixes, fail_passes):
    fail_passes(lambda rows: len(rows) > 8)
    found = neo.walk(prefixes, decode_with_candidates, branches=4, length=5)
    assert neo.rows_at_once == 8
    assert (found == neo.walk(prefixes, decode_greedily, length=5)).all()


def test_no_prefixes_give_no_walk(neo):
    assert neo.walk(np.empty((0, 12), np.uint16), decode_greedily, length=3).shape == (0, 3)


def test_a_walk_with_views_is_refused(neo, prefixes):
    with pytest.raises(HarnessError, match="does not support a target with views"):
        neo.viewed([PrefixView(start=2)]).walk(prefixes, decode_greedily, length=5)
