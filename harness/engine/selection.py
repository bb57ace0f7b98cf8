"""The highest scores of long rows, and log sum exp of a row.

A vocabulary has tens of thousands of columns and a policy keeps about ten. Taking the maximum of each block of columns
first, and then looking into the few blocks that can contain a result, reads a row once. A selection over the whole row
reads it several times.
"""

import torch
from torch import Tensor

_BLOCK = 96
"""Columns of a block. A vocabulary of 50,257 tokens has 524 blocks."""
_ROWS = 16
"""Rows of exponentials that fit into the caches of a CPU at once."""


def most_likely(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the `count` highest of scores [rows, vocabulary] and their ids, ties by id; both [rows, count]."""
    if count >= scores.shape[1]:
        return _sorted(scores)
    values, ids = top_scores(scores, count + 1)
    # Both selections order equal scores arbitrarily, which matters if equal scores are on both sides of the cut.
    cut_in_tie = (values[:, count - 1] == values[:, count]).nonzero().squeeze(1)
    values, ids = sort_by_score(values[:, :count], ids[:, :count])
    if len(cut_in_tie):
        values[cut_in_tie], ids[cut_in_tie] = _lowest_of_equals(scores[cut_in_tie], count)
    return values, ids


def sort_by_score(values: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
    """Sort the columns of each row by descending value, then by id; both [rows, k]."""
    ids, order = ids.sort(dim=1)
    values, order = values.gather(1, order).sort(dim=1, descending=True, stable=True)
    return values, ids.gather(1, order)


def logsumexp(scores: Tensor) -> Tensor:
    """Return log sum exp of each row of [rows, columns], [rows]."""
    if scores.device.type != "cpu":
        return torch.logsumexp(scores, dim=1)
    return torch.cat([torch.logsumexp(part, dim=1) for part in torch.split(scores, _ROWS)])


def top_scores(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the `count` highest scores of each row, descending, and their ids, in any order among equal scores."""
    # With more winners than that, most blocks hold one.
    if 4 * count > scores.shape[1] // _BLOCK:
        found = scores.topk(count, dim=1)
        return found.values, found.indices
    # As many blocks as winners at most hold one, those of the highest maxima.
    inside, ids, _ = _inside_best_blocks(scores, count)
    found = inside.topk(count, dim=1)
    return found.values, ids.gather(1, found.indices)


def _lowest_of_equals(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the result of `most_likely` for rows in which equal scores are on both sides of the cut."""
    if 12 * count > scores.shape[1] // _BLOCK:
        values, ids = _sorted(scores)
        return values[:, :count], ids[:, :count]
    inside, ids, best_outside = _inside_best_blocks(scores, 3 * count)
    found = inside.sort(dim=1, descending=True, stable=True)
    values, ids = found.values[:, :count], ids.gather(1, found.indices[:, :count])
    # Rare case: equal scores in so many blocks that some blocks were left out.
    spread = (best_outside >= values[:, -1]).nonzero().squeeze(1)
    if len(spread):
        all_values, all_ids = _sorted(scores[spread])
        values[spread], ids[spread] = all_values[:, :count], all_ids[:, :count]
    return values, ids


def _inside_best_blocks(scores: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return scores and ids in the `count` blocks of the highest maxima, by id, and the maximum of the other blocks.

    Returns [rows, candidates] twice and [rows]. The last columns, which do not fill a block, are always included.
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
    """Return all scores of each row in descending order, and their ids, ties by id."""
    found = scores.sort(dim=1, descending=True, stable=True)
    return found.values, found.indices
