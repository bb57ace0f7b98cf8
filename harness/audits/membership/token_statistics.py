"""Statistics of each token of a text under the model, from one teacher-forced pass.

This module loads torch, so the audit imports it only where a model is measured.
"""

import numpy as np
import torch
from torch import Tensor

from harness.core.arrays import Floats, Ints, Tokens
from harness.engine.branches import Logits
from harness.engine.likelihood import measure_suffixes
from harness.engine.memory import non_finite_error
from harness.engine.shaping import row_blocks
from harness.engine.target import Target


def token_statistics(target: Target, prefixes: Tokens, texts: Tokens) -> Floats:
    """Return statistics of texts [n, length] after prefixes [n, any], [3, n, length].

    They are the log-probability of each token, and the mean and the standard deviation of the log-probability of a
    token that is drawn from the model's distribution there, all in nats. Raises HarnessError as `Target.score` does.
    """
    target.check_pairs(prefixes, texts)
    found = target.run_within_memory(
        lambda rows_at_once: measure_suffixes(
            target.runner,
            prefixes,
            texts,
            lambda logits, targets, before: _statistics(logits, targets),
            figures=3,
            rows_at_once=rows_at_once,
            on_step=target.report_step,
        )
    )[:, :, 1:]
    if np.isnan(found).any():
        raise non_finite_error("the target returned NaN", target.dtype)
    return found


def padded(texts: list[Ints]) -> tuple[Ints, Ints]:
    """Return the texts as rows of equal length [n, longest], filled with token 0, and their lengths [n].

    A model that reads from left to right is not influenced by what follows.
    """
    lengths = np.array([len(text) for text in texts], np.int64)
    rows = np.zeros((len(texts), int(lengths.max(initial=0))), np.int64)
    for row, text in zip(rows, texts, strict=True):
        row[: len(text)] = text
    return rows, lengths


def _statistics(logits: Logits, targets: Tensor) -> Tensor:
    """Return the statistics of targets [n] under the logits of n positions, [3, n]."""
    scores = logits.scores  # [n, vocabulary]
    total = logits.total  # [n]
    means, deviations = [], []
    for part, part_total in zip(row_blocks(scores), row_blocks(total.unsqueeze(1)), strict=True):
        logprobs = part - part_total
        masses = logprobs.exp()
        # The log-probability of an impossible token is -inf and contributes nothing, but 0 * inf is NaN.
        logprobs = torch.where(logprobs.isneginf(), 0, logprobs)
        mean = torch.linalg.vecdot(masses, logprobs)
        means.append(mean)
        deviations.append(torch.linalg.vecdot(masses, (logprobs - mean.unsqueeze(1)) ** 2).clamp(min=0).sqrt())
    of_target = scores.gather(1, targets.unsqueeze(1)).squeeze(1) - total
    return torch.stack([of_target, torch.cat(means), torch.cat(deviations)])
