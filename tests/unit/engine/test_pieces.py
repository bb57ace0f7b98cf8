"""A model in pieces on several devices computes what it computes on one."""

import random
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from harness.core.errors import HarnessError
from harness.core.examples import Schedule
from harness.core.policy import Policy, PrefixView
from harness.engine.loading import load_target
from harness.engine.pieces import balance, split_model
from harness.engine.prompt_tuning import PromptTuning
from harness.engine.target import Target
from tests.tools.devices import DEVICES, open_devices
from tests.tools.fake_gpu import FakeGpu
from tests.tools.tiers import first_is_fast
from tests.unit.engine.architectures import KNOWN, UNKNOWN, random_model
from tests.unit.engine.conftest import CONFIGURATIONS, configurations, save_model
from tests.unit.engine.reference import decode_greedily, examples_of_a_prompt

_POLICY = Policy(top_k=10)
_LENGTH = 4
_COHERE = CONFIGURATIONS["cohere2"]


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> Iterator[list[torch.device]]:
    """Three devices."""
    with open_devices(request.param, 3) as devices:
        yield devices


def _load(folder: Path, devices: list[torch.device]) -> Target:
    shards = [str(device) for device in devices]
    return load_target(folder, shards=shards, dtype="float32", rows_at_once=32, threads=1)


def _save(configuration: Any, folder: Path) -> Path:
    random_model(configuration).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("name", first_is_fast(KNOWN, rest=pytest.mark.slow))
def test_two_pieces_give_what_one_gives(device, tmp_path, prefixes, name):
    folder = _save(KNOWN[name], tmp_path)
    one, two = _load(folder, device[:1]), _load(folder, device[:2])
    assert one.pieces == ()
    assert [(piece.device, piece.numbers) for piece in two.pieces] == [
        (device[0], slice(0, 1)),
        (device[1], slice(1, 2)),
    ]
    assert two.runner.decoder is not None
    _require_equal(two, one, prefixes)


@pytest.mark.parametrize("configuration", [*UNKNOWN.values(), _COHERE], ids=[*UNKNOWN, "cohere2"])
@pytest.mark.filterwarnings("ignore:the engine's own decoder")
def test_models_with_their_own_code_can_be_split(device, tmp_path, prefixes, configuration):
    folder = _save(configuration, tmp_path)
    one, two = _load(folder, device[:1]), _load(folder, device[:2])
    assert two.runner.decoder is None
    _require_equal(two, one, prefixes)


def _require_equal(found: Target, wanted: Target, prefixes: np.ndarray) -> None:
    """Compare draws, a search, scores, and each kind of view of two targets."""
    width = wanted.model.get_input_embeddings().embedding_dim
    prompt = np.random.default_rng(5).normal(size=(3, width)).astype(np.float32)
    views = [PrefixView(), PrefixView(start=4, shift=2), PrefixView(prompt=prompt)]
    calls = (
        lambda target: target.sample(prefixes[:4], _POLICY, trials=4, seed=2, length=_LENGTH),
        lambda target: target.sample(prefixes[:4], Policy(top_k=1), length=_LENGTH),
        lambda target: target.viewed(views).sample(prefixes[:4], _POLICY, trials=3, seed=3, length=_LENGTH),
        lambda target: target.search(prefixes[:2], width=6, length=_LENGTH),
        lambda target: target.score(prefixes, prefixes[:, :6]),
    )
    for call in calls:
        one, two = call(wanted), call(found)
        if hasattr(one, "suffixes"):
            assert np.array_equal(two.suffixes, one.suffixes)
        assert np.allclose(two.token_logprobs, one.token_logprobs, atol=1e-4)
    walked = [target.walk(prefixes[:4], decode_greedily, length=_LENGTH) for target in (wanted, found)]
    assert np.array_equal(*walked)


def test_a_soft_prompt_is_trained_through_all_pieces(device, tmp_path):
    folder = save_model(CONFIGURATIONS["llama"], tmp_path, seed=7)
    train = examples_of_a_prompt()
    prompts = []
    for devices in (device[:1], device[:2]):
        tuning = PromptTuning(_load(folder, devices), 3, Schedule(0.05))
        losses = [tuning.step(train.prefixes, train.suffixes, lambda losses: losses.mean(dim=1)) for _ in range(3)]
        assert losses[2] < losses[0]
        prompts.append(tuning.prompt)
    assert np.allclose(*prompts, atol=1e-4)


def test_a_piece_in_the_middle_has_other_devices_on_both_sides(device, tmp_path, prefixes):
    shape = configurations(61, width=32, heads=4, window=8, spread=0.3)["llama"]
    shape.num_hidden_layers = 6
    folder = save_model(shape, tmp_path, seed=7)
    one, three = _load(folder, device[:1]), _load(folder, device)
    assert [len(piece) for piece in three.pieces] == [2, 2, 2]
    _require_equal(three, one, prefixes)


@pytest.mark.skipif(torch.cuda.is_available(), reason="a fake GPU counts, and this machine has a real one")
def test_weights_go_straight_to_their_device():
    model = random_model(KNOWN["gpt2"])
    tensors = {id(tensor) for tensor in (*model.parameters(), *model.buffers())}
    with FakeGpu(2) as gpu:
        split_model(model, [torch.device("cuda", 0), torch.device("cuda", 1)])
        assert (gpu.count("upload"), gpu.count("peer copy")) == (len(tensors), 0)
        blocks = [{parameter.device.index for parameter in block.parameters()} for block in model.transformer.h]
        assert blocks == [{0}, {1}]
        rest = (model.transformer.wte, model.transformer.wpe, model.transformer.ln_f, model.lm_head)
        assert {parameter.device.index for module in rest for parameter in module.parameters()} == {0}
    assert model.lm_head.weight is model.transformer.wte.weight


def test_the_largest_piece_is_as_small_as_possible():
    rng = random.Random(4)
    for _ in range(200):
        sizes = [rng.randrange(1, 20) for _ in range(rng.randrange(1, 8))]
        pieces, rest = rng.randrange(1, len(sizes) + 1), rng.randrange(40)

        def largest(counts: tuple[int, ...], sizes: list[int] = sizes, rest: int = rest) -> int:
            ends = np.cumsum(counts)
            found = [sum(sizes[end - count : end]) for end, count in zip(ends, counts, strict=True)]
            return max(found[0] + rest, *found)

        cuts = [(0, *cut, len(sizes)) for cut in combinations(range(1, len(sizes)), pieces - 1)]
        found = balance(sizes, rest, pieces)
        assert sum(found) == len(sizes) and len(found) == pieces and min(found) >= 1
        assert largest(found) == min(largest(tuple(np.diff(cut))) for cut in cuts)


def test_more_devices_than_blocks_are_refused(folders):
    with pytest.raises(HarnessError, match=r"^a model of 2 blocks cannot be split over 3 devices: .*neo\. Name fewer"):
        _load(folders["neo"], [torch.device("cpu")] * 3)


def test_a_model_without_a_list_of_blocks_is_refused():
    model = random_model(KNOWN["gpt2"])
    model.transformer.h = nn.Sequential(*model.transformer.h)
    with pytest.raises(
        HarnessError, match=r"^GPT2LMHeadModel models cannot be split over devices: .*\. Use one device"
    ):
        split_model(model, [torch.device("cpu")] * 2)
