"""Given suffixes under the model: one teacher-forced pass, and everything that a ranker asks of it.

Logits exist for a bounded number of positions at a time, never for [rows, length] whole.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from harness.core.arrays import Floats, Tokens
from harness.core.view import PrefixView
from harness.engine.branches import Logits
from harness.engine.decoding import prefix_groups
from harness.engine.drawn import Scored
from harness.engine.selection import most_likely
from harness.engine.trunk import Trunk

Measure = Callable[[Logits, Tensor, Tensor], Tensor]
"""From the logits of n positions, the tokens [n] that follow them and those [n, any] that stand before, to figures."""

_AS_IN_TRAINING = PrefixView()


def scored(trunk: Trunk, prefixes: Tokens, suffixes: Tokens, view: PrefixView, *, rows_at_once: int) -> Scored:
    """The scores of suffixes [rows, length] after prefixes [rows, prefix length], at least one row of each."""
    # [4, rows, length + 1]: the first position predicts the last prefix token.
    token_logprobs, margin, rank, entropy = teacher_forced(
        trunk,
        prefixes,
        suffixes,
        lambda logits, targets, before: _block_scores(logits, targets),
        figures=4,
        view=view,
        rows_at_once=rows_at_once,
    )
    return Scored(
        token_logprobs=token_logprobs[:, 1:],
        margin=margin[:, 1:],
        rank=rank[:, 1:].astype(np.int64),
        entropy=entropy[:, 1:],
        last_prefix_logprob=token_logprobs[:, 0],
    )


def teacher_forced(
    trunk: Trunk,
    prefixes: Tokens,
    suffixes: Tokens,
    measure: Measure,
    *,
    figures: int,
    rows_at_once: int,
    view: PrefixView = _AS_IN_TRAINING,
) -> Floats:
    """What `measure` says of each suffix token given all before it, [figures, rows, length + 1].

    The first position is that of the last prefix token; NaN where nothing stands before it. measure: from the logits
    of n positions, the n tokens that follow them and the tokens that stand before those, [n, any], padded with tokens
    that stand there too, to [figures, n]. It may be called again for the same positions.
    """
    parts = [
        _measured_part(trunk, prefixes[part], suffixes[part], view, measure, figures)
        for part in prefix_groups(trunk, len(prefixes), prefixes.shape[1] + suffixes.shape[1], rows_at_once)
    ]
    return np.concatenate(parts, axis=1)


def _measured_part(
    trunk: Trunk, prefixes: Tokens, suffixes: Tokens, view: PrefixView, measure: Measure, figures: int
) -> Floats:
    prefixes = prefixes[:, view.start :]
    rows, prefix_length = prefixes.shape
    length = suffixes.shape[1]
    whole = np.concatenate([prefixes.astype(np.int64), suffixes.astype(np.int64)], axis=1)
    tokens = torch.as_tensor(whole, device=trunk.device)  # [rows, prefix length + length]
    fed = tokens.shape[1] - 1
    at_once = trunk.positions_at_once(rows) or fed
    cache = trunk.fresh_cache() if at_once < fed else None
    result = np.full((figures, rows, length + 1), np.nan)
    for start in range(0, fed, at_once):
        stop = min(start + at_once, fed)
        # Position i predicts token i + 1; the first one wanted is the prefix's last.
        wanted = min(stop - start, max(0, stop - max(0, prefix_length - 2)))
        prompt = trunk.prompt(view) if start == 0 else None
        states = trunk.states(
            tokens[:, start:stop], cache, keep=max(1, wanted), shift=view.shift, prompt=prompt
        )  # [rows, wanted, width]
        if not wanted:
            continue
        measured = _measured(trunk, states, tokens[:, : stop + 1], measure)  # [figures, rows, wanted]
        column = stop - wanted - (prefix_length - 2)
        result[:, :, column : column + wanted] = measured.cpu().numpy()
    return result


def _measured(trunk: Trunk, states: Tensor, tokens: Tensor, measure: Measure) -> Tensor:
    """`measure` after states [rows, n, width], which the last n of tokens [rows, any] follow; [figures, rows, n]."""
    rows, positions = states.shape[:2]
    last = tokens.shape[1]
    targets = tokens[:, last - positions :].reshape(-1)
    states = states.reshape(rows * positions, -1)
    blocks = []
    for logits in trunk.logit_blocks(states):
        index = torch.arange(logits.rows.start, logits.rows.stop, device=tokens.device)
        ends = (last - positions + index % positions).unsqueeze(1)  # [block, 1]: where the token that follows stands
        places = torch.arange(last, device=tokens.device).expand(len(index), -1)
        before = tokens[index // positions].gather(1, torch.where(places < ends, places, 0))  # [block, last]
        blocks.append(measure(logits, targets[logits.rows], before))
    return torch.cat(blocks, dim=1).view(-1, rows, positions)


def _block_scores(logits: Logits, targets: Tensor) -> Tensor:
    """The four scores of targets [n] under the logits of n positions, [4, n]."""
    scores = logits.scores  # [n, vocabulary]
    of_target = scores.gather(1, targets.unsqueeze(1))  # [n, 1]
    best, _ = most_likely(scores, 2)  # [n, 2]
    masses = (scores - logits.total.unsqueeze(1)).exp_()  # [n, vocabulary]
    entropy = logits.total - torch.linalg.vecdot(masses, scores)
    if bool(entropy.isnan().any()):
        # An impossible token has logit -inf and adds nothing, where 0 * inf gives NaN.
        entropy = logits.total - torch.linalg.vecdot(masses, scores.nan_to_num(nan=torch.nan))
    rank = (scores > of_target).sum(1)
    equals = scores == of_target
    if bool((equals.sum(1) > 1).any()):
        ids = torch.arange(scores.shape[1], device=scores.device)
        rank += (equals & (ids < targets.unsqueeze(1))).sum(1)
    return torch.stack([of_target.squeeze(1) - logits.total, best[:, 0] - best[:, 1], rank.float(), entropy])
