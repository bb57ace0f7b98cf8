"""The tokens that each attack chooses, compared with a slow implementation that uses the model's logits."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from harness.core.errors import HarnessError
from harness.core.examples import Training
from harness.core.policy import Policy
from tests.unit.attacks.running import SmallContext, attack_of, run
from tests.unit.engine.reference import exact_probabilities, to_device

LENGTH = 6


def _logprobs(target, tokens: np.ndarray, shift: int = 0) -> np.ndarray:
    """Return the log-probabilities of the token after each position of `tokens`, [length, vocabulary]."""
    tensor = to_device(target, tokens)[None]
    positions = torch.arange(tensor.shape[1], device=target.device)[None] + shift
    with torch.inference_mode():
        logits = target.model(tensor, position_ids=positions, use_cache=False).logits[0].float()
    return torch.log_softmax(logits, dim=-1).cpu().numpy()


def _directions(neo, tokens: np.ndarray) -> np.ndarray:
    """Return the normalized last hidden states, [length, width]."""
    with torch.inference_mode():
        states = neo.model.base_model(to_device(neo, tokens)[None]).last_hidden_state[0]
    return torch.nn.functional.normalize(states, dim=-1).cpu().numpy()


@pytest.fixture
def context(neo, prefixes):
    return SmallContext(neo, prefixes[:5], LENGTH)


def _steps(context, guesses) -> Iterator[tuple[np.ndarray, int]]:
    """Yield each token that an attack chose for one of five examples, after the tokens before it."""
    assert sorted(guesses.ids.tolist()) == list(range(5))
    for example, suffix in zip(guesses.ids, guesses.suffixes, strict=True):
        for position, token in enumerate(suffix):
            yield np.concatenate([context.prefixes[example], suffix[:position]]), token


def test_greedy_ranks_by_the_mean_log_probability(neo, context):
    guesses = run("greedy", context)
    for row, suffix, score in zip(guesses.ids, guesses.suffixes, guesses.score, strict=True):
        logprobs = _logprobs(neo, np.concatenate([context.prefixes[row], suffix]))[len(context.prefixes[row]) - 1 : -1]
        assert (suffix == logprobs.argmax(axis=1)).all()
        assert score == pytest.approx(logprobs.max(axis=1).mean(), abs=1e-5)


@pytest.mark.parametrize("name", ["baseline", "sampling"])
def test_the_first_trials_of_a_run_are_those_of_a_shorter_one(context, name):
    (more,), (fewer,) = ([*attack_of(name, trials=trials, top_k=3).run(context)] for trials in (9, 2))
    first = more.part(np.flatnonzero(more.trial <= 2))
    assert more.trial.min() == 1 and more.trial.max() > 2
    assert (first.ids == fewer.ids).all() and (first.suffixes == fewer.suffixes).all()


@pytest.mark.parametrize(("loss_slice", "first"), [("official", -1), ("corrected", 0)])
def test_the_baseline_ranks_by_the_loss_of_its_window(neo, context, loss_slice, first):
    context.guesses_per_example = 0
    attack = attack_of("baseline", trials=4, top_k=3, loss_slice=loss_slice)
    for guesses in attack.run(context):
        for row, suffix, score in zip(guesses.ids, guesses.suffixes, guesses.score, strict=True):
            tokens = np.concatenate([context.prefixes[row], suffix])
            start = len(context.prefixes[row])
            logprobs = _logprobs(neo, tokens[:-1])
            places = np.arange(start, len(tokens))
            ranks = (logprobs[places - 1] > logprobs[places - 1, tokens[places], None]).sum(axis=1)
            assert ranks.max() < 3
            # The official window begins with the prefix's last token and ends before the suffix's.
            window = np.arange(start + first, start + first + LENGTH)
            assert score == pytest.approx(logprobs[window - 1, tokens[window]].mean(), abs=1e-5)


def test_windows_vote_with_five_points_for_the_likeliest_token(neo, context):
    for sequence, token in _steps(context, run("window", context, windows=3, stride=2)):
        windows = np.stack([_logprobs(neo, sequence[start:])[-1] for start in (0, 2, 4)])
        points = np.zeros(61)
        for window in windows:
            points[np.argsort(-window)[:5]] += [5, 4, 3, 2, 1]
        best = np.flatnonzero(points == points.max())
        assert token == best[np.argmax(windows.mean(axis=0)[best])]


def test_windows_average_weighted_log_probabilities(neo, context):
    for sequence, token in _steps(context, run("window", context, windows=3, combine="logits", decay=0.5)):
        assert token == np.argmax(sum(0.5**start * _logprobs(neo, sequence[start:])[-1] for start in range(3)))


def test_windows_that_leave_fewer_than_two_tokens_are_refused(context):
    with pytest.raises(HarnessError, match="leave fewer than two tokens of a prefix of 12"):
        run("window", context, windows=4, stride=4)


def test_shifted_positions_are_averaged(neo, context):
    for sequence, token in _steps(context, run("position_shift", context, shifts=3, step=5)):
        assert token == np.argmax(sum(_logprobs(neo, sequence, shift)[-1] for shift in (0, 5, 10)))


def test_choose_uses_the_likeliest_shift_of_each_prefix(neo, context):
    for sequence, token in _steps(context, run("position_shift", context, shifts=3, step=5, combine="choose")):
        prefix = sequence[:12]
        likelihood = [_logprobs(neo, prefix, shift)[np.arange(11), prefix[1:]].sum() for shift in (0, 5, 10)]
        assert token == np.argmax(_logprobs(neo, sequence, 5 * int(np.argmax(likelihood)))[-1])


@pytest.mark.parametrize("weight", [0.0, 0.5, 2.0])
def test_lookahead_adds_the_best_successor(neo, context, weight):
    for sequence, token in _steps(context, run("lookahead", context, candidates=3, weight=weight)):
        own = _logprobs(neo, sequence)[-1]
        candidates = np.argsort(-own)[:3]
        ahead = [_logprobs(neo, np.append(sequence, each))[-1].max() for each in candidates]
        is_last = len(sequence) == 12 + LENGTH - 1
        assert token == candidates[np.argmax(own[candidates] + (0 if is_last else weight) * np.array(ahead))]


def test_contrastive_search_penalises_similar_states(neo, context):
    is_greedy = []
    for sequence, token in _steps(context, run("contrastive", context, top_k=4, penalty=0.6)):
        own = _logprobs(neo, sequence)[-1]
        candidates = np.argsort(-own)[:4]
        scores = []
        for each in candidates:
            states = _directions(neo, np.append(sequence, each))
            scores.append(0.4 * np.exp(own[each]) - 0.6 * (states[:-1] @ states[-1]).max())
        assert token == candidates[np.argmax(scores)]
        is_greedy.append(token == candidates[0])
    assert not all(is_greedy)


def test_contrastive_search_without_a_penalty_is_greedy(neo, context):
    found = run("contrastive", context, penalty=0.0)
    assert (found.suffixes == neo.sample(context.prefixes[found.ids], Policy(top_k=1), length=LENGTH).suffixes).all()


def test_enumerate_ranks_by_exact_probability(neo, prefixes):
    context = SmallContext(neo, prefixes[:1], 2)
    attack = attack_of("enumerate", width=25, top_k=5, rank_by="policy")
    (guesses,) = attack.run(context)
    exact = exact_probabilities(neo, prefixes[0], Policy(top_k=5), length=2)
    assert len(guesses) == 25 and (exact > 0).sum() == 25
    assert np.allclose(np.exp(guesses.score), exact[tuple(guesses.suffixes.T)], atol=1e-6)
    assert (np.diff(guesses.score) <= 0).all()


def test_shorter_prefixes_add_candidates(neo, prefixes):
    context = SmallContext(neo, prefixes[:3], LENGTH)
    (guesses,) = attack_of("multi_prefix", lengths="50, 6,4", width=2).run(context)
    for row in range(3):
        expected = set()
        for length in (12, 6, 4):
            found = neo.search(prefixes[row : row + 1, -length:], 2, length=LENGTH)
            expected |= {tuple(suffix) for suffix in found.suffixes.tolist()}
        selected = guesses.ids == row
        assert {tuple(suffix) for suffix in guesses.suffixes[selected].tolist()} == expected
        assert len(expected) > 2
    scored = neo.score(prefixes[guesses.ids], guesses.suffixes)
    assert np.allclose(guesses.score, scored.token_logprobs.mean(axis=1), atol=1e-4)


def test_sampling_uses_the_published_policy(neo, prefixes):
    context = SmallContext(neo, prefixes[:3], LENGTH)
    attack = attack_of("sampling", trials=8)
    (guesses,) = attack.run(context)
    policy = Policy(top_k=24, top_p=0.8, typical_p=0.9, temperature=0.58, repetition_penalty=1.04)
    drawn = neo.sample(prefixes[:3], policy, trials=8, length=LENGTH)
    assert (guesses.suffixes == drawn.suffixes).all() and (guesses.ids == drawn.row).all()
    assert np.allclose(guesses.score, drawn.token_logprobs.mean(axis=1))


@pytest.mark.parametrize("ranker", ["mean_loss", "official_loss", "cumulative", "zlib", "high_confidence", "surprise"])
@pytest.mark.parametrize("name", ["sampling", "window"])
def test_every_ranker_works_with_every_sampling_attack(context, name, ranker):
    guesses = run(name, context, ranker=ranker)
    assert len(guesses) == 5 and np.isfinite(guesses.score).all() and (np.diff(guesses.score) <= 0).all()


def test_lookup_copies_continuations_from_training_rows(prefixes):
    rows = np.random.default_rng(1).integers(0, 61, (4, 30)).astype(np.uint16)
    training = Training(rows[:, 6:18], rows[:, 18:24], rows[:, :6], np.arange(4))
    attacked = np.stack([rows[2, 10:22], prefixes[0]])
    guesses = run("lookup", SmallContext(None, attacked, 2, training))
    assert guesses.ids.tolist() == [0, 1]
    assert (guesses.suffixes[0] == rows[2, 22:24]).all() and guesses.score.tolist() == [2, 0]
    assert attack_of("lookup").control
