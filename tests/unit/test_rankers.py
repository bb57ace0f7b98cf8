"""Rankers: scores of suffixes from their log-probabilities."""

import zlib

import numpy as np
import pytest

from harness.rankers import (
    clipped_loss,
    compressed_loss,
    confident_loss,
    cumulative,
    mean_loss,
    official_loss,
)

LOGPROBS = np.array([[-1.0, -2.0, -3.0], [-0.5, -0.5, -0.5]])


def test_mean_loss_is_minus_the_mean_over_the_suffix():
    assert mean_loss(LOGPROBS).tolist() == [-2.0, -0.5]


def test_the_official_window_begins_one_token_early():
    assert official_loss(LOGPROBS, np.array([-6.0, 0.0])).tolist() == [-3.0, pytest.approx(-1 / 3)]


def test_cumulative_is_the_log_of_the_product():
    assert np.allclose(np.exp(cumulative(LOGPROBS)), np.exp(LOGPROBS).prod(axis=1))


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
    ):
        alone = np.concatenate([score(np.array([row])) for row in range(6)])
        assert np.allclose(score(np.arange(6)), alone)
