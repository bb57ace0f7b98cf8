"""An attack whose child processes fork the next one in a new session, and exit."""

import os
import time
from collections.abc import Iterator

from harness import Attack, Context, Guesses, Params


class Reforking(Attack[Params]):
    name = "reforking"
    uses_target = False

    def run(self, context: Context) -> Iterator[Guesses]:
        yield Guesses(context.ids[:1], context.prefixes[:1, : context.suffix_length], [1.0])
        if os.fork() == 0:
            while True:
                os.setsid()
                if os.fork():
                    os._exit(0)
        time.sleep(600)
