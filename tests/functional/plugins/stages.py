"""An attack with two stages: it keeps a result from the training examples, then orders its guesses itself."""

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from harness import Attack, Context, Field, Guesses, Params


class StagesParams(Params):
    pause: float = Field(0.0, ge=0, description="Seconds per batch.")
    gate: Path | None = Field(
        None, description="Directory: the attack waits in its second batch until it contains a file."
    )
    announces: bool = Field(True, description="Announce the stages.")


class Stages(Attack[StagesParams]):
    name = "stages"
    uses_target = False

    def run(self, context: Context) -> Iterator[Guesses]:
        if self.params.announces:
            context.announce("train", over=context.train)
            context.announce("guess", weight=3)
        for batch in context.batches(stage="train", over=context.train, size=16):
            time.sleep(self.params.pause)
            while batch.ids[0] == 16 and self.params.gate is not None and not any(self.params.gate.iterdir()):
                time.sleep(0.05)
            total = context.kept("total")
            seen = 0 if total is None else int(total)
            # One name per batch, so that a repeated batch is not counted twice.
            context.keep(f"part-{batch.ids[0]}", context.train.suffixes[batch.ids].astype(np.int64).sum())
            context.keep("total", max(seen, int(batch.ids[0])))
        parts = [context.kept(f"part-{first}") for first in range(0, len(context.train), 16)]
        shift = sum(int(part) for part in parts if part is not None)
        for batch in context.batches(size=16):
            time.sleep(self.params.pause)
            suffixes = (batch.prefixes.astype(np.int64) + shift) % context.vocabulary
            yield Guesses(batch.ids, suffixes, score=batch.ids.astype(float))
        best_first = context.guesses()
        worst_first = np.arange(len(best_first))[::-1]
        context.finish(order=best_first.part(worst_first))
