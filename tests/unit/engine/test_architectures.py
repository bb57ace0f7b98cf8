"""Every architecture that the engine decodes itself computes what the model's own code computes."""

import functools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from harness.core.policy import Policy, PrefixView
from harness.engine.branches import Placement
from harness.engine.decoder import SharedBranches
from harness.engine.loading import load_target
from harness.engine.target import Target
from tests.tools.devices import only_on_cpu
from tests.tools.tiers import first_is_fast
from tests.unit.engine.architectures import KNOWN, UNKNOWN, VOCABULARY, random_model
from tests.unit.engine.conftest import load_on
from tests.unit.engine.reference import exact_probabilities, plain_draws

_POLICY = Policy(top_k=10)
# Longer than the windows of 8 tokens, which lie on the border between prefix and branch at first.
_LENGTH = 12


@pytest.fixture(scope="module", params=first_is_fast(KNOWN, rest=pytest.mark.slow))
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    random_model(KNOWN[request.param]).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def loaded() -> Callable[[torch.device, Path], Target]:
    """Return a function that loads each model once."""
    return functools.cache(load_on)


@pytest.fixture
def target(device: torch.device, folder: Path, loaded: Callable[[torch.device, Path], Target]) -> Target:
    target = loaded(device, folder)
    assert target.runner.decoder is not None
    return target


def test_draws_are_those_of_plain_sampling(target, prefixes):
    found = target.sample(prefixes[:2], _POLICY, trials=6, seed=2, length=_LENGTH)
    for row in range(2):
        drawn = plain_draws(target, prefixes[row], _POLICY, 6, 2, _LENGTH)
        wanted, count = np.unique(drawn, axis=0, return_counts=True)
        assert np.array_equal(found.suffixes[found.row == row], wanted)
        assert np.array_equal(found.count[found.row == row], count)


def test_log_probabilities_are_the_models_own(target, prefixes):
    greedy = target.sample(prefixes, Policy(top_k=1), length=_LENGTH)
    drawn = target.sample(prefixes, _POLICY, trials=3, seed=2, length=_LENGTH)
    for found in (greedy, drawn):
        scored = target.score(prefixes[found.row], found.suffixes)
        whole = np.concatenate([prefixes[found.row], found.suffixes], axis=1).astype(np.int64)
        with torch.inference_mode():
            logits = target.model(torch.as_tensor(whole, device=target.device), use_cache=False).logits
            logprobs = torch.log_softmax(logits[:, 11:-1].float(), dim=-1).cpu().numpy()
        wanted = np.take_along_axis(logprobs, whole[:, 12:, None], axis=2)[..., 0]
        assert np.allclose(found.token_logprobs, wanted, atol=1e-4)
        assert np.allclose(scored.token_logprobs, wanted, atol=1e-4)


def test_a_search_finds_the_likeliest_suffixes(target, prefixes):
    exact = exact_probabilities(target, prefixes[0], Policy(), length=2)
    found = target.search(prefixes[:1], width=VOCABULARY, length=2)
    assert np.allclose(np.exp(found.policy_logprob), exact[tuple(found.suffixes.T)], atol=1e-5)
    best = np.sort(exact.reshape(-1))[::-1]
    assert np.allclose(np.exp(found.policy_logprob), best[:VOCABULARY], atol=1e-5)


@pytest.mark.parametrize("name", ["start", "shift", "prompt"])
def test_views_are_those_of_the_models_code(target, prefixes, monkeypatch, name):
    width = target.model.get_input_embeddings().embedding_dim
    prompt = np.random.default_rng(5).normal(size=(3, width)).astype(np.float32)
    views = {"start": PrefixView(start=4), "shift": PrefixView(shift=5), "prompt": PrefixView(prompt=prompt)}
    shown = target.viewed([views[name]])
    found = shown.sample(prefixes[:4], _POLICY, trials=3, seed=3, length=4)
    monkeypatch.setattr(target.runner, "decoder", None)
    wanted = target.viewed([views[name]]).sample(prefixes[:4], _POLICY, trials=3, seed=3, length=4)
    assert np.array_equal(found.suffixes, wanted.suffixes)
    assert np.allclose(found.token_logprobs, wanted.token_logprobs, atol=1e-4)


def test_few_positions_are_copied(target, prefixes, monkeypatch):
    # A model with large weights is sure of most tokens, so draws repeat.
    copied = 0
    select = SharedBranches.select

    def counted(branches: SharedBranches, placement: Placement) -> None:
        nonlocal copied
        copied += len(placement.moved) * branches._grown
        select(branches, placement)

    monkeypatch.setattr(SharedBranches, "select", counted)
    before = target.evaluations
    target.sample(prefixes, Policy(top_k=10, temperature=0.3), trials=20, length=_LENGTH)
    assert copied <= target.evaluations - before


def test_16_bits_are_close_to_the_models_own(device, folder, target, prefixes):
    in_16_bits = load_target(folder, device=str(device), dtype="bfloat16", threads=1)
    # In a mixture, rounding can send a token to another expert, which counts as a difference.
    is_mixture = hasattr(target.model.config, "num_experts_per_tok")
    assert is_mixture or in_16_bits.runner.decoder is not None
    found = in_16_bits.sample(prefixes, Policy(top_k=1), length=_LENGTH)
    precise = target.score(prefixes[found.row], found.suffixes)
    assert np.abs(found.token_logprobs - precise.token_logprobs).mean() < 0.1


@only_on_cpu
def test_joined_weights_are_not_stored_twice(target):
    parameters = list(target.model.parameters())
    stored = {each.untyped_storage().data_ptr(): each.untyped_storage().nbytes() for each in parameters}
    assert sum(stored.values()) == sum(each.nbytes for each in parameters)


@pytest.mark.parametrize("name", UNKNOWN)
def test_other_models_run_with_their_own_code_and_a_warning(tmp_path, prefixes, name):
    random_model(UNKNOWN[name]).save_pretrained(tmp_path)
    with pytest.warns(UserWarning, match="own decoder is not used"):
        target = load_on(torch.device("cpu"), tmp_path)
    assert target.runner.decoder is None
    found = target.sample(prefixes[:1], _POLICY, trials=4, seed=2, length=4)
    wanted = np.unique(plain_draws(target, prefixes[0], _POLICY, 4, 2, 4), axis=0)
    assert np.array_equal(found.suffixes, wanted)
