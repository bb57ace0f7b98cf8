"""Plain sampling: every draw of every prefix walks through the model on its own, beside a cache of its keys and values.

The scores of what is drawn come from the pass that draws it. A tree that walks shared beginnings once may take this
module's place: it has to return the same `Paths`.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import DynamicCache

from harness.core.arrays import Floats, Ints, Tokens
from harness.core.policy import Policy
from harness.target.cache import branched
from harness.target.shaping import drawn, shaped
from harness.target.trunk import Trunk
from harness.target.uniforms import prefix_keys, uniforms


@dataclass(frozen=True)
class Paths:
    """Draws by prefix, then by draw: `draws` rows for each prefix.

    suffixes: [rows, length] int64; token_logprobs: [rows, length] float64; policy_logprob: [rows] float64;
    last_prefix_logprob: [prefixes] float64.
    """

    suffixes: Ints
    token_logprobs: Floats
    policy_logprob: Floats
    last_prefix_logprob: Floats


def sampled_paths(
    trunk: Trunk, prefixes: Tokens, policy: Policy, *, draws: int, seed: int, length: int, rows_at_once: int
) -> Paths:
    """`draws` suffixes of `length` tokens for each of the distinct `prefixes` [prefixes, any], at least one of them."""
    keys = prefix_keys(prefixes)
    prefixes_at_once = max(1, rows_at_once // draws)
    parts = [
        _paths_of_part(trunk, prefixes[part], keys[part], policy, draws, seed, length, rows_at_once)
        for part in _slices(len(prefixes), prefixes_at_once)
    ]
    return Paths(
        np.concatenate([part.suffixes for part in parts]),
        np.concatenate([part.token_logprobs for part in parts]),
        np.concatenate([part.policy_logprob for part in parts]),
        np.concatenate([part.last_prefix_logprob for part in parts]),
    )


def _paths_of_part(
    trunk: Trunk,
    prefixes: Tokens,
    keys: NDArray[np.uint64],
    policy: Policy,
    draws: int,
    seed: int,
    length: int,
    rows_at_once: int,
) -> Paths:
    """Paths of prefixes whose draws fit into `rows_at_once`, or of one prefix whose draws take turns."""
    tokens = torch.as_tensor(prefixes.astype(np.int64), device=trunk.device)  # [prefixes, prefix length]
    cache = trunk.fresh_cache()
    states = trunk.states(tokens, cache, keep=min(2, tokens.shape[1]))  # [prefixes, 1 or 2, width]
    last_prefix_logprob = np.full(len(prefixes), np.nan)
    if tokens.shape[1] > 1:
        before_last = trunk.logits(states[:, 0])  # [prefixes, vocabulary]
        last_prefix_logprob = _host(_logprob_of(before_last, tokens[:, -1]))
        del before_last

    first = trunk.logits(states[:, -1])  # [prefixes, vocabulary]
    walks = []
    for part in _slices(len(prefixes) * draws, rows_at_once):
        rows = np.arange(part.start, part.stop)
        uniform = uniforms(seed, keys[rows // draws, None], (rows % draws)[:, None], np.arange(length))
        of_prefix = torch.as_tensor(rows // draws, device=trunk.device)
        walks.append(
            _walk(
                trunk,
                branched(cache, of_prefix),
                first[of_prefix],
                tokens[of_prefix],
                torch.as_tensor(uniform.astype(np.float32) if trunk.device.type == "mps" else uniform).to(trunk.device),
                policy,
            )
        )
    suffixes, token_logprobs, policy_logprob = (np.concatenate(column) for column in zip(*walks, strict=True))
    return Paths(suffixes, token_logprobs, policy_logprob, last_prefix_logprob)


def _walk(
    trunk: Trunk, cache: DynamicCache, logits: Tensor, seen: Tensor, uniform: Tensor, policy: Policy
) -> tuple[Ints, Floats, Floats]:
    """Suffixes [rows, length], their token log-probabilities and policy log-probability [rows], drawn step by step.

    cache: of the prefixes; logits: [rows, vocabulary] after them; seen: [rows, prefix length]; uniform: [rows, length].
    """
    rows, length = uniform.shape
    prefix_length = seen.shape[1]
    seen = torch.cat([seen, seen.new_zeros(rows, length)], dim=1)  # [rows, prefix length + length]
    token_logprobs = torch.empty(rows, length, device=seen.device)
    policy_logprob = torch.zeros(rows, dtype=uniform.dtype, device=seen.device)
    for step in range(length):
        now = prefix_length + step
        if step:
            states = trunk.states(seen[:, now - 1 : now], cache, keep=1)  # [rows, 1, width]
            logits = trunk.logits(states[:, 0])  # [rows, vocabulary]
        token, logprob = drawn(shaped(logits, policy, seen[:, :now]), uniform[:, step])  # [rows], [rows]
        seen[:, now] = token
        policy_logprob += logprob
        token_logprobs[:, step] = _logprob_of(logits, token)
    return seen[:, prefix_length:].cpu().numpy(), _host(token_logprobs), _host(policy_logprob)


def _logprob_of(logits: Tensor, token: Tensor) -> Tensor:
    """The log-probability of one token a row [rows] under logits [rows, vocabulary], without a softmax of them all."""
    return logits.gather(1, token.unsqueeze(1)).squeeze(1) - torch.logsumexp(logits, dim=1)


def _slices(total: int, size: int) -> list[slice]:
    return [slice(start, min(start + size, total)) for start in range(0, total, size)]


def _host(values: Tensor) -> Floats:
    return values.cpu().numpy().astype(np.float64)
