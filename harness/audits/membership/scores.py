"""Scores of membership. A larger score speaks for membership."""

import zlib

import numpy as np

from harness.core.arrays import Floats

_MIN_DIVISOR = 1e-12
"""The smallest deviation and loss by which something is divided."""


def loss_score(logprobs: Floats) -> float:
    """Return the mean log-probability of the tokens, [tokens] in nats (Yeom et al. 2018)."""
    return float(logprobs.mean())


def zlib_score(logprobs: Floats, text: str) -> float:
    """Return the mean log-probability per byte of the compressed text (Carlini et al. 2021)."""
    return float(logprobs.mean()) / len(zlib.compress(text.encode("utf-8", "replace")))


def min_k_score(logprobs: Floats, k: float) -> float:
    """Return the mean log-probability of the share `k` of the tokens that are least likely (Shi et al. 2024)."""
    return float(np.sort(logprobs)[: _count(len(logprobs), k)].mean())


def min_k_plus_score(logprobs: Floats, means: Floats, deviations: Floats, k: float) -> float:
    """Return the same of log-probabilities that are standardized at each position (Zhang et al. 2025).

    means, deviations: [tokens], of the log-probability of a token drawn from the model.
    """
    return min_k_score((logprobs - means) / np.maximum(deviations, _MIN_DIVISOR), k)


def recall_score(logprobs: Floats, after_non_members: Floats) -> float:
    """Return the log-likelihood after non-members divided by that of the text alone (Xie et al. 2024, ReCaLL)."""
    return float(after_non_members.mean() / min(-_MIN_DIVISOR, logprobs.mean()))


def _count(tokens: int, k: float) -> int:
    return max(1, int(tokens * k))
