import pytest
import torch

from harness.engine import kernels
from harness.engine.kernels import Product, attend, merge_parts


def _wanted(query, keys, values):
    scores = query.double() @ keys.double().transpose(-1, -2) * 0.7
    return torch.softmax(scores, dim=-1) @ values.double(), torch.logsumexp(scores, dim=-1)


@pytest.mark.parametrize("is_fused", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_attend_returns_weighted_values_and_the_normaliser(device, monkeypatch, is_fused, dtype):
    torch.manual_seed(0)
    query, keys, values = (torch.randn(3, 2, count, 8, dtype=dtype).to(device) for count in (4, 9, 9))
    if not is_fused:
        monkeypatch.setattr("harness.engine.kernels._has_fused_attention", lambda: False)
        monkeypatch.setattr("harness.engine.kernels._flash_runs_on", lambda query: False)
    found, total = attend(query, keys, values, 0.7)
    wanted, wanted_total = _wanted(query, keys, values)
    tolerance = 1e-5 if dtype is torch.float32 else 3e-2
    assert torch.allclose(found.double(), wanted, atol=tolerance)
    assert torch.allclose(total.double(), wanted_total, atol=tolerance)


def test_merged_parts_equal_attention_over_all_positions(device):
    torch.manual_seed(1)
    query, keys, values = (torch.randn(2, 3, count, 16).to(device) for count in (5, 20, 20))
    parts = [attend(query, keys[:, :, part], values[:, :, part], 1.0) for part in (slice(0, 7), slice(7, 20))]
    whole, _ = attend(query, keys, values, 1.0)
    assert torch.allclose(merge_parts(*parts), whole, atol=1e-5)


def test_scores_beyond_half_precision_stay_finite(device):
    query, keys = (torch.full((1, 1, count, 64), 60.0, device=device) for count in (1, 2))
    keys[0, 0, 1] = -60.0
    found, total = attend(query, keys, torch.tensor([[[[1.0] * 64, [0.0] * 64]]], device=device), 1.0)
    assert torch.allclose(found, torch.ones_like(found)) and total.item() == pytest.approx(230_400)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("is_packed", [True, False])
def test_a_product_adds_bias_activation_and_residual(monkeypatch, dtype, is_packed):
    if not is_packed:
        monkeypatch.setattr("harness.engine.kernels._is_packable", lambda weight: False)
    torch.manual_seed(2)
    states, weight, bias = (torch.randn(shape, dtype=dtype) for shape in ((5, 3, 16), (24, 16), (24,)))
    residual = torch.randn(5, 3, 24, dtype=dtype)
    wanted = states.double() @ weight.double().T + bias.double()
    tolerance = 1e-5 if dtype is torch.float32 else 6e-2
    with torch.inference_mode():
        gelu = Product(weight, bias, activation="gelu_new")(states)
        assert torch.allclose(gelu.double(), torch.nn.functional.gelu(wanted, approximate="tanh"), atol=tolerance)
        assert torch.allclose(Product(weight, bias)(states, plus=residual).double(), wanted + residual, atol=tolerance)
        assert torch.allclose(Product(weight)(states[0]).double(), (wanted - bias)[0], atol=tolerance)


@pytest.mark.parametrize("fault", [AttributeError("no such operation"), RuntimeError("not built"), None])
def test_weights_are_not_packed_if_the_private_operations_are_missing_or_wrong(monkeypatch, fault):
    def changed(*arguments):
        if fault is not None:
            raise fault
        return torch.zeros(1, 2)

    kernels._packs.cache_clear()
    monkeypatch.setattr(torch.ops.mkldnn, "_linear_pointwise", changed)
    weight, states = torch.randn(3, 4), torch.randn(2, 4)
    product = Product(weight)
    kernels._packs.cache_clear()
    assert product._packed is None
    assert torch.equal(product(states), torch.nn.functional.linear(states, weight))
