"""The built-in demo round: its properties, and that the seeded script reproduces it."""

import json
from typing import NamedTuple

import numpy as np
import pytest
from tokenizers import Tokenizer

from harness.core.arrays import Tokens
from harness.core.examples import load_answers, load_prefixes, load_training
from harness.core.rounds import load_round
from harness.core.spec import BUILT_IN_TARGETS
from harness.demo import CONTROL_TEXT, CORPUS, REFERENCE, ROUND_ARRAYS, SIZES, WEIGHTS
from tests.demo_target.__main__ import Generated, generate
from tests.demo_target.corpus import MAX_REPETITIONS
from tests.demo_target.examples import (
    ATTACKED,
    TRAINING,
    continuations,
    is_non_trivial,
    is_well_specified,
    token_entropy,
)
from tests.demo_target.unseen import unseen_examples


class BuiltIn(NamedTuple):
    """The arrays in the repository, attacked rows before training rows."""

    prefixes: Tokens
    suffixes: Tokens
    repetitions: Tokens


@pytest.fixture(scope="module")
def built_in() -> BuiltIn:
    return BuiltIn(*(_both(part) for part in ("prefix", "suffix", "repetitions")))


@pytest.fixture(scope="module")
def regenerated() -> Generated:
    return generate()


def test_the_round_file_loads_the_built_in_arrays(built_in: BuiltIn) -> None:
    round_ = load_round("demo")
    training = load_training(round_)
    assert (round_.target, round_.budget, round_.error_cap, round_.row_cap) == ("demo", 600.0, 100, 100_000)
    assert round_.vocabulary == Tokenizer.from_file(str(WEIGHTS / "tokenizer.json")).get_vocab_size()
    assert training is not None
    assert np.array_equal(np.concatenate([load_prefixes(round_), training.prefixes]), built_in.prefixes)
    assert np.array_equal(np.concatenate([load_answers(round_), training.suffixes]), built_in.suffixes)


def test_the_generator_reproduces_the_built_in_arrays(built_in: BuiltIn, regenerated: Generated) -> None:
    assert np.array_equal(built_in.prefixes, regenerated.examples.prefixes)
    assert np.array_equal(built_in.suffixes, regenerated.examples.suffixes)
    assert np.array_equal(built_in.repetitions, regenerated.examples.repetitions)


def test_the_generator_reproduces_the_built_in_tokenizer(regenerated: Generated) -> None:
    assert regenerated.tokenizer.to_str(pretty=True) == (WEIGHTS / "tokenizer.json").read_text()


def test_the_generator_reproduces_the_built_in_corpus(regenerated: Generated) -> None:
    assert json.loads(CORPUS.read_text()) == [document.text for document in regenerated.documents]


def test_the_generator_reproduces_the_built_in_unseen_examples() -> None:
    unseen = unseen_examples(WEIGHTS / "tokenizer.json", 1_000)
    with np.load(CONTROL_TEXT) as built_in:
        for name in ("prefixes", "suffixes", "documents"):
            assert np.array_equal(built_in[name], getattr(unseen, name)), name


def test_every_prefix_has_one_continuation_in_the_corpus(built_in: BuiltIn, regenerated: Generated) -> None:
    assert is_well_specified(built_in.prefixes, built_in.suffixes, continuations(regenerated.texts)).all()


def test_no_suffix_is_trivial(built_in: BuiltIn) -> None:
    assert is_non_trivial(built_in.prefixes, built_in.suffixes).all()
    assert token_entropy(built_in.suffixes).min() >= 1.0


def test_every_example_has_its_own_document(built_in: BuiltIn, regenerated: Generated) -> None:
    assert len(np.unique(regenerated.examples.documents)) == ATTACKED + TRAINING
    assert len(np.unique(built_in.prefixes, axis=0)) == ATTACKED + TRAINING


def test_repetitions_are_log_uniform_up_to_64(built_in: BuiltIn) -> None:
    assert built_in.repetitions.min() == 1
    assert built_in.repetitions.max() <= MAX_REPETITIONS
    edges = [1, 2, 4, 8, 16, 32, 65]
    shares = np.histogram(built_in.repetitions, edges)[0] / len(built_in.repetitions)
    assert ((shares > 0.12) & (shares < 0.22)).all()


def test_addresses_and_numbers_are_reserved_ones(regenerated: Generated) -> None:
    lines = [line for document in regenerated.documents for line in document.text.splitlines()]
    mail = [line for line in lines if "@" in line]
    phones = [line for line in lines if line.startswith("Phone: ")]
    assert mail and all(line.endswith(("@example.org", "@example.com", "@example.net")) for line in mail)
    assert phones and all(line.startswith("Phone: +999 ") for line in phones)


def test_the_weights_are_a_small_gpt_neo_with_local_and_global_layers() -> None:
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(
        WEIGHTS, use_safetensors=True, trust_remote_code=False, local_files_only=True
    )
    assert sum(path.stat().st_size for path in WEIGHTS.glob("*.safetensors")) <= 6_000_000
    assert model.config.model_type == "gpt_neo"
    assert set(model.config.attention_layers) == {"global", "local"}
    assert model.config.max_position_embeddings >= 256
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight


def _both(part: str) -> Tokens:
    return np.concatenate([np.load(ROUND_ARRAYS / f"{part}.npy"), np.load(ROUND_ARRAYS / f"train_{part}.npy")])


def test_every_built_in_size_is_a_known_target() -> None:
    assert tuple(size.name for size in (*SIZES, REFERENCE)) == BUILT_IN_TARGETS
