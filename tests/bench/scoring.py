"""`python -m tests.bench.scoring MODEL`: scored positions and greedy tokens a second, beside what else computes them.

MODEL is a directory in Hugging Face layout. Prefixes and suffixes have 50 tokens each, of licences. A scored position
is a suffix token whose probability is computed given all tokens before it. The plain loop computes the logits of the
suffixes in batches of 8 and takes their log-softmax. Greedy suffixes continue all prefixes together: by `generate`, by
the engine's decoder, and by the engine with the model's own code, which runs architectures that the decoder does not
know. With `llama_cpp` installed and the model's GGUF file as a second argument, llama.cpp computes both in float32
arithmetic on its quantized weights.
"""

import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from harness.audits.exact import exact_logprobs
from harness.core.policy import Policy
from harness.engine import model_runner
from harness.engine.loading import load_target
from harness.runs.machine import usable_cores
from tests.bench import llama_cpp_peer
from tests.bench.measuring import in_turns, markdown_table, median_ratio, median_seconds
from tests.bench.work import LENGTH, PlainLoop, write_corpus

SEQUENCES, TURNS = 64, 3
PREFIXES = (2, 32)
_GREEDY = Policy(top_k=1)
_SIX = [_GREEDY, Policy(), Policy(temperature=0.7), Policy(top_k=10), Policy(top_p=0.9), Policy(typical_p=0.6)]


def measure(path: Path, gguf: Path | None = None) -> str:
    """Return a table of positions a second and one of greedy tokens for each number of prefixes, medians over turns."""
    threads = usable_cores()
    torch.set_num_threads(threads)
    lengths = {"prefix_length": LENGTH, "suffix_length": LENGTH}
    target = load_target(path, dtype="float32", threads=threads, **lengths)
    with patch.object(model_runner, "own_decoder", return_value=None):
        slow = load_target(path, dtype="float32", threads=threads, **lengths)
    with tempfile.TemporaryDirectory() as folder:
        write_corpus(Path(folder))
        plain = PlainLoop(Path(folder), path)
        rows = plain.sequences()[:SEQUENCES]
    tokens = rows.numpy()
    prefixes, suffixes = tokens[:, :LENGTH], tokens[:, LENGTH:]
    scoring: dict[str, Callable[[int], Any]] = {
        "plain forward pass": lambda turn: plain.probabilities(rows),
        "`score`: probability, margin and rank": lambda turn: target.score(prefixes, suffixes),
        "exact probabilities, top-k 40": lambda turn: exact_logprobs(target, prefixes, suffixes, [Policy(top_k=40)]),
        "exact probabilities, six schemes": lambda turn: exact_logprobs(target, prefixes, suffixes, _SIX),
    }
    if gguf is not None:
        scoring["llama.cpp's prefill, logits of every token"] = llama_cpp_peer.prefill(gguf, tokens, threads)
    tables = [_table("scored positions a second", SEQUENCES, scoring)]
    for number in PREFIXES:
        some = rows[:number, :LENGTH]
        greedy: dict[str, Callable[[int], Any]] = {
            "`generate`": lambda turn, some=some: plain.generate(LENGTH, input_ids=some),
            "the engine's decoder": lambda turn, some=some: target.sample(some.numpy(), _GREEDY, trials=1, seed=0),
            "the engine with the model's code": lambda turn, some=some: slow.sample(
                some.numpy(), _GREEDY, trials=1, seed=0
            ),
        }
        if gguf is not None:
            greedy["llama.cpp"] = llama_cpp_peer.greedy(gguf, some.numpy(), threads, tokens=LENGTH)
        tables.append(_table(f"greedy tokens a second, {number} prefixes", number, greedy))
    return "\n\n".join(tables)


def _table(figure: str, sequences: int, calls: Mapping[str, Callable[[int], Any]]) -> str:
    """Return a table of the rates of `calls`, which compute the suffixes of `sequences` each, and of their ratios."""
    in_turns(calls, 1)  # warms up
    taken = in_turns(calls, TURNS)
    first = next(iter(calls))
    rows = [
        (name, f"{sequences * LENGTH / median_seconds(times):,.0f}", f"{median_ratio(taken[first], times):.2f}")
        for name, times in taken.items()
    ]
    return markdown_table(("method", figure, "relative to the first"), rows)


if __name__ == "__main__":
    print(measure(Path(sys.argv[1]), *map(Path, sys.argv[2:])))
