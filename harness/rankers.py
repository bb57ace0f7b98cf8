"""Scores that order suffixes, from what a target says of each: a higher one is submitted earlier.

Each looks at one sequence at a time; nothing is pooled over those that happen to share a batch. The names are those of
Yu et al., "Bag of Tricks for Training Data Extraction from Language Models", ICML 2023; constants that the paper's
released code holds are taken from there (github.com/weichen-yu/LM-Extraction). Losses are negative log-probabilities
in nats.
"""

import zlib
from typing import TYPE_CHECKING, Literal

import numpy as np

from harness.core.arrays import Floats, Tokens

if TYPE_CHECKING:
    from harness.engine import Target

Ranker = Literal["mean_loss", "official_loss", "cumulative", "zlib", "high_confidence", "surprise"]
"""What a sampling attack may rank by; `ranked` says what each is."""

RANKER_HELP = (
    "What orders suffixes: mean_loss, official_loss (its window begins a token early), cumulative probability, "
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
    """The scores of suffixes [rows, length] behind prefixes [rows, prefix length] by one of the rankers, [rows].

    token_logprobs [rows, length] and last_prefix_logprob [rows], under the model, save a pass where decoding has given
    them and no margins are wanted.
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
    """Minus the mean loss of token_logprobs [rows, length], [rows]."""
    mean: Floats = token_logprobs.mean(axis=1)
    return mean


def official_loss(token_logprobs: Floats, last_prefix_logprob: Floats) -> Floats:
    """Minus the mean loss over the window of the challenge's baseline, [rows].

    It begins one token early: it holds the last token of the prefix, last_prefix_logprob [rows], and lacks the last of
    the suffix's token_logprobs [rows, length] (Carlini et al., SaTML 2023 challenge, baseline/simple_baseline.py).
    """
    window: Floats = (last_prefix_logprob + token_logprobs[:, :-1].sum(axis=1)) / token_logprobs.shape[1]
    return window


def cumulative(token_logprobs: Floats) -> Floats:
    """The logarithm of the product of the tokens' probabilities, [rows]; at one length it orders as the mean does."""
    total: Floats = token_logprobs.sum(axis=1)
    return total


def compressed_loss(token_logprobs: Floats, tokens: Tokens) -> Floats:
    """Minus the mean loss times the length of the zlib-compressed ids of tokens [rows, prefix + suffix], [rows].

    As the released code has it: ids as 64-bit integers. Carlini et al. 2021 divide by the compressed length of the
    text instead, which looks for what is surprising and yet likely.
    """
    return mean_loss(token_logprobs) * compressed_bytes(tokens)


def compressed_bytes(tokens: Tokens) -> Floats:
    """Bytes of each row of ids [rows, any], as 64-bit integers, behind zlib, [rows]."""
    return np.array([len(zlib.compress(row.tobytes())) for row in np.ascontiguousarray(tokens, np.int64)], np.float64)


def confident_loss(token_logprobs: Floats, margin: Floats, *, lead: float = 0.5, reward: float = 0.15) -> Floats:
    """Minus the mean loss, from which each sure token takes `reward` times that mean, [rows].

    A token is sure where the model's likeliest next token leads the second by more than `lead` nats: margin [rows,
    length]. The released code takes the reward away again where the likeliest token's logit is positive, which is no
    property of the distribution, and replaces surprises before; `clipped_loss` is that second step alone.
    """
    share_of_sure: Floats = (margin > lead).mean(axis=1)
    return mean_loss(token_logprobs) * (1 - reward * share_of_sure)


def clipped_loss(token_logprobs: Floats, *, deviations: float = 3.0) -> Floats:
    """Minus the mean loss with a sequence's outliers, beyond `deviations` of its own, set to its mean, [rows].

    Text that people write holds a surprise now and then; a single one should not cost a suffix its place.
    """
    mean = token_logprobs.mean(axis=1, keepdims=True)
    spread = deviations * token_logprobs.std(axis=1, keepdims=True)
    is_outlier = np.abs(token_logprobs - mean) > spread
    return mean_loss(np.where(is_outlier, mean, token_logprobs))
