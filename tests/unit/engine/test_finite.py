"""A target that overflows at some position: every call raises an error instead of returning partial results."""

import functools
from pathlib import Path

import numpy as np
import pytest
import torch

from harness.core.errors import HarnessError
from harness.core.policy import Combination, Policy, PrefixView
from tests.unit.engine.conftest import load_on
from tests.unit.engine.overflow import save_overflowing
from tests.unit.engine.reference import decode_greedily


@pytest.fixture(scope="module", params=["neo", "plain"])
def folder(request: pytest.FixtureRequest, folders: dict[str, Path], tmp_path_factory) -> Path:
    """A model with finite weights that returns NaN from one position on."""
    return save_overflowing(folders[request.param], tmp_path_factory.mktemp("overflowing") / "model")


@pytest.fixture(scope="module")
def overflowing_on(folder):
    """Return a function that loads the model to a device."""
    return functools.cache(lambda device: load_on(device, folder))


@pytest.fixture
def overflowing(device, overflowing_on):
    return overflowing_on(device)


CALLS = {
    "greedy": lambda target, prefixes: target.sample(prefixes, Policy(top_k=1), length=6),
    "all tokens": lambda target, prefixes: target.sample(prefixes, trials=3, length=6),
    "top-k": lambda target, prefixes: target.sample(prefixes, Policy(top_k=10), trials=3, length=6),
    "top-p": lambda target, prefixes: target.sample(prefixes, Policy(top_p=0.7), trials=3, length=6),
    "typical": lambda target, prefixes: target.sample(prefixes, Policy(top_k=24, typical_p=0.9), trials=3, length=6),
    "width": lambda target, prefixes: target.search(prefixes, 3, length=6),
    "least": lambda target, prefixes: target.search(prefixes, least=1e-3, length=6),
    "walk": lambda target, prefixes: target.walk(prefixes, decode_greedily, length=6),
    "score": lambda target, prefixes: target.score(prefixes, prefixes[:, :6]),
    "average": lambda target, prefixes: target.viewed([PrefixView(), PrefixView(shift=1)]).sample(prefixes, length=6),
    "votes": lambda target, prefixes: target.viewed([PrefixView(), PrefixView(start=1)], Combination.VOTES).search(
        prefixes, 2, length=6
    ),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_overflow_within_a_suffix_is_an_error(overflowing, prefixes, call):
    with pytest.raises(HarnessError, match=r"returned NaN.* in float32\. Its weights are damaged or") as error:
        call(overflowing, prefixes)
    assert "\n" not in str(error.value)


def test_suffixes_before_the_overflow_are_returned(overflowing, prefixes):
    assert len(overflowing.sample(prefixes, Policy(top_k=1), length=2)) == len(prefixes)


class _Infinite(torch.nn.Module):
    """A head with one infinite logit."""

    def __init__(self, head: torch.nn.Module) -> None:
        super().__init__()
        self.head = head

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        logits = self.head(states)
        logits[..., 7] = torch.inf
        return logits


@pytest.mark.parametrize("name", ["greedy", "top-k", "width", "score"])
def test_an_infinite_logit_is_an_error(neo, prefixes, monkeypatch, name):
    monkeypatch.setattr(neo.runner, "head_product", _Infinite(neo.runner.head))
    with pytest.raises(HarnessError, match="returned NaN"):
        CALLS[name](neo, np.where(prefixes == 7, 8, prefixes))
