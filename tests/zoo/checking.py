"""The check of one entry: the target equals passes of its own code without a cache, or is refused with its sentence."""

import re
import warnings
from pathlib import Path

import numpy as np
import torch
from transformers import PreTrainedModel

from harness.core.errors import HarnessError
from harness.core.policy import Policy
from harness.engine.loading import load_target
from harness.engine.target import Target
from tests.zoo.entries import VOCABULARY, Entry, make

PREFIX, SUFFIX = 50, 50
TOLERANCE = 1e-4


def check(entry: Entry, folder: Path) -> None:
    """Raise AssertionError unless the model of an entry, which is made in `folder`, does what the entry says."""
    made = make(entry, folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            target = load_target(
                folder, device="cpu", dtype="float32", threads=1, rows_at_once=8, vocabulary=entry.vocabulary
            )
        except HarnessError as error:
            sentence = str(error)
            assert entry.refusal is not None and re.search(entry.refusal, sentence) and "\n" not in sentence, sentence
            return
        assert entry.refusal is None, "it is not refused"
        assert target.bos_token == entry.first_token, target.bos_token
        tokens = np.random.default_rng(2).integers(0, target.vocabulary, (2, PREFIX + SUFFIX))
        _require_equal("the loaded weights", _all_logprobs(target.model, tokens), _all_logprobs(made, tokens))
        _check_numbers(target, entry)


def _check_numbers(target: Target, entry: Entry) -> None:
    prefixes = np.random.default_rng(3).integers(3, target.vocabulary - 3, (2, PREFIX))
    drawn = target.sample(prefixes, Policy(top_k=5), trials=2, seed=1, length=SUFFIX)
    best = target.search(prefixes[:1], width=2, length=SUFFIX)
    assert target.runner.decoding == entry.decoding, target.runner.decoding
    wanted = _plain_logprobs(target, prefixes[drawn.row], drawn.suffixes)
    logprobs_of = _step_logprobs if entry.has_angles_by_length else _plain_logprobs
    _require_equal("sampling", drawn.token_logprobs, logprobs_of(target, prefixes[drawn.row], drawn.suffixes))
    _require_equal("search", best.token_logprobs, logprobs_of(target, prefixes[best.row], best.suffixes))
    for logit_bytes in (target.runner.logit_bytes, 4 * VOCABULARY * 16):
        target.runner.logit_bytes = logit_bytes
        _require_equal("scores", target.score(prefixes[drawn.row], drawn.suffixes).token_logprobs, wanted)


def _require_equal(what: str, found: np.ndarray, wanted: np.ndarray) -> None:
    difference = np.abs(found - wanted).max()
    assert difference <= TOLERANCE, f"{what} differ by {difference:.2g} nats from a plain pass"


def _plain_logprobs(target: Target, prefixes: np.ndarray, suffixes: np.ndarray) -> np.ndarray:
    """Return the log-probabilities of suffixes in one pass of the model's own code over whole sequences."""
    found = _seen_logprobs(target, np.concatenate([prefixes, suffixes], axis=1))[:, prefixes.shape[1] - 1 : -1]
    return np.take_along_axis(found, suffixes[..., None].astype(np.int64), axis=2)[..., 0]


def _step_logprobs(target: Target, prefixes: np.ndarray, suffixes: np.ndarray) -> np.ndarray:
    """Return the log-probability of each token in a pass that ends before it, as decoding without a cache sees it.

    They differ from those of one pass if the rotary embeddings change with the length.
    """
    whole, length, rows = np.concatenate([prefixes, suffixes], axis=1), prefixes.shape[1], np.arange(len(suffixes))
    ends = range(length, whole.shape[1])
    return np.stack([_seen_logprobs(target, whole[:, :end])[rows, -1, whole[:, end]] for end in ends], axis=1)


def _seen_logprobs(target: Target, tokens: np.ndarray) -> np.ndarray:
    """Return `_all_logprobs` of tokens [rows, length] after the first token of the tokenizer, [rows, length, ids]."""
    first = [] if target.bos_token is None else [target.bos_token]
    seen = np.concatenate([np.tile(np.array(first, np.int64), (len(tokens), 1)), tokens], axis=1)
    return _all_logprobs(target.model, seen, vocabulary=target.vocabulary)[:, len(first) :]


def _all_logprobs(model: PreTrainedModel, tokens: np.ndarray, vocabulary: int | None = None) -> np.ndarray:
    """Return log-probabilities [rows, length, ids] after tokens [rows, length]. vocabulary: the ids that count."""
    with torch.inference_mode():
        logits = model(torch.as_tensor(tokens.astype(np.int64)), use_cache=False).logits[..., :vocabulary]
    return torch.log_softmax(logits.double(), dim=-1).numpy()
