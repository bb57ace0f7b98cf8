"""An attack that runs for minutes, with batches of a tenth of a second."""

import time
from collections.abc import Iterator

from harness import Attack, Context, Guesses, Params


class Patient(Attack[Params]):
    name = "patient"
    uses_target = False

    def run(self, context: Context) -> Iterator[Guesses]:
        for batch in context.batches(trials=1000, size=1):
            time.sleep(0.1)
            yield Guesses(batch.ids, batch.prefixes[:, : context.suffix_length], batch.ids)
