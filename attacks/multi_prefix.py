"""Candidates from several prefixes of one example: the whole prefix, and shorter parts that end where it ends.

Many sequences are easier to extract from a shorter prefix. The attack searches candidates after each of the `lengths`,
pools them, and ranks them by their likelihood after the whole prefix. The paper measures this effect and proposes no
attack; lengths and width are choices of this file.
"""

from collections.abc import Iterator

import numpy as np

from harness import Attack, Context, Field, Guesses, Params, PrefixView, Ranker, Tokens


class MultiPrefixParams(Params):
    lengths: str = Field(
        "50 40 30 20",
        pattern=r"^\d{1,4}([ ,]+\d{1,4})*$",
        description="Lengths of the prefixes, counted from the end; at most the round's length.",
    )
    width: int = Field(4, ge=1, le=1024, description="Beam width of the search after each prefix.")
    ranker: Ranker = "mean_loss"


class MultiPrefix(Attack[MultiPrefixParams]):
    name = "multi_prefix"
    reference = "Tiwari & Suh, Sequence-Level Leakage Risk of Training Data in Large Language Models, 2024"

    def run(self, context: Context) -> Iterator[Guesses]:
        views = views_of(self.params.lengths, context.prefixes.shape[1])
        for batch in context.batches():
            row, suffixes = pool([self._search(context, batch.prefixes, view) for view in views])
            score = context.rank(batch.prefixes[row], suffixes, self.params.ranker)
            yield Guesses(batch.ids[row], suffixes, score)

    def _search(self, context: Context, prefixes: Tokens, view: PrefixView) -> tuple[Tokens, Tokens]:
        likely = context.target.viewed([view]).search(prefixes, self.params.width)
        return likely.row, likely.suffixes


def views_of(lengths: str, prefix_length: int) -> list[PrefixView]:
    """Return a view for each distinct length, at least two tokens, the longest first."""
    kept_lengths = {max(2, min(int(length), prefix_length)) for length in lengths.replace(",", " ").split()}
    return [PrefixView(start=prefix_length - length) for length in sorted(kept_lengths, reverse=True)]


def pool(parts: list[tuple[Tokens, Tokens]]) -> tuple[Tokens, Tokens]:
    """Return the distinct (row, suffix) of all parts: rows [candidates] and suffixes [candidates, length], by row."""
    owned = np.concatenate([np.column_stack([row, suffixes]).astype(np.int64) for row, suffixes in parts])
    owned = np.unique(owned, axis=0)
    return owned[:, 0], owned[:, 1:]
