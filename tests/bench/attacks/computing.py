"""An attack that computes on every core and yields guesses in batches. As a script, the same work in a plain loop.

`python computing.py EXAMPLES LENGTH ITERATIONS` prints the seconds of the loop.
"""

import hashlib
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from harness import Attack, Context, Field, Guesses, Params

BATCH = 250
CORES = len(os.sched_getaffinity(0))


class ComputingParams(Params):
    iterations: int = Field(1000, ge=1, description="Hash iterations per core and batch.")


class Computing(Attack[ComputingParams]):
    name = "computing"
    uses_target = False

    def run(self, context: Context) -> Iterator[Guesses]:
        start = time.perf_counter()
        with ThreadPoolExecutor(CORES) as pool:
            for batch in context.batches(size=BATCH):
                yield compute(batch.ids, context.suffix_length, self.params.iterations, pool)
        print("seconds", time.perf_counter() - start)


def compute(ids: np.ndarray, length: int, iterations: int, pool: ThreadPoolExecutor) -> Guesses:
    """Return guesses for `ids` after each core has computed hashes, with the GIL released."""
    list(pool.map(lambda core: hashlib.pbkdf2_hmac("sha256", b"work", bytes([core]), iterations), range(CORES)))
    suffixes = (ids[:, None] * 7919 + np.arange(length) * 31) % 50257
    return Guesses(ids, suffixes.astype(np.uint16), score=(ids * 104729 % 65536) / 65536)


def plain_loop(examples: int, length: int, iterations: int) -> float:
    """Return the seconds for the same work without a harness."""
    start = time.perf_counter()
    with ThreadPoolExecutor(CORES) as pool:
        for first in range(0, examples, BATCH):
            compute(np.arange(first, min(first + BATCH, examples)), length, iterations, pool)
    return time.perf_counter() - start


if __name__ == "__main__":
    print("seconds", plain_loop(*map(int, sys.argv[1:])))
