"""The demo target can be fine-tuned to forget documents, and the example data are those of that fine-tuning."""

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM

from harness.demo import EXAMPLE, SEED, WEIGHTS
from tests.demo_target.corpus import corpus
from tests.demo_target.forgetting import (
    DOCUMENTS,
    FEWEST_COPIES,
    _log_likelihoods,
    forget,
    split_documents,
)


@pytest.mark.long
def test_documents_to_forget_become_less_likely_than_others() -> None:
    tokenizer = Tokenizer.from_file(str(WEIGHTS / "tokenizer.json"))
    split = split_documents(tokenizer)
    to_forget, to_retain = split.forget, split.retain
    assert to_forget.shape == to_retain.shape == (DOCUMENTS, 100) and len(split.others) > DOCUMENTS
    assert min(*split.forget_copies, *split.retain_copies) >= FEWEST_COPIES
    model = AutoModelForCausalLM.from_pretrained(WEIGHTS, dtype=torch.float32)
    with torch.no_grad():
        before = [_log_likelihoods(model, rows[:50]).mean().item() for rows in (to_forget, to_retain)]
    losses: list[float] = []
    forget(model, to_forget[:50], split.others[:50], steps=6, report=lambda step, loss: losses.append(loss))
    with torch.no_grad():
        after = [_log_likelihoods(model, rows[:50]).mean().item() for rows in (to_forget, to_retain)]
    assert len(losses) == 6
    assert after[0] - before[0] < after[1] - before[1]


def test_the_example_data_are_those_of_the_split() -> None:
    split = split_documents(Tokenizer.from_file(str(WEIGHTS / "tokenizer.json")))
    stored = {path.name: np.load(path) for path in EXAMPLE.glob("*.np[yz]")}
    for name, rows in (("forget", split.forget), ("retain", split.retain)):
        pairs = stored[f"{name}.npz"]
        assert (np.hstack([pairs["prefixes"], pairs["suffixes"]]) == rows.numpy()).all()
    assert stored["forget-copies.npy"].tolist() == split.forget_copies
    assert stored["retain-copies.npy"].tolist() == split.retain_copies
    assert stored["copies.npy"].tolist() == [document.repetitions for document in corpus(SEED)]
