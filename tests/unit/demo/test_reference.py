"""The demo's reference model: trained on the same kinds of text as the demo target, and on none of its documents."""

import json

import numpy as np
import pytest
from tokenizers import Tokenizer

from harness.demo import CONTROL_TEXT, CORPUS, REFERENCE, ROUND_ARRAYS, SIZES
from harness.engine.loading import load_target
from tests.demo_target.training import Schedule
from tests.demo_target.unseen import REFERENCE_STEPS, reference_texts

TOKENIZER = REFERENCE.weights / "tokenizer.json"
MAX_BYTES = 1_500_000


def test_its_training_texts_contain_no_document_and_no_answer_of_the_demo() -> None:
    texts = reference_texts(REFERENCE_STEPS * Schedule(REFERENCE_STEPS).rows)
    assert len(set(texts)) == len(texts) > 10_000
    assert not set(texts) & set(json.loads(CORPUS.read_text()))
    answers = Tokenizer.from_file(str(TOKENIZER)).decode_batch(np.load(ROUND_ARRAYS / "suffix.npy").tolist())
    everything = "\n\n".join(texts)
    assert [answer for answer in answers if answer in everything] == []


@pytest.mark.slow
def test_it_finds_the_answers_as_likely_as_unseen_text() -> None:
    rows = slice(0, 200)
    prefixes, suffixes = (np.load(ROUND_ARRAYS / f"{part}.npy")[rows] for part in ("prefix", "suffix"))
    unseen = np.load(CONTROL_TEXT)
    losses, exact = {}, {}
    for size in (SIZES[0], REFERENCE):
        model = load_target(size.weights, device="cpu", threads=1)
        answers = model.score(prefixes, suffixes)
        others = model.score(unseen["prefixes"][rows], unseen["suffixes"][rows])
        losses[size.name] = -answers.token_logprobs.mean(), -others.token_logprobs.mean()
        exact[size.name] = int((answers.rank == 0).all(axis=1).sum())
    seen, other = losses["demo-reference"]
    assert abs(seen - other) < 0.1 * other
    assert losses["demo"][0] < 0.5 * losses["demo"][1]
    assert exact["demo-reference"] == 0 < exact["demo"]


def test_it_has_the_tokenizer_of_the_demo_target_and_is_small() -> None:
    assert TOKENIZER.read_bytes() == (SIZES[0].weights / "tokenizer.json").read_bytes()
    assert sum(file.stat().st_size for file in REFERENCE.weights.iterdir()) <= MAX_BYTES
