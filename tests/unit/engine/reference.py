"""Slow reference implementations: whole sequences go through the model, one token at a time."""

import numpy as np
import torch

from harness.core.arrays import Tokens
from harness.core.examples import Training
from harness.core.policy import Policy
from harness.engine.branches import Logits
from harness.engine.shaping import apply_policy, sample_tokens
from harness.engine.target import Target
from harness.engine.tree import prefix_keys, uniforms
from harness.engine.walk import Walk


def logits_of(scores: torch.Tensor) -> Logits:
    """Return `scores` [rows, vocabulary] as the logits of one block."""
    return Logits(slice(0, len(scores)), scores)


def decode_greedily(walk: Walk) -> Tokens:
    """Follow the likeliest token at each step of a walk."""
    while walk.suffixes.shape[1] < walk.length:
        tokens, _ = walk.leading(1)
        walk.advance(tokens[:, 0])
    return walk.suffixes


def examples_of_a_prompt() -> Training:
    """Return 40 training examples of 12 + 6 tokens with one suffix, which a soft prompt easily learns."""
    rows = np.random.default_rng(8).integers(0, 61, (40, 18)).astype(np.uint16)
    rows[:, 12:] = np.tile([7, 8, 9], 2)
    return Training(rows[:, :12], rows[:, 12:], None, np.arange(40))


def to_device(target: Target, tokens: np.ndarray) -> torch.Tensor:
    """Return token ids as int64 on the target's device."""
    return torch.tensor(np.asarray(tokens).astype(np.int64), device=target.device)


def model_logprobs(target: Target, sequences: np.ndarray) -> torch.Tensor:
    """Return the log-softmax of the model's own uncached logits, [rows, tokens, vocabulary] on the CPU."""
    with torch.inference_mode():
        return torch.log_softmax(target.model(to_device(target, sequences)).logits.double(), dim=-1).cpu()


def dense_probabilities(target: Target, sequences: np.ndarray, policy: Policy) -> np.ndarray:
    """Return the policy's next-token probabilities after each of sequences [rows, length], [rows, vocabulary]."""
    tokens = to_device(target, sequences)
    parts = []
    for part in tokens.split(4096):
        with torch.inference_mode():
            logits = target.model(part, use_cache=False).logits[:, -1].float()
        support = apply_policy(logits, policy, part)
        probabilities = support.logprobs.double().exp()
        if support.ids is not None:
            nothing = probabilities.new_zeros(len(part), target.vocabulary)
            probabilities = nothing.scatter(1, support.ids, probabilities)
        parts.append(probabilities)
    return torch.cat(parts).cpu().numpy()


def exact_probabilities(target: Target, prefix: np.ndarray, policy: Policy, length: int) -> np.ndarray:
    """Return the probability of every suffix of `length` tokens after one prefix, [vocabulary] * length."""
    probabilities = np.ones(1)
    sequences = np.asarray(prefix)[None, :]
    for step in range(length):
        following = dense_probabilities(target, sequences, policy.at(step))
        probabilities = (probabilities[:, None] * following).reshape(-1)
        sequences = np.column_stack(
            [np.repeat(sequences, target.vocabulary, axis=0), np.tile(np.arange(target.vocabulary), len(sequences))]
        )
    return probabilities.reshape([target.vocabulary] * length)


def plain_draws(target: Target, prefix: np.ndarray, policy: Policy, trials: int, seed: int, length: int) -> np.ndarray:
    """Return the suffixes [trials, length] of independent draws without a cache of keys and values."""
    sequences = to_device(target, np.tile(prefix, (trials, 1)))
    keys, draws = prefix_keys(sequences.cpu().numpy()), np.arange(trials)
    rows = torch.arange(trials, device=target.device)
    for position in range(length):
        with torch.inference_mode():
            logits = target.model(sequences, use_cache=False).logits[:, -1].float()
        uniform = torch.from_numpy(uniforms(seed, keys, draws, position)).to(target.device)
        tokens, _ = sample_tokens(apply_policy(logits, policy.at(position), sequences), rows, uniform)
        sequences = torch.cat([sequences, tokens.unsqueeze(1)], dim=1)
    return sequences[:, -length:].cpu().numpy()
