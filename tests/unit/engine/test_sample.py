import itertools

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from harness.core.errors import HarnessError
from harness.core.policy import Policy, PrefixView
from harness.engine import decoder, sampling
from harness.engine.loading import load_target
from harness.engine.results import Samples
from harness.engine.shaping import apply_policy
from harness.engine.target import Target
from tests.bench.optimizations import disablers
from tests.tools.devices import only_on_gpu, slow_on_gpu
from tests.unit.engine.conftest import load_on
from tests.unit.engine.reference import exact_probabilities, model_logprobs, plain_draws, to_device

POLICIES = [
    Policy(),
    Policy(top_k=10),
    Policy(top_k=24, top_p=0.8, typical_p=0.9, temperature=0.58, repetition_penalty=1.2),
    Policy(typical_p=0.7),
    Policy(top_p=0.9),
]


def _assert_same(found: Samples, wanted: Samples) -> None:
    assert (found.row == wanted.row).all() and (found.suffixes == wanted.suffixes).all()
    assert (found.count == wanted.count).all() and (found.first == wanted.first).all()
    assert np.allclose(found.token_logprobs, wanted.token_logprobs, atol=1e-5)
    assert np.allclose(found.policy_logprob, wanted.policy_logprob, atol=1e-4)
    assert np.allclose(found.last_prefix_logprob, wanted.last_prefix_logprob, atol=1e-5)


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_counts_sum_to_the_trials_and_rows_are_distinct_and_ordered(target, prefixes, policy):
    found = target.sample(prefixes, policy, trials=13, seed=1, length=4)
    assert found.suffixes.dtype == np.uint16 and found.suffixes.shape == (len(found), 4)
    assert (np.bincount(found.row, found.count, len(prefixes)) == 13).all() and found.count.min() >= 1
    rows = np.column_stack([found.row, found.suffixes])
    assert (np.unique(rows, axis=0) == rows).all()


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_rows_at_once_changes_no_draw(target, prefixes, policy):
    # Two of these three prefixes are equal, so at most 12 branches grow.
    few = prefixes[[2, 5, 7]]
    wanted = target.sample(few, policy, trials=6, seed=2, length=4)
    for rows_at_once in (1, 4, 8):
        target.rows_at_once = rows_at_once
        _assert_same(target.sample(few, policy, trials=6, seed=2, length=4), wanted)
        assert target.rows_at_once == rows_at_once


def test_grouping_and_type_of_prefixes_change_no_draw(target, prefixes):
    wanted = target.sample(prefixes, Policy(top_k=10), trials=6, seed=2, length=5)
    order = np.array([4, 7, 0, 2, 8, 1, 3, 6, 5])
    for group in np.split(order, [1, 3, 8]):
        found = target.sample(prefixes[group].astype(np.int64), Policy(top_k=10), trials=6, seed=2, length=5)
        for place, row in enumerate(group):
            assert (found.suffixes[found.row == place] == wanted.suffixes[wanted.row == row]).all()
            assert (found.count[found.row == place] == wanted.count[wanted.row == row]).all()


def test_more_trials_and_longer_suffixes_keep_the_earlier_draws(neo, prefixes):
    short = neo.sample(prefixes, trials=4, seed=3, length=3)
    more = neo.sample(prefixes, trials=9, seed=3, length=3)
    longer = neo.sample(prefixes, trials=4, seed=3, length=6)
    rows = {
        (row, *suffix): count for row, suffix, count in zip(more.row, more.suffixes.tolist(), more.count, strict=True)
    }
    for row, suffix, count in zip(short.row, short.suffixes.tolist(), short.count, strict=True):
        assert rows[(row, *suffix)] >= count
    beginnings = {(row, *suffix[:3]) for row, suffix in zip(longer.row, longer.suffixes.tolist(), strict=True)}
    assert beginnings == {(row, *suffix) for row, suffix in zip(short.row, short.suffixes.tolist(), strict=True)}


def test_seeds_differ(neo, prefixes):
    first, second = (neo.sample(prefixes, seed=seed, length=8) for seed in (0, 1))
    assert not (first.suffixes == second.suffixes).all(axis=1).any()


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_log_probabilities_equal_those_of_score(target, prefixes, policy):
    found = target.sample(prefixes, policy, trials=4, seed=5, length=10)
    scored = target.score(prefixes[found.row], found.suffixes)
    assert np.allclose(found.token_logprobs, scored.token_logprobs, atol=1e-4)
    assert np.allclose(found.last_prefix_logprob[found.row], scored.last_prefix_logprob, atol=1e-4)

    whole = np.concatenate([prefixes[found.row], found.suffixes], axis=1)
    logprobs = np.take_along_axis(model_logprobs(target, whole).numpy()[:, :-1], whole[:, 1:, None].astype(int), 2)[
        ..., 0
    ]
    assert np.allclose(found.token_logprobs, logprobs[:, -10:], atol=1e-4)
    assert np.allclose(found.last_prefix_logprob[found.row], logprobs[:, -11], atol=1e-4)


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_policy_log_probabilities_equal_those_of_apply_policy(target, prefixes, policy):
    found = target.sample(prefixes, policy, trials=4, seed=5, length=4)
    whole = to_device(target, np.concatenate([prefixes[found.row], found.suffixes], axis=1))
    with torch.inference_mode():
        logits = target.model(whole).logits.float()
    wanted = torch.zeros(len(found), dtype=torch.float64, device=target.device)
    for position in range(12, 16):
        support = apply_policy(logits[:, position - 1], policy, whole[:, :position])
        ids = torch.arange(61, device=target.device).expand(len(found), -1) if support.ids is None else support.ids
        is_drawn = (ids == whole[:, position : position + 1]) & ~support.logprobs.isinf()
        assert (is_drawn.sum(1) == 1).all()
        wanted += support.logprobs[is_drawn]
    assert np.allclose(found.policy_logprob, wanted.cpu().numpy(), atol=1e-4)


def _chi_square_p(observed: np.ndarray, expected: np.ndarray) -> float:
    """The probability of counts at least this far from those expected, cells below five expected ones pooled."""
    observed, expected = np.asarray(observed, float), np.asarray(expected, float)
    is_small = expected < 5
    if is_small.any():
        observed = np.append(observed[~is_small], observed[is_small].sum())
        expected = np.append(expected[~is_small], expected[is_small].sum())
    if expected[-1] == 0:
        if observed[-1]:
            return 0.0
        observed, expected = observed[:-1], expected[:-1]
    statistic = float(((observed - expected) ** 2 / expected).sum())
    return float(torch.special.gammaincc(torch.tensor((len(expected) - 1) / 2).double(), torch.tensor(statistic / 2)))


@pytest.mark.parametrize("policy", [*POLICIES, Policy(top_p=0.9, temperature=2, decay_tokens=3)], ids=repr)
def test_the_tree_contains_exactly_the_independent_draws(target, prefixes, policy):
    found = target.sample(prefixes[:4], policy, trials=9, seed=6, length=7)
    for row in range(4):
        draws = plain_draws(target, prefixes[row], policy, trials=9, seed=6, length=7)
        wanted, first, count = np.unique(draws, axis=0, return_index=True, return_counts=True)
        assert (found.suffixes[found.row == row] == wanted).all() and (found.count[found.row == row] == count).all()
        assert (found.first[found.row == row] == first).all()


def test_equal_draws_share_a_forward_pass(neo, prefixes):
    neo.rows_at_once = 128
    before = neo.evaluations
    found = neo.sample(prefixes[:2], Policy(top_k=2, temperature=0.2), trials=50, seed=1, length=10)
    branches = sum(len(np.unique(np.column_stack([found.row, found.suffixes[:, :step]]), axis=0)) for step in range(10))
    assert neo.evaluations - before == branches < 2 * 50 * 10


@pytest.mark.parametrize("rows_at_once", [13, 20, 40])
def test_a_crowded_group_finishes_its_first_prefixes_and_then_the_others(neo, prefixes, monkeypatch, rows_at_once):
    wanted = neo.sample(prefixes, trials=12, seed=2, length=5)
    neo.rows_at_once = rows_at_once
    # Every draw differs, so that many more branches grow than the first group expects.
    monkeypatch.setattr(sampling, "_EXPECTED_SHARE", 0.1)
    live = []
    advance = neo.runner.advance

    def counted(branches, tokens, parents):
        live.append(len(parents))
        return advance(branches, tokens, parents)

    monkeypatch.setattr(neo.runner, "advance", counted)
    _assert_same(neo.sample(prefixes, trials=12, seed=2, length=5), wanted)
    assert max(live) <= rows_at_once


def test_most_of_the_reserved_rows_are_alive(neo, prefixes, monkeypatch):
    neo.rows_at_once = 4096
    shares = []
    advance = neo.runner.advance

    def counted(branches, tokens, parents):
        states = advance(branches, tokens, parents)
        shares.append((len(parents), branches.reserved))
        return states

    monkeypatch.setattr(neo.runner, "advance", counted)
    neo.sample(prefixes, Policy(top_k=10, temperature=0.3), trials=100, seed=2, length=20)
    live, reserved = np.sum(shares, axis=0)
    assert live / reserved >= 0.75


def test_no_optimization_changes_a_draw(neo, prefixes):
    wanted = neo.sample(prefixes, Policy(top_k=10), trials=6, seed=2, length=4)
    for disable in disablers(neo).values():
        with disable():
            _assert_same(neo.sample(prefixes, Policy(top_k=10), trials=6, seed=2, length=4), wanted)


@pytest.mark.parametrize(
    "policy", [Policy(), Policy(top_k=5, temperature=1.5), Policy(top_p=0.7, repetition_penalty=1.5)], ids=repr
)
def test_frequencies_match_the_policy_and_detect_a_wrong_sampler(neo, prefixes, policy):
    neo.rows_at_once = 1024
    trials = 4000
    expected = trials * exact_probabilities(neo, prefixes[0], policy, length=2)

    def frequencies(drawn: Samples) -> np.ndarray:
        counts = np.zeros((61, 61))
        np.add.at(counts, (drawn.suffixes[:, 0], drawn.suffixes[:, 1]), drawn.count)
        return counts

    right = frequencies(neo.sample(prefixes[:1], policy, trials=trials, seed=11, length=2))
    assert _chi_square_p(right.ravel(), expected.ravel()) > 1e-3
    warmer = policy.model_copy(update={"temperature": policy.temperature * 1.3})
    wrong = frequencies(neo.sample(prefixes[:1], warmer, trials=trials, seed=11, length=2))
    assert _chi_square_p(wrong.ravel(), expected.ravel()) < 1e-6


def _greedy_by_hugging_face(target: Target, prefixes: np.ndarray, **options: object) -> np.ndarray:
    """The suffixes of 20 tokens that `generate` decodes greedily."""
    tokens = to_device(target, prefixes)
    options |= {"attention_mask": torch.ones_like(tokens), "do_sample": False, "pad_token_id": 0}
    return target.model.generate(tokens, max_new_tokens=20, **options)[:, prefixes.shape[1] :].cpu().numpy()


def test_greedy_equals_hugging_face(target, prefixes):
    found = target.sample(prefixes, Policy(top_k=1), trials=3, length=20)
    wanted = _greedy_by_hugging_face(target, prefixes, min_new_tokens=20)
    # `min_new_tokens` forbids the end-of-text token, which the engine treats like any other.
    ends = np.isin(found.suffixes, np.atleast_1d(target.model.generation_config.eos_token_id)).any(axis=1)
    assert (found.suffixes == wanted)[~ends].all() and (~ends).sum() >= 3
    assert (found.count == 3).all() and (found.row == np.arange(9)).all()


@slow_on_gpu
def test_greedy_equals_hugging_face_on_the_surrogate(device, surrogate_folder):
    target = load_on(device, surrogate_folder / "surrogate-11m")
    prefixes = np.load(surrogate_folder / "satml" / "train_prefix.npy", mmap_mode="r")[14000:14016]
    found = target.sample(prefixes, Policy(top_k=1), length=20)
    assert (found.suffixes == _greedy_by_hugging_face(target, prefixes, eos_token_id=None)).all()


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory."),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes."),
        MemoryError(),
    ],
    ids=["cuda", "cpu", "python"],
)
def test_out_of_memory_restarts_the_call_with_half_the_rows(neo, prefixes, fail_passes, error):
    wanted = neo.sample(prefixes, Policy(top_k=10), trials=6, seed=2, length=5)
    # Fail in the middle of a call, so that partial results are discarded.
    calls = itertools.count(1)
    fail_passes(lambda rows: next(calls) % 5 == 4 and len(rows) > 4, error)
    found = neo.sample(prefixes, Policy(top_k=10), trials=6, seed=2, length=5)
    assert neo.rows_at_once == 4
    _assert_same(found, wanted)


def test_calls_and_steps_are_reported(neo, prefixes, monkeypatch):
    class Progress:
        def __init__(self) -> None:
            self.calls = 0
            self.steps: list[tuple[float, str]] = []

        def record_call(self) -> None:
            self.calls += 1

        def record_step(self, share: float, step: str) -> None:
            self.steps.append((share, step))

    monkeypatch.setattr(neo, "progress", Progress())
    neo.rows_at_once = 8
    neo.sample(prefixes, length=2)
    # Two of nine prefixes are equal.
    assert neo.progress.steps[-1] == (1.0, "8 prefixes, token 2 of 2")
    neo.rows_at_once = 4
    neo.score(prefixes, prefixes)
    assert neo.progress.calls == 2
    assert neo.progress.steps[-1] == (1.0, "sequence 9 of 9")


@pytest.mark.parametrize("method", ["sample", "search"])
def test_the_reported_share_of_a_call_grows_to_all_of_it(neo, prefixes, monkeypatch, method):
    shares: list[float] = []
    monkeypatch.setattr(neo, "report_step", lambda share, step: shares.append(share))
    neo.rows_at_once = 4
    if method == "sample":
        neo.sample(prefixes, trials=10, length=3)
    else:
        neo.search(prefixes, width=2, length=3)
    assert len(shares) > 6 and shares[-1] == pytest.approx(1.0)
    # A search that has too many branches begins again with half of its prefixes.
    assert method == "search" or shares == sorted(shares)


def test_memory_that_runs_out_for_views_is_remembered(neo, prefixes, fail_passes):
    views = [PrefixView(), PrefixView(start=2)]
    fail_passes(lambda rows: len(rows) > 4)
    neo.viewed(views).sample(prefixes, Policy(top_k=10), trials=6, seed=2, length=5)
    assert neo.viewed(views).rows_at_once <= 4 and neo.rows_at_once == 2 * neo.viewed(views).rows_at_once


def test_scoring_keeps_no_keys_and_values(neo, prefixes, monkeypatch):
    def kept(*arguments):
        raise AssertionError("keys and values were stored")

    monkeypatch.setattr(decoder, "SharedBranches", kept)
    assert np.isfinite(neo.score(prefixes, prefixes).token_logprobs).all()


def test_too_little_memory_for_one_row_is_an_error(neo, prefixes, fail_passes):
    fail_passes(lambda rows: True)
    with pytest.raises(HarnessError, match="one sequence at a time"):
        neo.sample(prefixes, length=5)


def test_other_model_errors_are_not_out_of_memory(neo, prefixes, fail_passes):
    fail_passes(lambda rows: True, RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
    with pytest.raises(RuntimeError, match="mat1"):
        neo.sample(prefixes, length=5)
    assert neo.rows_at_once == 32


def test_a_prefix_of_one_token_has_no_likelihood(target):
    found = target.sample(np.array([[5], [6]]), trials=2, length=3)
    assert np.isnan(found.last_prefix_logprob).all() and np.isfinite(found.token_logprobs).all()


def test_no_prefixes_give_no_samples(neo):
    found = neo.sample(np.empty((0, 12), np.uint16), trials=2, length=3)
    assert len(found) == 0 and found.suffixes.shape == (0, 3) and found.last_prefix_logprob.shape == (0,)


@pytest.mark.parametrize(
    ("prefixes_", "arguments", "sentence"),
    [
        (np.array([[61, 0]]), {}, "outside the target's vocabulary 0..60"),
        (np.array([[-1, 0]]), {}, "outside the target's vocabulary 0..60"),
        (np.array([[0.5, 0]]), {}, "must be integers"),
        (np.array([1, 2]), {}, "must be integers"),
        (np.empty((3, 0), np.int64), {}, "must be integers"),
        (np.array([[1, 2]]), {"trials": 0}, "trials and length of at least 1"),
        (np.array([[1, 2]]), {"length": 0}, "trials and length of at least 1"),
        (np.array([[1, 2]]), {"length": 63}, r"context of 64 tokens is shorter"),
    ],
)
def test_invalid_input_is_refused(neo, prefixes_, arguments, sentence):
    with pytest.raises(HarnessError, match=sentence):
        neo.sample(prefixes_, **{"length": 3, **arguments})


def test_a_suffix_may_fill_the_context(target):
    assert target.sample(np.array([[1, 2]]), length=62).suffixes.shape == (1, 62)


@only_on_gpu
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_a_gpu_keeps_the_laws(device, folders, prefixes, dtype):
    target = load_target(folders["neo"], device=str(device), dtype=dtype, rows_at_once=16)
    found = target.sample(prefixes, Policy(top_k=10), trials=7, seed=1, length=10)
    assert (np.bincount(found.row, found.count, len(prefixes)) == 7).all()
    scored = target.score(prefixes[found.row], found.suffixes)
    tolerance = 1e-4 if dtype == "float32" else 0.15
    assert np.allclose(found.token_logprobs, scored.token_logprobs, atol=tolerance)
    if dtype == "float32":
        on_cpu = AutoModelForCausalLM.from_pretrained(folders["neo"]).eval()
        wanted = Target(on_cpu, rows_at_once=16).sample(prefixes, Policy(top_k=10), trials=7, seed=1, length=10)
        assert (found.suffixes == wanted.suffixes).all()
