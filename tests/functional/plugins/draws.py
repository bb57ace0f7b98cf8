"""An attack with deterministic draws in two stages, slow enough to be killed in each."""

import runpy
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from harness import Attack, Context, Field, Guesses, Params


class DrawsParams(Params):
    pause: float = Field(0.05, ge=0, description="Seconds per batch.")
    trials: int = Field(3, ge=1, description="Draws per example.")
    file: Path | None = Field(None, description="Any file or directory.")
    recorder: Path | None = Field(None, description="File with `record_acknowledgements`, which is called first.")
    gate: Path | None = Field(
        None, description="Directory: the attack waits after its first batch until it contains a file."
    )


class Draws(Attack[DrawsParams]):
    name = "draws"
    uses_target = False
    guesses_per_example = 2

    def run(self, context: Context) -> Iterator[Guesses]:
        if self.params.recorder is not None:
            runpy.run_path(str(self.params.recorder))["record_acknowledgements"]()
        for batch in context.batches(trials=self.params.trials, size=8):
            for trial in range(batch.trials):
                time.sleep(self.params.pause / batch.trials)
                yield draw(context, batch.ids, batch.seed + trial)
            while self.params.gate is not None and not any(self.params.gate.iterdir()):
                time.sleep(0.05)
        if context.kept("offset") is None:
            context.keep("offset", np.arange(len(context.ids)) % 5)
        offset = context.kept("offset")
        assert offset is not None
        yield draw(context, context.ids[:3], 1)
        for batch in context.batches(stage="rank", size=8):
            time.sleep(self.params.pause)
            first = draw(context, batch.ids, batch.seed)
            yield Guesses(batch.ids, first.suffixes, first.score + offset[batch.ids])


def draw(context: Context, ids: np.ndarray, seed: int) -> Guesses:
    """Return one suffix per id, a pure function of id and seed. Some scores are equal."""
    rows = [
        np.random.default_rng([int(id_), seed]).integers(0, context.vocabulary, context.suffix_length) for id_ in ids
    ]
    score = [np.random.default_rng([int(id_), seed, 1]).integers(0, 9) for id_ in ids]
    return Guesses(ids, np.array(rows), np.array(score) / 7)
