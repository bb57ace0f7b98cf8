"""Greedy decoding of the target in small batches, with recorded acknowledgements."""

import runpy
from collections.abc import Iterator
from pathlib import Path

from harness import Attack, Context, Field, Guesses, Params, Policy


class SteadyGreedyParams(Params):
    recorder: Path = Field(description="File with `record_acknowledgements`. The sandbox hides the other tests.")


class SteadyGreedy(Attack[SteadyGreedyParams]):
    name = "steady_greedy"

    def run(self, context: Context) -> Iterator[Guesses]:
        runpy.run_path(str(self.params.recorder))["record_acknowledgements"]()
        for batch in context.batches(size=16):
            drawn = context.target.sample(batch.prefixes, Policy(top_k=1), trials=1, seed=batch.seed)
            yield Guesses(batch.ids[drawn.row], drawn.suffixes, score=drawn.token_logprobs.mean(axis=1))
