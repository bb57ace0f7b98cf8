"""Measures of the memorization of a sequence, from the log-probabilities of its suffix's tokens."""

import numpy as np

from harness.core.arrays import Bools, Floats


def is_predicted(greedy_logprobs: Floats) -> Bools:
    """Return which tokens greedy decoding predicts, in the shape of greedy_logprobs: 0 for these, -inf for others."""
    return np.asarray(greedy_logprobs == 0)


def exact_memorization(predicted: Bools) -> Floats:
    """Return the share of the suffix's tokens that the target predicts, given all tokens before each, [n].

    predicted: [n, length]. Tirumala et al. 2022; `exact_memorization` of open-unlearning.
    """
    return np.asarray(predicted.mean(axis=1))


def extraction_strength(predicted: Bools) -> Floats:
    """Return 1 - k / length, [n], for the fewest suffix tokens k after which the target predicts all others.

    predicted: [n, length]. Carlini et al. 2021; `extraction_strength` of open-unlearning, whose loop ends at k =
    length - 1, so that it gives 1 / length where this is 0.
    """
    length = predicted.shape[1]
    tail = np.cumprod(predicted[:, ::-1], axis=1).sum(axis=1)
    return np.asarray(tail / length)
