"""Scores of membership. A larger score speaks for membership."""

import zlib
from enum import StrEnum

import numpy as np

from harness.core.arrays import Floats

_MIN_DIVISOR = 1e-12
"""The smallest deviation and loss by which something is divided."""


class Score(StrEnum):
    """The scores, in the order in which they are reported."""

    LOSS = "loss"
    ZLIB = "zlib"
    MIN_K = "min_k"
    MIN_K_PLUS = "min_k_plus"
    REFERENCE = "reference"
    RECALL = "recall"
    WORDS = "bag_of_words"


LABELS = {
    Score.LOSS: "loss",
    Score.ZLIB: "zlib ratio",
    Score.MIN_K: "Min-K %",
    Score.MIN_K_PLUS: "Min-K %++",
    Score.REFERENCE: "reference ratio",
    Score.RECALL: "ReCaLL",
    Score.WORDS: "bag of words (no model)",
}
MODEL_SCORES = tuple(score for score in Score if score is not Score.WORDS)


def scores_of(statistics: Floats, after: Floats | None, text: str, k: float) -> dict[Score, float]:
    """Return the scores of a document under the target alone.

    statistics: [3, tokens], the log-probability of each token in nats, and the mean and the standard deviation of that
    of a token drawn from the model.
    after: the same after non-members, None without ReCaLL.
    k: the share of the least likely tokens in Min-K % and Min-K %++.
    """
    logprobs, means, deviations = statistics
    loss = float(logprobs.mean())
    scores = {
        Score.LOSS: loss,  # Yeom et al. 2018
        Score.ZLIB: loss / len(zlib.compress(text.encode("utf-8", "replace"))),  # Carlini et al. 2021
        Score.MIN_K: min_k_score(logprobs, k),
        # Zhang et al. 2025
        Score.MIN_K_PLUS: min_k_score((logprobs - means) / np.maximum(deviations, _MIN_DIVISOR), k),
    }
    if after is not None:
        scores[Score.RECALL] = float(after[0].mean() / min(-_MIN_DIVISOR, loss))  # Xie et al. 2024
    return scores


def min_k_score(logprobs: Floats, k: float) -> float:
    """Return the mean log-probability of the share `k` of the tokens that are least likely (Shi et al. 2024)."""
    return float(np.sort(logprobs)[: max(1, int(len(logprobs) * k))].mean())


def reference_ratio(losses: Floats, of_reference: Floats) -> Floats:
    """Return the ratio of the losses under the target and under the reference model, [documents] (Carlini et al. 2021).

    losses, of_reference: mean log-probabilities, [documents].
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(-losses / np.minimum(of_reference, -_MIN_DIVISOR))
