import itertools

import numpy as np
import pytest
from tokenizers import Tokenizer

from harness.audits.edit_distance import characters, edit_distance
from harness.audits.exact import exact_logprobs
from harness.audits.near_params import CHARACTER_EDITS, NearParams
from harness.audits.near_suffixes import near_probabilities, near_suffixes
from harness.core.policy import Policy
from harness.demo import ROUND_ARRAYS, WEIGHTS
from harness.engine.target import Target
from tests.unit.engine.conftest import load_on

TOP_K = Policy(top_k=40)


@pytest.fixture
def demo(device) -> Target:
    return load_on(device, WEIGHTS)


def examples(number: int) -> tuple[np.ndarray, np.ndarray]:
    """Return prefixes of 50 tokens and suffixes of 20."""
    prefixes, suffixes = (np.load(ROUND_ARRAYS / f"{part}.npy") for part in ("prefix", "suffix"))
    return prefixes[:number].astype(np.int64), suffixes[:number, :20].astype(np.int64)


@pytest.mark.parametrize("policy", [Policy(top_k=3), Policy(top_k=3, temperature=1.7), Policy(top_k=4, top_p=0.9999)])
def test_all_near_suffixes_are_found_if_no_beam_is_lost(demo, policy):
    prefixes, suffixes = examples(3)
    suffixes = suffixes[:, :4]
    found = near_suffixes(demo, prefixes, suffixes, policy, edits=2, beams=10_000)
    probabilities = found.probability(3, 2)
    drawn = demo.search(prefixes, least=1e-12, policy=policy, length=4)
    for row in range(3):
        mine = np.flatnonzero(drawn.row == row)
        distances = np.array([edit_distance(drawn.suffixes[place].astype(np.int64), suffixes[row]) for place in mine])
        likely = np.exp(drawn.policy_logprob[mine])
        wanted = [likely[distances <= edits].sum() for edits in range(3)]
        assert probabilities[row] == pytest.approx(wanted, abs=1e-6)
    assert (probabilities[:, 2] > probabilities[:, 0]).any()


def test_suffixes_are_distinct_and_have_their_own_probability(demo):
    prefixes, suffixes = examples(6)
    found = near_suffixes(demo, prefixes, suffixes, TOP_K, beams=6)
    assert len(np.unique(np.column_stack([found.row, found.tokens]), axis=0)) == len(found.row)
    some = np.arange(0, len(found.row), 37)
    (logprobs,) = exact_logprobs(demo, prefixes[found.row[some]], found.tokens[some], [TOP_K])
    assert np.allclose(np.exp(found.logprob[some]), np.exp(logprobs.sum(axis=1)), atol=1e-6)
    for place in some:
        assert found.edits[place] == edit_distance(found.tokens[place], suffixes[found.row[place]]) <= 5
    order = [(row, -logprob) for row, logprob in zip(found.row, found.logprob, strict=True)]
    assert order == sorted(order)


@pytest.mark.parametrize("policy", [TOP_K, Policy(), Policy(top_k=1)], ids=str)
def test_the_bound_is_never_below_the_verbatim_probability(demo, policy):
    prefixes, suffixes = examples(12)
    suffixes[6:] = np.roll(suffixes[6:], 5, axis=1)
    (logprobs,) = exact_logprobs(demo, prefixes, suffixes, [policy])
    verbatim = np.exp(logprobs.sum(axis=1))
    bound = near_suffixes(demo, prefixes, suffixes, policy, beams=3).probability(12, 5)
    assert bound[:, 0] == pytest.approx(verbatim, rel=1e-3, abs=1e-6)
    assert (np.diff(bound, axis=1) >= 0).all() and (bound <= 1).all()
    tokenizer = Tokenizer.from_file(str(WEIGHTS / "tokenizer.json"))
    tokens, by_characters = near_probabilities(demo, prefixes, suffixes, policy, NearParams(beams=3), tokenizer)
    assert (tokens >= verbatim[:, None]).all() and (by_characters >= verbatim[:, None]).all()


def test_probabilities_by_characters_are_those_of_the_texts(demo):
    prefixes, suffixes = examples(4)
    tokenizer = Tokenizer.from_file(str(WEIGHTS / "tokenizer.json"))
    params = NearParams(beams=4, edits=3)
    tokens, by_characters = near_probabilities(demo, prefixes, suffixes, TOP_K, params, tokenizer)
    assert tokens.shape == (4, 4) and by_characters.shape == (4, len(CHARACTER_EDITS))
    found = near_suffixes(demo, prefixes, suffixes, TOP_K, edits=3, beams=4)
    for row in range(4):
        given = characters(tokenizer.decode(suffixes[row].tolist()))
        mine = list(itertools.islice(np.flatnonzero(found.row == row), 64))
        distances = [edit_distance(characters(tokenizer.decode(found.tokens[place].tolist())), given) for place in mine]
        likely = np.exp(found.logprob[mine])
        wanted = [likely[np.array(distances) <= most].sum() for most in CHARACTER_EDITS]
        assert by_characters[row] == pytest.approx(wanted, abs=1e-9)
    _, unknown = near_probabilities(demo, prefixes, suffixes, TOP_K, params, None)
    assert np.isnan(unknown).all()


def test_little_memory_gives_the_same_bound(demo):
    prefixes, suffixes = examples(5)
    wanted = near_suffixes(demo, prefixes, suffixes, TOP_K, beams=4).probability(5, 5)
    demo.rows_at_once = 5
    assert near_suffixes(demo, prefixes, suffixes, TOP_K, beams=4).probability(5, 5) == pytest.approx(wanted, abs=1e-6)
