"""`python -m tests.bench.scoring MODEL`: scored positions a second, beside a plain forward pass.

MODEL is a directory in Hugging Face layout. A scored position is a suffix token whose probability is computed given all
tokens before it. Prefixes and suffixes have 50 tokens each, of licences. The plain loop computes the logits of the
suffixes in batches of 8 and takes their log-softmax. With `llama_cpp` installed and the model's GGUF file as a second
argument, llama.cpp's prefill of the same sequences in float32 arithmetic on its quantized weights is measured too.
"""

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from harness.audits.exact import exact_logprobs
from harness.core.policy import Policy
from harness.engine.loading import load_target
from harness.runs.machine import usable_cores
from tests.bench.measuring import in_turns, markdown_table, median_ratio, median_seconds
from tests.bench.work import LENGTH, PlainLoop, write_corpus

SEQUENCES, TURNS = 64, 3
_SIX = [Policy(top_k=1), Policy(), Policy(temperature=0.7), Policy(top_k=10), Policy(top_p=0.9), Policy(typical_p=0.6)]


def measure(path: Path, gguf: Path | None = None) -> str:
    """Return the table of positions a second, medians over turns."""
    threads = usable_cores()
    torch.set_num_threads(threads)
    target = load_target(path, dtype="float32", threads=threads, prefix_length=LENGTH, suffix_length=LENGTH)
    with tempfile.TemporaryDirectory() as folder:
        write_corpus(Path(folder))
        plain = PlainLoop(Path(folder), path)
        rows = plain.sequences()[:SEQUENCES]
    tokens = rows.numpy()
    prefixes, suffixes = tokens[:, :LENGTH], tokens[:, LENGTH:]
    calls: dict[str, Callable[[int], Any]] = {
        "plain forward pass": lambda turn: plain.probabilities(rows),
        "`score`: probability, margin and rank": lambda turn: target.score(prefixes, suffixes),
        "exact probabilities, top-k 40": lambda turn: exact_logprobs(target, prefixes, suffixes, [Policy(top_k=40)]),
        "exact probabilities, six schemes": lambda turn: exact_logprobs(target, prefixes, suffixes, _SIX),
    }
    if gguf is not None:
        calls["llama.cpp's prefill, logits of every token"] = _prefill(gguf, rows, threads)
    in_turns(calls, 1)  # warms up
    taken = in_turns(calls, TURNS)
    table = [
        (
            name,
            f"{SEQUENCES * LENGTH / median_seconds(times):,.0f}",
            f"{median_ratio(taken[next(iter(calls))], times):.2f}",
        )
        for name, times in taken.items()
    ]
    return markdown_table(("method", "scored positions a second", "relative to the plain pass"), table)


def _prefill(gguf: Path, rows: Any, threads: int) -> Callable[[int], None]:
    import llama_cpp  # not among the dependencies

    model = llama_cpp.Llama(str(gguf), n_ctx=2 * LENGTH, logits_all=True, n_threads_batch=threads, verbose=False)

    def evaluate(_: int) -> None:
        for row in rows.tolist():
            model.reset()
            model.eval(row)

    return evaluate


if __name__ == "__main__":
    print(measure(Path(sys.argv[1]), *map(Path, sys.argv[2:])))
