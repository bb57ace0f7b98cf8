import pytest
import torch

from harness.engine.attention import attend, merge_parts


def _wanted(query, keys, values):
    scores = query.double() @ keys.double().transpose(-1, -2) * 0.7
    return torch.softmax(scores, dim=-1) @ values.double(), torch.logsumexp(scores, dim=-1)


@pytest.mark.parametrize("is_fused", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_attend_returns_weighted_values_and_the_normaliser(monkeypatch, is_fused, dtype):
    torch.manual_seed(0)
    query, keys, values = (torch.randn(3, 2, count, 8, dtype=dtype) for count in (4, 9, 9))
    monkeypatch.setattr("harness.engine.attention._FUSED_ON_CPU", is_fused)
    found, total = attend(query, keys, values, 0.7)
    wanted, wanted_total = _wanted(query, keys, values)
    tolerance = 1e-5 if dtype is torch.float32 else 3e-2
    assert torch.allclose(found.double(), wanted, atol=tolerance)
    assert torch.allclose(total.double(), wanted_total, atol=tolerance)


def test_merged_parts_equal_attention_over_all_positions():
    torch.manual_seed(1)
    query, keys, values = (torch.randn(2, 3, count, 16) for count in (5, 20, 20))
    parts = [attend(query, keys[:, :, part], values[:, :, part], 1.0) for part in (slice(0, 7), slice(7, 20))]
    whole, _ = attend(query, keys, values, 1.0)
    assert torch.allclose(merge_parts(parts), whole, atol=1e-5)


def test_scores_beyond_half_precision_stay_finite():
    query, keys = torch.full((1, 1, 1, 64), 60.0), torch.full((1, 1, 2, 64), 60.0)
    keys[0, 0, 1] = -60.0
    found, total = attend(query, keys, torch.tensor([[[[1.0] * 64, [0.0] * 64]]]), 1.0)
    assert torch.allclose(found, torch.ones_like(found)) and total.item() == pytest.approx(230_400)
