"""An attack that finishes, and leaves something in its scratch directory that is hard to measure or to delete."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

from harness import Attack, Context, Field, Guesses, Params


class LitteringParams(Params):
    depth: int = Field(0, description="Directories inside each other, whose path is too long to be named.")
    deleted_bytes: int = Field(0, description="Bytes of deleted files that stay open.")


class Littering(Attack[LitteringParams]):
    name = "littering"
    uses_target = False

    def run(self, context: Context) -> Iterator[Guesses]:
        for batch in context.batches():
            yield Guesses(batch.ids, batch.prefixes[:, : context.suffix_length], [0.0] * len(batch.ids))
        home = Path.cwd()
        for _ in range(self.params.depth):
            Path("directory").mkdir()
            os.chdir("directory")
        os.chdir(home)
        left, held = self.params.deleted_bytes, []
        while left > 0:
            held.append(os.open("deleted", os.O_CREAT | os.O_RDWR))
            Path("deleted").unlink()
            os.posix_fallocate(held[-1], 0, size := min(left, 1 << 30))
            left -= size
        if held:
            time.sleep(60)  # the supervisor measures every two seconds
