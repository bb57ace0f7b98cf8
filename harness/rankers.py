"""Scores that order suffixes by what a target says of them. A higher score is submitted earlier.

Each score uses one sequence alone, so the batch has no influence. The names are those of Yu et al., "Bag of Tricks for
Training Data Extraction from Language Models", ICML 2023, and the constants come from the paper's released code
(github.com/weichen-yu/LM-Extraction). Losses are negative log-probabilities in nats.
"""

import zlib
from typing import TYPE_CHECKING, Literal

import numpy as np

from harness.core.arrays import Floats, Tokens

if TYPE_CHECKING:
    from harness.engine.target import Target

Ranker = Literal["mean_loss", "official_loss", "cumulative", "zlib", "high_confidence", "surprise"]
"""The rankers that a sampling attack offers. RANKER_HELP describes them."""

RANKER_HELP = (
    "Score that orders suffixes: mean_loss, official_loss (its window begins a token early), cumulative probability, "
    "zlib (loss times compressed length), high_confidence (sure tokens count less), surprise (outliers are clipped)."
)


def ranked(
    ranker: Ranker,
    target: "Target",
    prefixes: Tokens,
    suffixes: Tokens,
    *,
    token_logprobs: Floats | None = None,
    last_prefix_logprob: Floats | None = None,
) -> Floats:
    """Return the scores of suffixes [rows, length] after prefixes [rows, prefix length] by one of the rankers, [rows].

    token_logprobs [rows, length] and last_prefix_logprob [rows], under the model, save a forward pass if decoding has
    computed them and the ranker needs no margins.
    """
    margin = None
    if token_logprobs is None or last_prefix_logprob is None or ranker == "high_confidence":
        scored = target.score(prefixes, suffixes)
        token_logprobs, last_prefix_logprob, margin = scored.token_logprobs, scored.last_prefix_logprob, scored.margin
    if ranker == "mean_loss":
        return mean_loss(token_logprobs)
    if ranker == "official_loss":
        return official_loss(token_logprobs, last_prefix_logprob)
    if ranker == "cumulative":
        return cumulative(token_logprobs)
    if ranker == "zlib":
        return compressed_loss(token_logprobs, np.concatenate([prefixes, suffixes], axis=1))
    if ranker == "surprise":
        return clipped_loss(token_logprobs)
    assert margin is not None
    return confident_loss(token_logprobs, margin)


def mean_loss(token_logprobs: Floats) -> Floats:
    """Return minus the mean loss of token_logprobs [rows, length], [rows]."""
    mean: Floats = token_logprobs.mean(axis=1)
    return mean


def official_loss(token_logprobs: Floats, last_prefix_logprob: Floats) -> Floats:
    """Return minus the mean loss over the window of the challenge's baseline, [rows].

    The window begins one token early: it includes last_prefix_logprob [rows], the last token of the prefix, and
    excludes the last token of token_logprobs [rows, length] (Carlini et al., SaTML 2023 challenge,
    baseline/simple_baseline.py).
    """
    window: Floats = (last_prefix_logprob + token_logprobs[:, :-1].sum(axis=1)) / token_logprobs.shape[1]
    return window


def cumulative(token_logprobs: Floats) -> Floats:
    """Return the logarithm of the product of the tokens' probabilities, [rows].

    For suffixes of one length it gives the same order as the mean.
    """
    total: Floats = token_logprobs.sum(axis=1)
    return total


def compressed_loss(token_logprobs: Floats, tokens: Tokens) -> Floats:
    """Return minus the mean loss times the length of the zlib-compressed ids of tokens [rows, prefix + suffix], [rows].

    The ids are 64-bit integers, as in the released code. Carlini et al. 2021 instead divide by the compressed length of
    the text, which finds text that is likely although it is complex.
    """
    return mean_loss(token_logprobs) * compressed_bytes(tokens)


def compressed_bytes(tokens: Tokens) -> Floats:
    """Return the length of each row of ids [rows, any], as zlib-compressed 64-bit integers, [rows]."""
    return np.array([len(zlib.compress(row.tobytes())) for row in np.ascontiguousarray(tokens, np.int64)], np.float64)


def confident_loss(token_logprobs: Floats, margin: Floats, *, lead: float = 0.5, reward: float = 0.15) -> Floats:
    """Return minus the mean loss, reduced by `reward` times the mean for each sure token, [rows].

    A token is sure if the model's likeliest next token leads the second by more than `lead` nats: margin [rows,
    length]. The released code also clips outliers first (`clipped_loss` alone does that here), and takes the reward
    back if the likeliest token's logit is positive, which is not a property of the distribution.
    """
    share_of_sure: Floats = (margin > lead).mean(axis=1)
    return mean_loss(token_logprobs) * (1 - reward * share_of_sure)


def clipped_loss(token_logprobs: Floats, *, deviations: float = 3.0) -> Floats:
    """Return minus the mean loss with outliers, beyond `deviations` standard deviations, replaced by the mean, [rows].

    Human text contains a surprising token now and then. A single one should not lower the rank of a suffix.
    """
    mean = token_logprobs.mean(axis=1, keepdims=True)
    spread = deviations * token_logprobs.std(axis=1, keepdims=True)
    is_outlier = np.abs(token_logprobs - mean) > spread
    return mean_loss(np.where(is_outlier, mean, token_logprobs))
