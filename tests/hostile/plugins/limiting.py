"""An attack that limits the processor time of its supervisor, and of the groups that it belongs to, to nothing."""

import contextlib
import os
import resource
from collections.abc import Iterator

from harness import Attack, Context, Guesses, Params


class Limiting(Attack[Params]):
    name = "limiting"
    uses_target = False

    def run(self, context: Context) -> Iterator[Guesses]:
        for batch in context.batches():
            yield Guesses(batch.ids, batch.prefixes[:, : context.suffix_length], [0.0] * len(batch.ids))
        for pid in {os.getppid(), os.getpgid(0), os.getsid(0)} - {0, 1, os.getpid()}:
            for kind in (resource.RLIMIT_CPU, resource.RLIMIT_NOFILE):
                with contextlib.suppress(OSError):
                    resource.prlimit(pid, kind, (0, 0))
                    print("limited", pid, flush=True)
