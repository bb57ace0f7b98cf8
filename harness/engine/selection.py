"""The highest scores of long rows, and the logarithm of a row's sum of exponentials.

A vocabulary has tens of thousands of columns and a policy keeps ten: looking at the maximum of each block of columns
first, and then into the few blocks that can hold a winner, reads a row once, where a selection over the whole row
reads it several times.
"""

import torch
from torch import Tensor

_BLOCK = 96
"""Columns of a block; a vocabulary of 50,257 then has 524 of them."""
_ROWS = 16
"""Rows whose exponentials are held at once on a CPU: what its caches hold."""


def most_likely(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` highest scores of each row [rows, vocabulary] and their ids, both [rows, count], ties by id."""
    if count >= scores.shape[1]:
        return _sorted(scores)
    values, ids = highest(scores, count + 1)
    # Both selections choose freely among equals, which matters where they stand on both sides of the cut.
    cut_in_tie = (values[:, count - 1] == values[:, count]).nonzero().squeeze(1)
    values, ids = ordered(values[:, :count], ids[:, :count])
    if len(cut_in_tie):
        values[cut_in_tie], ids[cut_in_tie] = _lowest_of_equals(scores[cut_in_tie], count)
    return values, ids


def ordered(values: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
    """The columns of each row by value, descending, then by id; both [rows, k]."""
    ids, order = ids.sort(dim=1)
    values, order = values.gather(1, order).sort(dim=1, descending=True, stable=True)
    return values, ids.gather(1, order)


def logsumexp(scores: Tensor) -> Tensor:
    """log sum exp of each row of [rows, columns], [rows]."""
    if scores.device.type != "cpu":
        return torch.logsumexp(scores, dim=1)
    return torch.cat([torch.logsumexp(part, dim=1) for part in torch.split(scores, _ROWS)])


def highest(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` highest scores of each row in descending order, and their ids; free among equals."""
    # With more winners than that, most blocks hold one.
    if 4 * count > scores.shape[1] // _BLOCK:
        found = scores.topk(count, dim=1)
        return found.values, found.indices
    # As many blocks as winners at most hold one, those of the highest maxima.
    inside, ids, _ = _inside_best_blocks(scores, count)
    found = inside.topk(count, dim=1)
    return found.values, ids.gather(1, found.indices)


def _lowest_of_equals(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """As `most_likely`: what is equal to the last of the `count` is taken by id, wherever it stands."""
    if 12 * count > scores.shape[1] // _BLOCK:
        values, ids = _sorted(scores)
        return values[:, :count], ids[:, :count]
    inside, ids, best_outside = _inside_best_blocks(scores, 3 * count)
    found = inside.sort(dim=1, descending=True, stable=True)
    values, ids = found.values[:, :count], ids.gather(1, found.indices[:, :count])
    # Seldom: equals in so many blocks that some were left out.
    spread = (best_outside >= values[:, -1]).nonzero().squeeze(1)
    if len(spread):
        all_values, all_ids = _sorted(scores[spread])
        values[spread], ids[spread] = all_values[:, :count], all_ids[:, :count]
    return values, ids


def _inside_best_blocks(scores: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Scores and ids in the `count` blocks of the highest maxima, by id, and the maximum of the others.

    Returns [rows, candidates] twice and [rows]. The last columns, too few for a block, are always among them.
    """
    rows, vocabulary = scores.shape
    blocks = vocabulary // _BLOCK
    whole = torch.unflatten(scores[:, : blocks * _BLOCK], 1, (blocks, _BLOCK))  # [rows, blocks, block]
    best = whole.amax(2).topk(count + 1, dim=1)
    chosen = best.indices[:, :count].sort(dim=1).values.unsqueeze(2)  # [rows, count, 1]
    inside = whole.gather(1, chosen.expand(rows, count, _BLOCK)).flatten(1)  # [rows, count * block]
    ids = (chosen * _BLOCK + torch.arange(_BLOCK, device=scores.device)).flatten(1)
    rest = torch.arange(blocks * _BLOCK, vocabulary, device=scores.device).expand(rows, -1)
    return torch.cat([inside, scores[:, blocks * _BLOCK :]], 1), torch.cat([ids, rest], 1), best.values[:, -1]


def _sorted(scores: Tensor) -> tuple[Tensor, Tensor]:
    """All scores of each row in descending order, and their ids, ties by id."""
    found = scores.sort(dim=1, descending=True, stable=True)
    return found.values, found.indices
