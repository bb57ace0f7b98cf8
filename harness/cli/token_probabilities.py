"""The probability of each token of an example's answer and candidates under the run's target."""

from typing import Any

import numpy as np

from harness.analysis.candidates import Example
from harness.core.errors import HarnessError
from harness.core.spec import TargetRecord
from harness.runs.folder import RunFolder

MOST_CANDIDATES = 50
"""Candidates beyond the best ones are not scored: nobody reads them token by token."""


def token_probabilities(folder: RunFolder, example: Example) -> dict[str, Any]:
    """Return the probabilities of the answer's tokens (null in a blind round) and of each of the first candidates.

    The model is the run's, in float32 on a CPU, so that the result is the same on every machine. Raises HarnessError if
    the run used no target, or if its weights are not there any more.
    """
    spec = folder.attack_spec()
    if not spec.targets:
        raise HarnessError(f"{spec.attack.name} does not use a target, so tokens have no probability.")
    suffixes = [candidate.suffix for candidate in example.candidates[:MOST_CANDIDATES]]
    if example.answer is not None:
        suffixes.append(example.answer)
    if not suffixes:
        return {"answer": None, "candidates": []}
    rows = np.stack(suffixes)
    target = _loaded(spec.targets[0], rows.shape[1], spec.round.vocabulary)
    logprobs = target.score(np.repeat(example.prefix[None], len(rows), axis=0), rows).token_logprobs
    found = np.exp(logprobs).round(6).tolist()
    answer = found.pop() if example.answer is not None else None
    return {"answer": answer, "candidates": found}


def _loaded(record: TargetRecord, length: int, vocabulary: int) -> Any:
    if not record.path.exists():
        raise HarnessError(f"{record.path}: the target of the run is not there any more.")
    # It loads torch.
    from harness.engine.loading import load_target

    return load_target(
        record.path, device="cpu", dtype="float32", threads=record.threads, suffix_length=length, vocabulary=vocabulary
    )
