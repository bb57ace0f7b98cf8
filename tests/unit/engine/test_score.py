import numpy as np
import pytest
import torch

from harness.core.errors import HarnessError
from harness.engine.likelihood import _block_scores
from tests.unit.engine.reference import logits_of, model_logprobs


def _explicit(target, prefixes, suffixes):
    """The three scores by a plain forward and a full log-softmax, each [rows, length + 1]."""
    whole = np.concatenate([prefixes, suffixes], axis=1).astype(np.int64)
    first = prefixes.shape[1] - 2
    logprobs = model_logprobs(target, whole)[:, first:-1]
    wanted = torch.tensor(whole[:, first + 1 :]).unsqueeze(-1)
    of_wanted = logprobs.gather(-1, wanted)
    best = logprobs.topk(2, dim=-1).values
    return (
        of_wanted.squeeze(-1).numpy(),
        (best[..., 0] - best[..., 1]).numpy(),
        (logprobs > of_wanted).sum(-1).numpy(),
    )


@pytest.mark.parametrize("logit_bytes", [1, 61 * 4 * 9 * 5, 1 << 20])
@pytest.mark.parametrize("rows_at_once", [1, 4, 32])
def test_scores_equal_an_explicit_forward_pass(target, prefixes, monkeypatch, logit_bytes, rows_at_once):
    monkeypatch.setattr(target.runner, "logit_bytes", logit_bytes)
    target.rows_at_once = rows_at_once
    suffixes = np.random.default_rng(4).integers(0, 61, (9, 17)).astype(np.uint16)
    found = target.score(prefixes, suffixes)
    logprobs, margin, rank = _explicit(target, prefixes, suffixes)
    assert np.allclose(found.token_logprobs, logprobs[:, 1:], atol=1e-4)
    assert np.allclose(found.last_prefix_logprob, logprobs[:, 0], atol=1e-4)
    assert np.allclose(found.margin, margin[:, 1:], atol=1e-4)
    assert (found.rank == rank[:, 1:]).all() and found.rank.dtype == np.int64
    assert len(found) == 9 and found.token_logprobs.shape == (9, 17)


def test_logits_stay_within_their_memory_bound(target, prefixes, monkeypatch):
    monkeypatch.setattr(target.runner, "logit_bytes", 61 * 4 * 20)
    sizes = []
    blocks_of = target.runner.logit_blocks

    def watched(states):
        for block in blocks_of(states):
            sizes.append(len(block.scores))
            yield block

    monkeypatch.setattr(target.runner, "logit_blocks", watched)
    target.score(prefixes, prefixes)
    assert max(sizes) <= 20 and sum(sizes) == 9 * 13


def test_ranks_of_equal_tokens_follow_their_ids(device):
    logits = torch.tensor([[1.0, 3.0, 3.0, 3.0, 0.0]], device=device).expand(5, 5)
    assert _block_scores(logits_of(logits), torch.arange(5, device=device))[2].tolist() == [3, 0, 1, 2, 4]


@pytest.mark.parametrize("logit", [torch.nan, torch.inf])
def test_damaged_logits_have_no_log_probability(device, logit):
    scores = torch.tensor([[0.0, logit, 0.0], [0.0, 0.0, -torch.inf]], device=device)
    logprobs = _block_scores(logits_of(scores), torch.tensor([0, 2], device=device))[0]
    assert logprobs.isnan().tolist() == [True, False] and logprobs[1] == -torch.inf


def test_out_of_memory_halves_the_rows_of_a_score(neo, prefixes, fail_passes):
    wanted = neo.score(prefixes, prefixes)
    fail_passes(lambda rows: len(rows) > 2 and rows.dtype == torch.int64)
    found = neo.score(prefixes, prefixes)
    assert neo.rows_at_once == 2
    assert np.allclose(found.token_logprobs, wanted.token_logprobs, atol=1e-5)


def test_a_prefix_of_one_token_can_be_scored(target):
    found = target.score(np.array([[5], [6]]), np.array([[1, 2, 3], [4, 5, 6]]))
    assert np.isfinite(found.token_logprobs).all() and np.isnan(found.last_prefix_logprob).all()


def test_no_suffixes_give_no_scores(neo):
    found = neo.score(np.empty((0, 12), np.uint16), np.empty((0, 5), np.uint16))
    assert found.token_logprobs.shape == (0, 5) and found.last_prefix_logprob.shape == (0,)


@pytest.mark.parametrize(
    ("prefixes_", "suffixes", "sentence"),
    [
        (np.zeros((2, 3), int), np.zeros((3, 3), int), "2 prefixes and 3 suffixes. Pass one"),
        (np.zeros((2, 3), int), np.full((2, 3), 61), "suffixes contain a token outside"),
        (np.zeros((2, 60), int), np.zeros((2, 5), int), "context of 64 tokens"),
        (np.zeros((2, 3), int), np.zeros((2, 0), int), "suffixes must be integers"),
    ],
)
def test_invalid_input_is_refused(neo, prefixes_, suffixes, sentence):
    with pytest.raises(HarnessError, match=sentence):
        neo.score(prefixes_, suffixes)
