"""The training of small models, and the rows that the surrogates read."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from tests.demo_target.training import IGNORED_LABEL, build_model, sampled_loss
from tests.tools import surrogate

VOCABULARY = 31


@pytest.mark.parametrize("length", [12, 2 * VOCABULARY])  # The long rows contain the whole vocabulary.
def test_the_sampled_loss_of_all_tokens_is_the_exact_loss(length: int) -> None:
    model = build_model(VOCABULARY, 0, width=8, heads=2)
    tokens = (torch.arange(3)[:, None] + torch.arange(length)) % VOCABULARY
    labels = tokens.clone()
    labels[1, 7:] = IGNORED_LABEL
    exact = model(input_ids=tokens, labels=labels).loss
    torch.testing.assert_close(sampled_loss(model, tokens, labels, VOCABULARY), exact)


def test_the_sampled_loss_estimates_the_denominator_without_bias() -> None:
    model = build_model(VOCABULARY, 0, width=8, heads=2)
    model.transformer.wte.weight.data.mul_(20)  # unequal probabilities
    tokens = torch.tensor([[1, 2]])
    with torch.no_grad():
        exact = model(input_ids=tokens, labels=tokens).loss.exp()
        sampled = torch.stack([sampled_loss(model, tokens, tokens, 4) for _ in range(500)]).exp()
    error = float(sampled.std()) / 500**0.5
    assert 0 < error < 0.2 * exact and abs(sampled.mean() - exact) < 5 * error


def test_the_surrogate_reads_each_late_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surrogate, "FIRST_MEMORIZED", 60)
    rows = np.arange(100 * 200).reshape(100, 200)
    read, copies = surrogate.memorized(rows)
    counts = np.bincount(copies)
    assert (read == rows[60:]).all() and len(counts) == 40
    assert counts.min() >= 1 and surrogate.MAX_COPIES / 2 < counts.max() <= surrogate.MAX_COPIES
    assert any(first > second for first, second in pairwise(copies))
