"""Scores that order suffixes by what a target says of them. A higher score is submitted earlier.

The score of a sequence does not depend on the other sequences of the call. The names `mean_loss` to `surprise` are
those of Yu et al., "Bag of Tricks for Training Data Extraction from Language Models", ICML 2023, and their constants
come from the paper's released code (github.com/weichen-yu/LM-Extraction). `reference_ratio` and `zlib_ratio` are from
Carlini et al., "Extracting Training Data from Large Language Models", USENIX Security 2021. Losses are negative
log-probabilities in nats.
"""

import functools
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import Field

from harness.core.arrays import Floats, Ints, Tokens
from harness.core.errors import HarnessError
from harness.core.tokenizers import WRITE_TOKENIZER, Tokenizer, load_tokenizer

if TYPE_CHECKING:
    from harness.engine.target import Target

RankerName = Literal[
    "mean_loss",
    "official_loss",
    "cumulative",
    "zlib",
    "high_confidence",
    "surprise",
    "reference_ratio",
    "zlib_ratio",
    "least_token",
    "greedy_share",
]
"""The scores that `context.rank` computes."""

RANKER_HELP = (
    "Score that orders suffixes: mean_loss, official_loss (its window begins a token early), cumulative probability, "
    "zlib (loss times compressed length), high_confidence (sure tokens count less), surprise (outliers are clipped), "
    "reference_ratio (loss divided by that of the reference model), zlib_ratio (loss divided by the text's compressed "
    "length), least_token (the least likely token), greedy_share (tokens that are the likeliest)."
)

Ranker = Annotated[RankerName, Field(description=RANKER_HELP)]
"""The type of an attack's parameter that chooses a ranker, with the description of each."""
_SCORED_AGAIN = ("high_confidence", "greedy_share")
"""Rankers that need more than the log-probabilities that decoding computes."""
_MIN_LOSS = 1e-12
"""The least mean loss that another loss is divided by, in nats."""


def ranked(
    ranker: RankerName,
    target: "Target",
    prefixes: Tokens,
    suffixes: Tokens,
    *,
    token_logprobs: Floats | None = None,
    last_prefix_logprob: Floats | None = None,
    reference: "Target | None" = None,
) -> Floats:
    """Return the scores of suffixes [rows, length] after prefixes [rows, prefix length] by one of the rankers, [rows].

    If decoding has computed token_logprobs [rows, length] and last_prefix_logprob [rows] under the model, pass them to
    save a forward pass. Rankers that need margins or ranks (high_confidence, greedy_share) compute the pass in any
    case.
    reference: the model whose loss reference_ratio divides by.
    Raises HarnessError if the ranker needs a reference model or the target's tokenizer, and there is none.
    """
    margin = rank = None
    if token_logprobs is None or last_prefix_logprob is None or ranker in _SCORED_AGAIN:
        scored = target.score(prefixes, suffixes)
        token_logprobs, last_prefix_logprob = scored.token_logprobs, scored.last_prefix_logprob
        margin, rank = scored.margin, scored.rank
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
    if ranker == "least_token":
        return least_token(token_logprobs)
    if ranker == "zlib_ratio":
        return loss_per_byte(token_logprobs, decoded(suffixes, target.tokenizer_file))
    if ranker == "reference_ratio":
        if reference is None:
            raise HarnessError("the ranker reference_ratio needs a reference model. Name one with --reference MODEL.")
        return relative_loss(token_logprobs, reference.score(prefixes, suffixes).token_logprobs)
    assert margin is not None and rank is not None
    return greedy_share(rank, token_logprobs) if ranker == "greedy_share" else confident_loss(token_logprobs, margin)


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

    The ids are 64-bit integers, as in the released code. `loss_per_byte` divides by the compressed length of the text.
    """
    return mean_loss(token_logprobs) * compressed_bytes(tokens)


def compressed_bytes(tokens: Tokens) -> Floats:
    """Return the length of each row of ids [rows, any], as zlib-compressed 64-bit integers, [rows]."""
    return np.array([len(zlib.compress(row.tobytes())) for row in np.ascontiguousarray(tokens, np.int64)], np.float64)


def confident_loss(token_logprobs: Floats, margin: Floats, *, lead: float = 0.5, reward: float = 0.15) -> Floats:
    """Return minus the mean loss after subtracting `reward` times the mean from the loss of each sure token, [rows].

    A token is sure if the model's likeliest next token leads the second by more than `lead` nats: margin [rows,
    length]. Two steps of the released code are left out. That code first clips outliers, which `clipped_loss` does
    here. It also adds the same amount to the loss of each token at which the largest logit is positive. But adding a
    constant to all logits changes their signs and no probability, so the sign says nothing about the distribution.
    """
    share_of_sure: Floats = (margin > lead).mean(axis=1)
    return mean_loss(token_logprobs) * (1 - reward * share_of_sure)


def clipped_loss(token_logprobs: Floats, *, deviations: float = 3.0) -> Floats:
    """Return minus the mean loss with outliers, beyond `deviations` standard deviations, replaced by the mean, [rows].

    Human text contains a surprising token now and then. A single surprising token should not lower the rank of a
    suffix.
    """
    mean = token_logprobs.mean(axis=1, keepdims=True)
    spread = deviations * token_logprobs.std(axis=1, keepdims=True)
    is_outlier = np.abs(token_logprobs - mean) > spread
    return mean_loss(np.where(is_outlier, mean, token_logprobs))


def relative_loss(token_logprobs: Floats, reference_logprobs: Floats) -> Floats:
    """Return minus the mean loss divided by the mean loss under the reference model, [rows].

    Both arguments are [rows, length]: log-probabilities of the same tokens. Text that any model finds likely has a high
    ratio. Carlini et al. 2021 call the model "Small" and sort by its log-perplexity divided by the target's, largest
    first, which is the same order: a log-perplexity is a mean loss. They measure whole texts, and this function
    measures suffixes.
    """
    reference_loss = np.maximum(-mean_loss(reference_logprobs), _MIN_LOSS)
    return mean_loss(token_logprobs) / reference_loss


def loss_per_byte(token_logprobs: Floats, texts: list[str]) -> Floats:
    """Return minus the mean loss of token_logprobs [rows, length] divided by the compressed length of `texts`, [rows].

    The length is that of the suffix's text in UTF-8, compressed by zlib, in bytes. Carlini et al. 2021 sort by this
    length divided by the log-perplexity, largest first, which is the same order. The score finds text that is likely
    although it is complex.
    """
    lengths = np.array([len(zlib.compress(text.encode())) for text in texts], np.float64)
    return mean_loss(token_logprobs) / lengths


def decoded(tokens: Tokens, tokenizer_file: Path | None) -> list[str]:
    """Return the text of each row of tokens [rows, length]. Raises HarnessError if there is no tokenizer.json."""
    if tokenizer_file is None:
        raise HarnessError(f"the target has no tokenizer.json, which the ranker zlib_ratio needs. {WRITE_TOKENIZER}")
    return _tokenizer(tokenizer_file).decode_batch(tokens.tolist(), skip_special_tokens=False)


@functools.lru_cache(maxsize=1)
def _tokenizer(file: Path) -> Tokenizer:
    return load_tokenizer(file)


def least_token(token_logprobs: Floats) -> Floats:
    """Return the log-probability of the least likely token of token_logprobs [rows, length], [rows].

    A memorized suffix has no unlikely token. The score is Min-K% Prob with a single token (Shi et al., "Detecting
    Pretraining Data from Large Language Models", ICLR 2024).
    """
    least: Floats = token_logprobs.min(axis=1)
    return least


def greedy_share(rank: Ints, token_logprobs: Floats) -> Floats:
    """Return the share of tokens that are the model's likeliest ones, with ties broken by the mean loss, [rows].

    rank: [rows, length], 0 for the likeliest token. The share is the memorization metric of Tirumala et al.,
    "Memorization Without Overfitting", NeurIPS 2022; 1 is a suffix that greedy decoding returns. The geometric mean of
    the tokens' probabilities, divided by twice the length, is added to break ties: it is smaller than the share of one
    token.
    """
    geometric_mean = np.exp(mean_loss(token_logprobs))
    share: Floats = (rank == 0).mean(axis=1) + geometric_mean / (2 * rank.shape[1])
    return share
