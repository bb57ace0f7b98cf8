"""An attack that nests directories deeper than a path can name."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from harness import Attack, Context, Guesses, Params


class Deep(Attack[Params]):
    name = "deep"
    uses_target = False

    def run(self, context: Context) -> Iterator[Guesses]:
        with contextlib.chdir("."):
            for _ in range(3_000):
                Path("x").mkdir()
                os.chdir("x")
        yield Guesses(context.ids, context.prefixes[:, : context.suffix_length], context.ids)
