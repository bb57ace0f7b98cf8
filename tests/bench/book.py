"""Measure windows a second of the book audit relative to a plain loop, on the target that BENCH_TARGET names.

The loop asks the model for all logits of a batch, materializes their log-softmax over the vocabulary, and reads the
probabilities of the suffixes. Half of the text has been memorized by the model and half is unseen.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer

from harness.audits.book.audit import WINDOWS_PER_BATCH
from harness.audits.book.inputs import MIN_PROBABILITY, THRESHOLDS, BookParams
from harness.audits.book.windows import coarse_to_fine, cut_windows
from harness.audits.exact import exact_logprobs
from harness.audits.probabilities import Scheme
from harness.core.arrays import Floats
from harness.demo import CORPUS, ROUND_ARRAYS
from harness.engine.target import Target
from tests.bench.inputs import SURROGATE, surrogate_or_demo
from tests.bench.measuring import in_turns, median_ratio, median_seconds, print_measured
from tests.demo_target.unseen import reference_texts
from tests.tools.data import training_rows

_TURNS = 3
_BATCH = 32  # of the loop
_ROWS = 6  # of the surrogate's training data, in each half of the text
_DOCUMENTS = 20  # of the demo
_MEMORIZED = 128  # windows


def measure() -> dict[str, Any]:
    """Return the figures of a text of both kinds, and of windows that the model has memorized as they are."""
    inputs = surrogate_or_demo()
    target, path, params = inputs.target(), inputs.path, BookParams()
    windows = cut_windows(_text(path), Tokenizer.from_file(str(path / "tokenizer.json")), params)
    tokens = windows.tokens[coarse_to_fine(len(windows))].astype(np.int64)
    memorized = _compare(target, _memorized(path), params)
    return {
        "windows": len(tokens),
        **_compare(target, tokens, params),
        **{f"{name}_memorized": value for name, value in memorized.items()},
    }


def _compare(target: Target, tokens: NDArray[np.int64], params: BookParams) -> dict[str, float]:
    """Return windows a second of both, the median ratio of the turns, and the largest difference of a probability."""
    for compute in (_audit, _plain_loop):
        compute(target, tokens[:_BATCH], params)
    taken = in_turns(
        {
            "audit": lambda turn: _audit(target, tokens, params),
            "loop": lambda turn: _plain_loop(target, tokens, params),
        },
        _TURNS,
    )
    exact = _plain_loop(target, tokens, params, dtype=torch.float64)
    return {
        "windows_per_second": len(tokens) / median_seconds(taken["audit"]),
        "of_a_plain_loop": len(tokens) / median_seconds(taken["loop"]),
        "factor": median_ratio(taken["loop"], taken["audit"]),
        "share_at_0.1_%": float((np.exp(exact) >= THRESHOLDS[0]).mean()),
        "largest_difference": float(np.abs(np.exp(taken["audit"][0].result) - np.exp(exact)).max()),
    }


def _memorized(path: Path) -> NDArray[np.int64]:
    """Return windows that the model has read as they are, [windows, 100]."""
    if path == SURROGATE:
        return training_rows()[-_MEMORIZED:, 100:]
    parts = [np.load(ROUND_ARRAYS / f"{part}.npy")[:_MEMORIZED] for part in ("prefix", "suffix")]
    return np.concatenate(parts, axis=1).astype(np.int64)


def _text(path: Path) -> str:
    """Return a text of which the model has memorized one half."""
    if path != SURROGATE:
        return "\n\n".join([*json.loads(CORPUS.read_bytes())[:_DOCUMENTS], *reference_texts(_DOCUMENTS)])
    rows = training_rows()
    chosen = np.concatenate([rows[14_000 : 14_000 + _ROWS], rows[:_ROWS]])
    tokenizer = Tokenizer.from_file(str(path / "tokenizer.json"))
    return "\n\n".join(tokenizer.decode(row.tolist(), skip_special_tokens=False) for row in chosen)


def _audit(target: Target, tokens: NDArray[np.int64], params: BookParams) -> Floats:
    """Return the log-probabilities of the suffixes under top-k as the audit computes them, [windows]."""
    prefix = params.prefix_tokens
    policies = [params.policies[scheme] for scheme in params.schemes]
    parts = []
    for first in range(0, len(tokens), WINDOWS_PER_BATCH):
        some = tokens[first : first + WINDOWS_PER_BATCH]
        logprobs = exact_logprobs(target, some[:, :prefix], some[:, prefix:], policies, min_probability=MIN_PROBABILITY)
        parts.append(logprobs[params.schemes.index(Scheme.TOP_K)].sum(axis=1))
    return np.concatenate(parts)


def _plain_loop(
    target: Target, tokens: NDArray[np.int64], params: BookParams, dtype: torch.dtype = torch.float32
) -> Floats:
    """Return the same from the log-softmax of all logits, in `dtype`."""
    prefix, parts = params.prefix_tokens, []
    with torch.inference_mode():
        for first in range(0, len(tokens), _BATCH):
            some = torch.as_tensor(tokens[first : first + _BATCH], device=target.device)
            logprobs = torch.log_softmax(target.model(some).logits.to(dtype), dim=-1)[:, prefix - 1 : -1]
            kept, ids = logprobs.topk(params.top_k)
            is_target = ids == some[:, prefix:, None]
            found = torch.log_softmax(kept, dim=-1).masked_fill(~is_target, -torch.inf).amax(-1)
            parts.append(found.double().sum(1).cpu().numpy())
    return np.concatenate(parts)


if __name__ == "__main__":
    print_measured(measure)
