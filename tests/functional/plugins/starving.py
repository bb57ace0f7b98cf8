"""Greedy decoding on a machine whose memory runs out in the second batch, at the engine's allocation boundary."""

from collections.abc import Iterator
from typing import Any

import torch

from harness import Attack, Context, Field, Guesses, Params, Policy
from harness.engine import model_runner


class StarvingParams(Params):
    rows: int = Field(0, ge=0, description="Sequences that there is memory for from the second batch on.")


class Starving(Attack[StarvingParams]):
    name = "starving"

    def run(self, context: Context) -> Iterator[Guesses]:
        whole_pass = model_runner.forward_pass

        def scarce(call: Any, rows: torch.Tensor, *rest: Any, **inputs: Any) -> Any:
            if len(rows) > self.params.rows:
                raise torch.OutOfMemoryError("CUDA out of memory.")
            return whole_pass(call, rows, *rest, **inputs)

        for batch in context.batches(size=16):
            if batch.ids[0] > 0:
                model_runner.forward_pass = scarce
            drawn = context.target.sample(batch.prefixes, Policy(top_k=1), seed=batch.seed)
            yield Guesses(batch.ids, drawn.suffixes, drawn.token_logprobs.mean(axis=1))
