"""An attack that sleeps, so that no core limits how many runs go on at once."""

import time
from collections.abc import Iterator

from harness import Attack, Context, Field, Guesses, Params


class SleepingParams(Params):
    seconds: float = Field(30.0, ge=0, description="Duration of all batches together.")


class Sleeping(Attack[SleepingParams]):
    name = "sleeping"
    uses_target = False

    def run(self, context: Context) -> Iterator[Guesses]:
        size = max(1, len(context.ids) // 8)
        for batch in context.batches(size=size):
            time.sleep(self.params.seconds * len(batch.ids) / len(context.ids))
            yield Guesses(batch.ids, batch.prefixes[:, : context.suffix_length], batch.ids)
