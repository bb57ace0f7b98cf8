"""An attack that lasts minutes, and whose child process forks the next one in a new session and exits, forever."""

import os
import time
from collections.abc import Iterator

from harness import Attack, Context, Guesses, Params


class Reforking(Attack[Params]):
    name = "reforking"
    uses_target = False

    def run(self, context: Context) -> Iterator[Guesses]:
        if os.fork() == 0:
            while True:
                os.setsid()
                if os.fork():
                    os._exit(0)
        # Ends soon after it is asked to, because the chain uses a whole core.
        for batch in context.batches(trials=1000, size=1):
            time.sleep(0.1)
            yield Guesses(batch.ids, batch.prefixes[:, : context.suffix_length], batch.ids)
