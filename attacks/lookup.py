"""A control without a model, which composes suffixes from windows of the training rows.

The challenge's splits overlap, so that some answers occur word for word in the training rows. This control measures
that contamination and not memorization, and therefore may not be submitted.
"""

from collections.abc import Iterator

import numpy as np

from harness import Attack, Context, Guesses, Params, stitched


class Lookup(Attack[Params]):
    name = "lookup"
    reference = "A control of this project, described in harness/core/windows.py"
    control = True
    uses_target = False

    def run(self, context: Context) -> Iterator[Guesses]:
        train = context.train
        parts = [part for part in (train.preprefixes, train.prefixes, train.suffixes) if part is not None]
        rows = np.concatenate(parts, axis=1)  # [training rows, tokens]
        for batch in context.batches():
            walk = stitched(batch.prefixes, rows, context.suffix_length)
            # Tokens that no row supplies are zeros. The more tokens the rows supply, the higher the score.
            yield Guesses(batch.ids, walk.suffixes, score=walk.copied)
