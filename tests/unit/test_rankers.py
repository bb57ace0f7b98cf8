"""Rankers: scores of suffixes from their log-probabilities."""

import math
import zlib
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from tokenizers import Tokenizer

from harness.core.errors import HarnessError
from harness.demo import REFERENCE, ROUND_ARRAYS, SIZES
from harness.engine.loading import load_target
from harness.engine.target import Target
from harness.rankers import (
    Ranker,
    RankerName,
    clipped_loss,
    compressed_loss,
    confident_loss,
    cumulative,
    decoded,
    greedy_share,
    least_token,
    loss_per_byte,
    mean_loss,
    official_loss,
    ranked,
    relative_loss,
)

LOGPROBS = np.array([[-1.0, -2.0, -3.0], [-0.5, -0.5, -0.5]])


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        (mean_loss(LOGPROBS), [-2.0, -0.5]),
        (official_loss(LOGPROBS, np.array([-6.0, 0.0])), [-3.0, -1 / 3]),  # the window begins one token early
        (cumulative(LOGPROBS), np.log(np.exp(LOGPROBS).prod(axis=1)).tolist()),
        (least_token(LOGPROBS), [-3.0, -0.5]),
    ],
    ids=["mean_loss", "official_loss", "cumulative", "least_token"],
)
def test_a_score_is_a_mean_a_sum_or_a_minimum_of_log_probabilities(scores, expected):
    assert scores.tolist() == pytest.approx(expected)


def test_zlib_multiplies_the_loss_by_the_compressed_length_of_the_ids():
    tokens = np.array([[7] * 100, list(range(100))], np.uint16)
    lengths = [len(zlib.compress(np.array(row, np.int64).tobytes())) for row in tokens]
    assert lengths[0] < lengths[1]
    assert compressed_loss(LOGPROBS, tokens).tolist() == [-2.0 * lengths[0], -0.5 * lengths[1]]


def test_each_confident_token_reduces_the_loss():
    margin = np.array([[0.4, 0.6, 3.0], [0.0, 0.5, 0.1]])
    # Two of three tokens are confident. Each subtracts 0.15 times the mean loss of 2 from its own loss.
    assert np.allclose(confident_loss(LOGPROBS, margin), [-(2.0 - 2 * 0.15 * 2.0 / 3), -0.5])


def test_an_outlier_is_replaced_by_the_mean():
    logprobs = np.full((1, 50), -0.1)
    logprobs[0, 3] = -20.0
    mean = logprobs.mean()
    assert np.allclose(clipped_loss(logprobs), (-0.1 * 49 + mean) / 50)


def test_relative_loss_orders_like_the_quotient_of_log_perplexities():
    reference = np.array([[-4.0, -4.0, -1.0], [-0.6, -0.6, -0.6]])
    log_perplexity, of_reference = -LOGPROBS.mean(axis=1), -reference.mean(axis=1)
    scores = relative_loss(LOGPROBS, reference)
    assert np.allclose(-1 / scores, of_reference / log_perplexity)
    # The reference model finds the second suffix likely too, so the first is submitted earlier despite its higher loss.
    assert scores[0] > scores[1] and mean_loss(LOGPROBS)[0] < mean_loss(LOGPROBS)[1]


def test_relative_loss_is_finite_if_a_loss_is_zero():
    certain, some = np.zeros((1, 3)), np.full((1, 3), -1.0)
    assert relative_loss(certain, some) == relative_loss(certain, certain) == 0.0
    assert relative_loss(some, certain)[0] == pytest.approx(-1e12)


def test_loss_per_byte_divides_by_the_compressed_length_of_the_text():
    texts = ["ä" * 40, "a long and complex text: ß§%&/()=?"]
    lengths = [len(zlib.compress(text.encode("utf-8"))) for text in texts]
    assert lengths[0] < lengths[1]
    assert np.allclose(loss_per_byte(LOGPROBS, texts), [-2.0 / lengths[0], -0.5 / lengths[1]])


def test_greedy_share_counts_likeliest_tokens_and_breaks_ties_by_loss():
    rank = np.array([[0, 0, 3, 0], [0, 0, 0, 7], [0, 1, 2, 0], [0, 0, 0, 0]])
    logprobs = np.array([[-1.0] * 4, [-0.5] * 4, [-0.01] * 4, [-9.0] * 4])
    scores = greedy_share(rank, logprobs)
    expected = [share + math.exp(-loss) / 8 for share, loss in ((0.75, 1.0), (0.75, 0.5), (0.5, 0.01), (1.0, 9.0))]
    assert np.allclose(scores, expected)
    # The last suffix has the highest loss, and the third the lowest; the share decides first.
    assert np.argsort(-scores).tolist() == [3, 1, 0, 2]


def test_a_certain_suffix_is_below_one_with_another_likeliest_token():
    assert greedy_share(np.array([[0, 1]]), np.zeros((1, 2))) < greedy_share(np.array([[0, 0]]), np.full((1, 2), -50.0))


def test_each_ranker_is_described():
    description = get_args(Ranker)[1].description
    assert all(ranker in description for ranker in get_args(RankerName))


@pytest.fixture(scope="module")
def tiny() -> Target:
    return load_target(SIZES[-1].weights, device="cpu", threads=1)


PREFIXES, SUFFIXES = (np.load(ROUND_ARRAYS / f"{part}.npy")[:6] for part in ("prefix", "suffix"))


def test_ranked_measures_what_decoding_does_not(tiny: Target):
    """With the log-probabilities that decoding returns, each ranker gives the score that it gives without them."""
    reference = load_target(REFERENCE.weights, device="cpu", threads=1)
    scored, of_reference = tiny.score(PREFIXES, SUFFIXES), reference.score(PREFIXES, SUFFIXES)
    texts = Tokenizer.from_file(str(SIZES[0].weights / "tokenizer.json")).decode_batch(SUFFIXES.tolist())
    expected = {
        "reference_ratio": scored.token_logprobs.mean(axis=1) / -of_reference.token_logprobs.mean(axis=1),
        "zlib_ratio": scored.token_logprobs.mean(axis=1) / [len(zlib.compress(text.encode())) for text in texts],
        "least_token": scored.token_logprobs.min(axis=1),
        "greedy_share": (scored.rank == 0).mean(axis=1) + np.exp(scored.token_logprobs.mean(axis=1)) / 100,
    }
    decoding = {"token_logprobs": scored.token_logprobs, "last_prefix_logprob": scored.last_prefix_logprob}
    for ranker in get_args(RankerName):
        alone = ranked(ranker, tiny, PREFIXES, SUFFIXES, reference=reference)
        after_decoding = ranked(ranker, tiny, PREFIXES, SUFFIXES, reference=reference, **decoding)
        assert np.array_equal(alone, after_decoding)
        if ranker in expected:
            assert np.allclose(alone, expected[ranker]), ranker


def test_the_ratio_without_a_reference_model_is_an_error(tiny: Target):
    with pytest.raises(HarnessError, match="reference_ratio needs a reference model"):
        ranked("reference_ratio", tiny, PREFIXES, SUFFIXES)


def test_text_needs_a_valid_tokenizer(tmp_path: Path):
    with pytest.raises(HarnessError, match=r"no tokenizer\.json, which the ranker zlib_ratio needs"):
        decoded(SUFFIXES, None)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(HarnessError, match="not a tokenizer"):
        decoded(SUFFIXES, tmp_path / "tokenizer.json")


def test_a_score_depends_only_on_its_own_sequence():
    rng = np.random.default_rng(0)
    logprobs, margin = -rng.exponential(size=(6, 50)), rng.exponential(size=(6, 50))
    tokens, last = rng.integers(0, 9, (6, 100)), -rng.exponential(size=6)
    for score in (
        lambda rows: mean_loss(logprobs[rows]),
        lambda rows: official_loss(logprobs[rows], last[rows]),
        lambda rows: cumulative(logprobs[rows]),
        lambda rows: compressed_loss(logprobs[rows], tokens[rows]),
        lambda rows: confident_loss(logprobs[rows], margin[rows]),
        lambda rows: clipped_loss(logprobs[rows]),
        lambda rows: relative_loss(logprobs[rows], margin[rows] - 9),
        lambda rows: least_token(logprobs[rows]),
        lambda rows: greedy_share(tokens[rows, :50], logprobs[rows]),
    ):
        alone = np.concatenate([score(np.array([row])) for row in range(6)])
        assert np.allclose(score(np.arange(6)), alone)
