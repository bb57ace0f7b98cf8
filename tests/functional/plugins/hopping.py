"""A process that never stays: each child forks the next one, in a new session, and ends."""

import os
import time
from collections.abc import Iterator

from harness import Attack, Context, Guesses, Params


class Hopping(Attack[Params]):
    name = "hopping"
    uses_target = False

    def run(self, context: Context) -> Iterator[Guesses]:
        yield Guesses(context.ids[:1], context.prefixes[:1, : context.suffix_length], [1.0])
        if os.fork() == 0:
            while True:
                os.setsid()
                if os.fork():
                    os._exit(0)
        time.sleep(600)
