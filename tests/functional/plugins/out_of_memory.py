"""Greedy decoding that runs out of memory in the second batch."""

import time
from collections.abc import Iterator
from typing import Any

import torch

from harness import Attack, Context, Field, Guesses, Params, Policy
from harness.engine import model_runner


class OutOfMemoryParams(Params):
    rows: int = Field(0, ge=0, description="Sequences that fit into memory from the second batch on.")
    pause: float = Field(0, ge=0, description="Seconds before each batch.")


class OutOfMemory(Attack[OutOfMemoryParams]):
    name = "out_of_memory"

    def run(self, context: Context) -> Iterator[Guesses]:
        forward_pass = model_runner.forward_pass

        def limited_pass(call: Any, rows: torch.Tensor, *rest: Any, **inputs: Any) -> Any:
            if len(rows) > self.params.rows:
                raise torch.OutOfMemoryError("CUDA out of memory.")
            return forward_pass(call, rows, *rest, **inputs)

        for batch in context.batches(size=16):
            time.sleep(self.params.pause)
            if batch.ids[0] > 0:
                model_runner.forward_pass = limited_pass
            drawn = context.target.sample(batch.prefixes, Policy(top_k=1), seed=batch.seed)
            yield Guesses(batch.ids, drawn.suffixes, drawn.token_logprobs.mean(axis=1))
