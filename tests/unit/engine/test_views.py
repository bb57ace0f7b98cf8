"""Views of a prefix: windows, shifted positions and soft prompts, against the model's own uncached logits."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from harness.core.errors import HarnessError
from harness.core.policy import Combination, Policy, PrefixView
from harness.engine.ensemble import Ensemble
from harness.engine.target import Target
from tests.unit.engine.reference import to_device


def _logprobs(target: Target, prefix: np.ndarray, suffix: np.ndarray, view: PrefixView) -> np.ndarray:
    """Next-token log-probabilities of one view along a suffix, [length, vocabulary]."""
    tokens = to_device(target, np.concatenate([prefix[view.start :], suffix]))[None, :]
    with torch.inference_mode():
        embeddings = target.model.get_input_embeddings()(tokens)
        if view.prompt is not None:
            prompt = torch.tensor(view.prompt, dtype=torch.float32, device=target.device)
            embeddings = torch.cat([prompt[None], embeddings], dim=1)
        positions = torch.arange(embeddings.shape[1], device=target.device)[None] + view.shift
        logits = target.model(inputs_embeds=embeddings, position_ids=positions, use_cache=False).logits[0].float()
    return torch.log_softmax(logits[-len(suffix) - 1 : -1], dim=-1).cpu().numpy()


def _greedy(target: Target, prefixes: np.ndarray, length: int) -> np.ndarray:
    found = target.sample(prefixes, Policy(top_k=1), length=length)
    assert (found.row == np.arange(len(prefixes))).all()
    return found.suffixes


PROMPT = np.random.default_rng(5).normal(size=(3, 32))
VIEWS = [
    [PrefixView(start=3)],
    [PrefixView(shift=5)],
    [PrefixView(prompt=PROMPT)],
    [
        PrefixView(),
        PrefixView(start=1, weight=0.9),
        PrefixView(start=2, weight=0.81),
        PrefixView(start=3, weight=0.729),
    ],
    [PrefixView(), PrefixView(shift=1), PrefixView(shift=7), PrefixView(start=2, shift=2, prompt=PROMPT)],
]


@pytest.mark.parametrize("views", VIEWS, ids=["window", "shifted", "prompted", "windows", "mixed"])
def test_views_are_averaged_by_log_probability(target, prefixes, views):
    shown = target.viewed(views)
    found = shown.search(prefixes[:2], width=2, length=6)
    for row in range(len(found)):
        prefix, suffix = prefixes[found.row[row]], found.suffixes[row]
        weights = np.array([view.weight for view in views])
        mean = sum(_logprobs(target, prefix, suffix, view) * view.weight for view in views) / weights.sum()
        mean = mean - np.log(np.exp(mean).sum(axis=1, keepdims=True))
        wanted = mean[np.arange(6), suffix]
        assert np.allclose(found.token_logprobs[row], wanted, atol=1e-4)


def test_votes_go_to_five_tokens_and_likelihood_breaks_ties(target, prefixes):
    views = [PrefixView(), PrefixView(start=1, weight=0.9), PrefixView(start=4, weight=0.5)]
    found = _greedy(target.viewed(views, Combination.VOTES), prefixes[:3], length=5)
    for prefix, suffix in zip(prefixes[:3], found, strict=True):
        logprobs = np.stack([_logprobs(target, prefix, suffix, view) for view in views])  # [views, length, vocabulary]
        weights = np.array([view.weight for view in views]) / 2.4
        mean = np.einsum("vlt,v->lt", logprobs, weights)
        for position in range(5):
            votes = np.zeros(target.vocabulary)
            for view, weight in enumerate(weights):
                favourites = np.argsort(-logprobs[view, position])[:5]
                votes[favourites] += weight * np.array([5, 4, 3, 2, 1])
            best = np.flatnonzero(votes > votes.max() - 1e-6)
            assert suffix[position] == best[np.argmax(mean[position, best])]


def test_the_default_view_changes_nothing(target, prefixes):
    plain = target.sample(prefixes, Policy(top_k=10), trials=5, seed=1, length=6)
    shown = target.viewed([PrefixView()]).sample(prefixes, Policy(top_k=10), trials=5, seed=1, length=6)
    assert (plain.suffixes == shown.suffixes).all() and np.allclose(plain.token_logprobs, shown.token_logprobs)


def test_evaluations_count_every_view(neo, prefixes):
    shown = neo.viewed([PrefixView(), PrefixView(start=1)])
    before = shown.evaluations
    shown.sample(prefixes[:2], Policy(top_k=1), length=4)
    assert shown.evaluations - before == 2 * 2 * 4


@pytest.mark.parametrize(
    ("views", "sentence"),
    [
        ([], "one view or more"),
        ([PrefixView(start=-1)], "one view or more"),
        ([PrefixView(weight=0.0)], "one view or more"),
        ([PrefixView(prompt=np.zeros((3, 7)))], r"needs \[tokens, 32\]"),
        ([PrefixView(start=11)], "drops 11 of 12 prefix tokens"),
        ([PrefixView(shift=50)], r"context of 64 tokens is shorter than .* 12 \+ 6 tokens after 50 positions"),
        (
            [PrefixView(), PrefixView(prompt=np.zeros((50, 32)))],
            r"12 \+ 6 tokens after 50 positions of a shift or a soft prompt",
        ),
    ],
)
def test_an_invalid_view_is_refused(neo, prefixes, views, sentence):
    with pytest.raises(HarnessError, match=sentence):
        neo.viewed(views).sample(prefixes, length=6)


@pytest.mark.parametrize(
    "view", [PrefixView(start=3), PrefixView(shift=5), PrefixView(prompt=PROMPT)], ids=["window", "shift", "prompt"]
)
def test_a_score_in_a_view_uses_the_tokens_shown(target, prefixes, view):
    suffixes = prefixes[::-1, :7]
    scored = target.score(prefixes, suffixes, view)
    for row, (prefix, suffix) in enumerate(zip(prefixes, suffixes, strict=True)):
        wanted = _logprobs(target, prefix, suffix, view)[np.arange(7), suffix]
        assert np.allclose(scored.token_logprobs[row], wanted, atol=1e-4)


@pytest.mark.parametrize("view", [PrefixView(shift=46), PrefixView(prompt=np.zeros((46, 32)))], ids=["shift", "prompt"])
def test_a_score_in_a_view_beyond_the_context_is_refused(target, prefixes, view):
    assert len(target.score(prefixes, prefixes[:, :6], PrefixView(shift=45))) == len(prefixes)
    with pytest.raises(HarnessError, match=r"context of 64 tokens .* 46 positions"):
        target.score(prefixes, prefixes[:, :7], view)


def test_more_votes_win_however_many_views_there_are():
    """Six votes of 49 views beat five votes, even if their mean log-probability is 22 nats lower."""
    views = [PrefixView(start=number) for number in range(49)]
    runner = SimpleNamespace(device=torch.device("cpu"), dtype=torch.float32, vocabulary=400, shares_prefixes=False)
    logprobs = torch.full((1, 49, 400), -50.0)
    for view in range(49):  # the five likeliest tokens of a view are its own, unless a later line says otherwise
        logprobs[0, view, 10 + 5 * view : 15 + 5 * view] = torch.tensor([-2.0, -2.1, -2.2, -2.3, -2.4])
    logprobs[0, :, 0], logprobs[0, :, 1] = -3.0, -25.0
    logprobs[0, 0, 0] = -1.0  # 5 votes
    logprobs[0, 1:3, 1] = torch.tensor([-1.0, -2.35])  # 5 votes and 1 vote
    logprobs[0, 2, 24] = -50.0
    votes = Ensemble(runner, views, Combination.VOTES)._combine(logprobs)[0]
    assert votes[1] > votes[0]
