"""An attack that fills its scratch directory."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

from harness import Attack, Context, Guesses, Params


class DiskFilling(Attack[Params]):
    name = "disk_filling"
    uses_target = False

    def run(self, context: Context) -> Iterator[Guesses]:
        yield Guesses(context.ids[:1], context.prefixes[:1, : context.suffix_length], [0.0])
        for name in ("first", "second"):
            with Path(name).open("wb") as file:
                # Reserving space fills the disk faster than writing.
                os.posix_fallocate(file.fileno(), 0, 3 << 30)
        time.sleep(600)
