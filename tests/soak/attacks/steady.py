"""An attack with deterministic draws in many short batches and two stages, which can be killed at any moment."""

import runpy
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from harness import Attack, Context, Field, Guesses, Params


class SteadyParams(Params):
    recorder: Path = Field(description="File with `record_acknowledgements`. The sandbox hides the other tests.")
    pause: float = Field(0.03, ge=0, description="Seconds per batch.")
    trials: int = Field(15, ge=1, description="Draws per example.")


class Steady(Attack[SteadyParams]):
    name = "steady"
    uses_target = False
    guesses_per_example = 2

    def run(self, context: Context) -> Iterator[Guesses]:
        runpy.run_path(str(self.params.recorder))["record_acknowledgements"]()
        for batch in context.batches(trials=self.params.trials, size=8):
            for trial in range(batch.trials):
                time.sleep(self.params.pause / batch.trials)
                yield _draw(context, batch.ids, batch.seed + trial)
        if context.kept("offset") is None:
            context.keep("offset", np.arange(len(context.ids)) % 5)
        offset = context.kept("offset")
        assert offset is not None
        for batch in context.batches(stage="rank", size=8):
            time.sleep(self.params.pause)
            first = _draw(context, batch.ids, batch.seed)
            yield Guesses(batch.ids, first.suffixes, first.score + offset[batch.ids])


def _draw(context: Context, ids: np.ndarray, seed: int) -> Guesses:
    """Return one suffix per id, a pure function of id and seed. Some scores are equal."""
    draws = [np.random.default_rng([int(id_), seed]) for id_ in ids]
    suffixes = np.array([draw.integers(0, context.vocabulary, context.suffix_length) for draw in draws])
    return Guesses(ids, suffixes, np.array([draw.integers(0, 9) for draw in draws]) / 7)
