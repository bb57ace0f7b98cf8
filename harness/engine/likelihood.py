"""Scores of given suffixes under the model, from one teacher-forced pass.

Logits exist for a bounded number of positions at a time, never as one [rows, length, vocabulary] tensor.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from harness.core.arrays import Bools, Floats, Tokens
from harness.core.policy import PrefixView
from harness.engine.branches import Logits
from harness.engine.model_runner import ModelRunner
from harness.engine.results import Scores
from harness.engine.shaping import most_likely, row_blocks
from harness.engine.tree import OnStep, ignore_step, prefix_groups, split_range

Measure = Callable[[Logits, Tensor, Tensor], Tensor]
"""Maps the logits of n positions, the tokens [n] that follow and the tokens [n, any] before those to [figures, n]."""

NeedsMore = Callable[[Floats], Bools]
"""Maps the figures so far of some rows, [figures, rows, suffix tokens], to the rows whose other tokens are needed."""

_FIRST_STEP = 8
"""Suffix tokens that are measured before rows are left out."""
_WHOLE_PREFIX = PrefixView()


def score_suffixes(
    runner: ModelRunner,
    prefixes: Tokens,
    suffixes: Tokens,
    view: PrefixView,
    *,
    rows_at_once: int,
    on_step: OnStep = ignore_step,
) -> Scores:
    """Return the scores of suffixes [rows, length] after prefixes [rows, prefix length], at least one row of each."""
    # [3, rows, length + 1]: the first position predicts the last prefix token.
    token_logprobs, margin, rank = measure_suffixes(
        runner,
        prefixes,
        suffixes,
        lambda logits, targets, before: _block_scores(logits, targets),
        figures=3,
        view=view,
        rows_at_once=rows_at_once,
        on_step=on_step,
    )
    return Scores(
        token_logprobs=token_logprobs[:, 1:],
        margin=margin[:, 1:],
        rank=rank[:, 1:].astype(np.int64),
        last_prefix_logprob=token_logprobs[:, 0],
    )


def measure_suffixes(
    runner: ModelRunner,
    prefixes: Tokens,
    suffixes: Tokens,
    measure: Measure,
    *,
    figures: int,
    rows_at_once: int,
    view: PrefixView = _WHOLE_PREFIX,
    needs_more: NeedsMore | None = None,
    on_step: OnStep = ignore_step,
) -> Floats:
    """Return `measure` of each suffix token given all tokens before it, [figures, rows, length + 1].

    The first position is that of the last prefix token, NaN if no token is before it.
    measure: maps the logits of n positions, the n tokens that follow, and the tokens before those, [n, any], padded
    with tokens that also occur there, to [figures, n]. It may be called again for the same positions.
    needs_more: which rows are still of interest, asked after 8, 16, 32, … suffix tokens; the figures of the tokens that
    are then left out are 0.
    """
    parts = []
    on_step(0.0, f"{len(prefixes):,} sequences")
    for part in prefix_groups(runner, prefixes[:, view.start :], rows_at_once, further=suffixes.shape[1]):
        parts.append(_measure_part(runner, prefixes[part], suffixes[part], view, measure, figures, needs_more))
        on_step(part.stop / len(prefixes), f"sequence {part.stop:,} of {len(prefixes):,}")
    return np.concatenate(parts, axis=1)


def _measure_part(
    runner: ModelRunner,
    prefixes: Tokens,
    suffixes: Tokens,
    view: PrefixView,
    measure: Measure,
    figures: int,
    needs_more: NeedsMore | None,
) -> Floats:
    prefixes = prefixes[:, view.start :]
    rows, prefix_length = prefixes.shape
    length = suffixes.shape[1]
    whole = np.concatenate([prefixes.astype(np.int64), suffixes.astype(np.int64)], axis=1)
    tokens = torch.as_tensor(whole, device=runner.device)  # [rows, prefix length + length]
    fed = tokens.shape[1] - 1
    at_once = runner.positions_at_once(rows) or fed
    if at_once < fed and not runner.can_cache(at_once, fed - at_once, view.shift):
        # Whole sequences go through the model, and as few of them that their logits fit.
        max_rows = max(1, (runner.positions_at_once(1) or fed) // fed)
        if rows > max_rows:
            parts = [
                _measure_part(
                    runner, prefixes[few], suffixes[few], replace(view, start=0), measure, figures, needs_more
                )
                for few in split_range(rows, max_rows)
            ]
            return np.concatenate(parts, axis=1)
        at_once = fed
    cache = runner.new_cache() if at_once < fed else None
    result = np.zeros((figures, rows, length + 1))
    result[:, :, 0] = np.nan
    is_needed = np.ones(rows, bool)
    for start in range(0, fed, at_once):
        stop = min(start + at_once, fed)
        # Position i predicts token i + 1. The first prediction wanted is that of the last prefix token.
        kept = min(stop - start, max(0, stop - max(0, prefix_length - 2)))
        part, prompt = tokens[:, start:stop], None
        if start == 0:
            part, prompt = runner.view_tokens(part, view)
        states = runner.states(part, cache, keep=max(1, kept), shift=view.shift, prompt=prompt)  # [rows, kept, width]
        if not kept:
            continue
        column = stop - kept - (prefix_length - 2)
        for part_of_columns in _steps(column, column + kept, needs_more):
            alive = np.flatnonzero(is_needed)
            needed = states if len(alive) == rows else states[torch.as_tensor(alive, device=states.device)]
            needed = needed[:, part_of_columns.start - column : part_of_columns.stop - column]
            last = stop + 1 - (column + kept - part_of_columns.stop)
            targets = tokens[torch.as_tensor(alive, device=tokens.device), :last]
            result[:, alive, part_of_columns] = _apply_measure(runner, needed, targets, measure).cpu().numpy()
            if needs_more is not None:
                is_needed[alive] = needs_more(result[:, alive, 1 : part_of_columns.stop])
                if not is_needed.any():
                    return result
    return result


def _steps(first: int, stop: int, needs_more: NeedsMore | None) -> Iterator[slice]:
    """Yield the columns from `first` to `stop` in parts that end at 9, 17, 33, …; in one part if all are needed."""
    while first < stop:
        end = stop if needs_more is None else min(stop, 1 + max(_FIRST_STEP, 1 << first.bit_length()))
        yield slice(first, end)
        first = end


def _apply_measure(runner: ModelRunner, states: Tensor, tokens: Tensor, measure: Measure) -> Tensor:
    """Return `measure` after states [rows, n, width], [figures, rows, n]. The last n of tokens follow the states."""
    rows, positions = states.shape[:2]
    last = tokens.shape[1]
    targets = tokens[:, last - positions :].reshape(-1)
    states = states.reshape(rows * positions, -1)
    blocks = []
    for logits in runner.logit_blocks(states):
        index = torch.arange(logits.rows.start, logits.rows.stop, device=tokens.device)
        ends = (last - positions + index % positions).unsqueeze(1)  # [block, 1]: the position of the token that follows
        places = torch.arange(last, device=tokens.device).expand(len(index), -1)
        before = tokens[index // positions].gather(1, torch.where(places < ends, places, 0))  # [block, last]
        blocks.append(measure(logits, targets[logits.rows], before))
    return torch.cat(blocks, dim=1).view(-1, rows, positions)


def _block_scores(logits: Logits, targets: Tensor) -> Tensor:
    """Return log-probability, margin and rank of targets [n] under the logits of n positions, [3, n].

    The log-probability is NaN if a logit is NaN or infinite.
    """
    scores = logits.scores  # [n, vocabulary]
    of_target = scores.gather(1, targets.unsqueeze(1))  # [n, 1]
    best, _ = most_likely(scores, 2)  # [n, 2]
    rank = _count(torch.gt, scores, of_target)
    if bool((_count(torch.eq, scores, of_target) > 1).any()):
        ids = torch.arange(scores.shape[1], device=scores.device)
        rank += ((scores == of_target) & (ids < targets.unsqueeze(1))).sum(1)
    logprob = of_target.squeeze(1) - logits.total
    return torch.stack([logprob.masked_fill(logits.total.isinf(), torch.nan), best[:, 0] - best[:, 1], rank])


def _count(compare: Callable[..., Tensor], scores: Tensor, of_target: Tensor) -> Tensor:
    """Return in how many columns scores [n, vocabulary] compare with those of the targets [n, 1], [n] float32."""
    # A table of numbers is summed several times faster than one of truth values.
    return torch.cat(
        [
            compare(part, target, out=torch.empty_like(part)).sum(1)
            for part, target in zip(row_blocks(scores), row_blocks(of_target), strict=True)
        ]
    )
