"""An attack whose loops over batches are unusual."""

from collections.abc import Iterator

import numpy as np

from harness import Attack, Context, Field, Guesses, Params


class LoopingParams(Params):
    action: str = Field(description="Method to call.")


class Looping(Attack[LoopingParams]):
    name = "looping"
    uses_target = False

    def run(self, context: Context) -> Iterator[Guesses]:
        yield from getattr(self, f"_{self.params.action}")(context)

    def _nested(self, context: Context) -> Iterator[Guesses]:
        """Begin a loop inside a batch of another one."""
        for _ in context.batches(stage="outer"):
            for batch in context.batches(stage="inner"):
                yield guesses(context, batch.ids)

    def _leaving(self, context: Context) -> Iterator[Guesses]:
        """Leave a loop before its end."""
        for batch in context.batches(stage="left", size=8):
            yield guesses(context, batch.ids)
            break
        for batch in context.batches(stage="whole", size=8):
            yield guesses(context, batch.ids)

    def _training(self, context: Context) -> Iterator[Guesses]:
        """Train a sum that depends on the order of the batches, and guess with it."""
        total = np.zeros(1)
        for batch in context.batches(stage="train", over=context.train, size=8):
            total = (total * 3 + batch.prefixes.sum()) % 1009
            context.keep("total", total)
        kept = context.kept("total")
        assert kept is not None
        for batch in context.batches(size=8):
            yield guesses(context, batch.ids, int(kept[0]))
        # Every worker gets the guesses of all.
        if len(context.guesses()) == len(context.ids):
            yield guesses(context, context.ids[:5], int(kept[0]) + 1)


def guesses(context: Context, ids: np.ndarray, seed: int = 0) -> Guesses:
    """Return one suffix per id, a pure function of id and seed."""
    rows = [
        np.random.default_rng([int(id_), seed]).integers(0, context.vocabulary, context.suffix_length) for id_ in ids
    ]
    return Guesses(ids, np.array(rows), ids + seed)
