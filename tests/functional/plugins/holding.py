"""An attack whose target is never loaded. Its run holds a device and needs no seconds to start."""

import time
from collections.abc import Iterator
from pathlib import Path

from harness import Attack, Context, Field, Guesses, Params


class HoldingParams(Params):
    gate: Path = Field(description="Directory: the attack waits until it contains a file.")


class Holding(Attack[HoldingParams]):
    name = "holding"

    def run(self, context: Context) -> Iterator[Guesses]:
        while not any(self.params.gate.iterdir()):
            time.sleep(0.05)
        for batch in context.batches():
            yield Guesses(batch.ids, batch.prefixes[:, : context.suffix_length], batch.ids)
