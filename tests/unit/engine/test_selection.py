import pytest
import torch

from harness.engine.shaping import logsumexp, most_likely


@pytest.mark.parametrize("where", [0, 95, 96, 50_000, 50_207, 50_208, 50_256])
def test_a_single_high_score_is_found_at_any_position(device, where):
    scores = torch.zeros(2, 50_257, device=device)
    scores[1, where] = 1
    values, ids = most_likely(scores, 3)
    others = [column for column in range(4) if column != where]
    assert values.tolist() == [[0, 0, 0], [1, 0, 0]]
    assert ids.tolist() == [[0, 1, 2], [where, *others[:2]]]


def test_impossible_tokens_come_last_and_contribute_nothing(device):
    scores = torch.full((1, 5000), -torch.inf)
    scores[0, [7, 4321]] = torch.tensor([0.0, 1.0])
    scores = scores.to(device)
    values, ids = most_likely(scores, 3)
    assert ids.tolist() == [[4321, 7, 0]] and values.tolist() == [[1, 0, -torch.inf]]
    assert logsumexp(scores).item() == pytest.approx(1.3132617)
