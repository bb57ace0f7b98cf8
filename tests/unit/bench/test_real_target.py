"""Orders of recorded trials: folds by cluster, distinct draws, features without answers, the published layout."""

import lzma

import numpy as np
import pytest

from harness.candidate_ranker import CandidateRanker, candidate_features, prior_features
from harness.core.errors import HarnessError
from tests.bench import measuring, real_target, recorded_trials
from tests.bench.real_target import distinct_draws, has_other_cluster, measured_after, shuffled_folds
from tests.bench.recorded_trials import TrainingRows, Trials
from tests.tools import data

EXAMPLES, TRIALS = 60, 20


def _trials() -> tuple[Trials, TrainingRows]:
    """Return trials of examples, two per cluster. The higher the number of an example, the more trials are right."""
    rng = np.random.default_rng(0)
    prefixes, answers = rng.integers(0, 100, (2, EXAMPLES, 50))
    suffixes = np.repeat(answers[:, None], TRIALS, axis=1)
    is_wrong = rng.random((EXAMPLES, TRIALS)) > np.arange(EXAMPLES)[:, None] / EXAMPLES
    suffixes[..., -3] += is_wrong * rng.integers(1, 4, (EXAMPLES, TRIALS))
    losses = (0.1 * suffixes[..., -3] / 100 + is_wrong).astype(np.float32)
    return Trials(suffixes.astype(np.uint16), losses), TrainingRows(prefixes, answers, np.arange(EXAMPLES) // 2)


@pytest.mark.parametrize("seed", range(3))
def test_no_cluster_is_in_two_folds(seed):
    clusters = np.random.default_rng(seed).integers(0, 300, 1_000) ** 2
    fold = shuffled_folds(clusters, 10, seed)
    assert all(len(np.unique(fold[clusters == cluster])) == 1 for cluster in np.unique(clusters))
    assert np.ptp(np.bincount(fold, minlength=10)) <= 10
    assert (fold == shuffled_folds(clusters, 10, seed)).all() and (fold != shuffled_folds(clusters, 10, seed + 1)).any()


def test_a_ranker_never_sees_the_clusters_that_it_judges(monkeypatch):
    trained = []

    class Spy(CandidateRanker):
        def __init__(self, features, is_right):
            trained.append(set(features[:, 0]))
            super().__init__(features, is_right)

        def probabilities(self, features):
            assert not trained[-1] & set(features[:, 0])
            return super().probabilities(features)

    monkeypatch.setattr(real_target, "CandidateRanker", Spy)
    row = np.repeat(np.arange(EXAMPLES), 2)
    clusters = np.arange(EXAMPLES) // 3
    features = np.column_stack([clusters[row], np.arange(len(row)) % 2]).astype(np.float64)
    orders = real_target.ranker_orders(features, np.arange(len(row)) % 2 == 1, row, clusters, 2)
    assert len(trained) == 20
    assert all(sorted(order) == list(range(1, len(row), 2)) for order in orders)


def test_features_do_not_depend_on_the_answers(monkeypatch):
    trials, attacked = _trials()
    seen = []

    def spy(features, is_right, row, clusters, seeds):
        seen.append((features, is_right))
        return real_target_orders(features, is_right, row, clusters, seeds)

    real_target_orders = real_target.ranker_orders
    monkeypatch.setattr(real_target, "ranker_orders", spy)
    permuted = attacked._replace(suffixes=np.random.default_rng(1).permutation(attacked.suffixes))
    prior = _prior()
    measured = measured_after(trials, attacked, None, prior, 1)
    permuted.suffixes[30:] = attacked.suffixes[30:]  # a ranker cannot be trained if all candidates are wrong
    measured_after(trials, permuted, None, prior, 1)
    assert (seen[0][0] == seen[1][0]).all() and (seen[0][1] != seen[1][1]).any()
    names = ("any_guess_correct", "any_candidate_correct", "exact_at_1_by_loss", "by_loss")
    shares = [measured.figures[name] for name in names]
    assert shares == sorted(shares, reverse=True) and shares[-1] > 0


def _prior() -> CandidateRanker:
    trials, attacked = _trials()
    row, suffixes, count, _, logprob = distinct_draws(trials)
    candidates = real_target.drawn_candidates(row, suffixes, count, logprob, kept=4)
    is_right = (candidates.suffixes == attacked.suffixes[candidates.row]).all(axis=1)
    return CandidateRanker(prior_features(candidate_features(attacked.prefixes, candidates)), is_right)


def test_a_prior_learns_from_no_cluster_of_the_attacked_rows():
    whole = real_target.training_rows() if real_target.SATML.is_dir() else _trials()[1]
    rows, attacked = whole.part(slice(-len(whole.prefixes) // 2)), whole.part(slice(-len(whole.prefixes) // 2, None))
    is_apart = has_other_cluster(rows, attacked)
    assert is_apart.any() and not set(rows.clusters[is_apart]) & set(attacked.clusters)
    assert set(rows.clusters[~is_apart]) <= set(attacked.clusters)


def test_distinct_draws_are_ordered_by_example_and_the_draws_give_the_last_token():
    suffixes = np.full((2, 4, 50), 300, np.uint16)
    suffixes[0, 1:, -1] = 2
    losses = np.array([[0.5, 0.5, 0.4, 0.5], [1, 1, 1, 1]], np.float32)
    row, drawn, count, loss, logprob = distinct_draws(Trials(suffixes, losses))
    assert row.tolist() == [0, 0, 1] and drawn[:, -1].tolist() == [2, 300, 300] and count.tolist() == [3, 1, 4]
    np.testing.assert_allclose(loss, [0.4, 0.5, 1], rtol=1e-6)
    np.testing.assert_allclose(logprob, -50 * loss + np.log([3.1 / 5, 1.1 / 5, 4.1 / 5]))


def test_the_published_layout_is_read_and_must_fit_the_prefixes(tmp_path):
    trials, attacked = _trials()
    for kind in ("generations", "losses"):
        (tmp_path / kind).mkdir()
    with pytest.raises(HarnessError, match="found 0 files"):
        real_target.published_trials(tmp_path, attacked.prefixes)
    for number in range(TRIALS):
        whole = np.concatenate([attacked.prefixes, trials.suffixes[:, number]], axis=1)
        np.save(tmp_path / "generations" / f"{number}.npy", whole)
        np.save(tmp_path / "losses" / f"{number}.npy", trials.losses[:, number, None])
    published = real_target.published_trials(tmp_path, attacked.prefixes)
    assert (published.suffixes == trials.suffixes).all() and (published.losses == trials.losses).all()
    with pytest.raises(HarnessError, match="are not those of the last"):
        real_target.published_trials(tmp_path, attacked.prefixes + 1)
    with pytest.raises(HarnessError, match="expected 59 rows"):
        real_target.published_trials(tmp_path, attacked.prefixes[1:])


def test_only_a_prior_needs_the_guesses_for_the_other_rows(monkeypatch):
    def what_is_missing(*folders):
        return "the guesses are missing." if real_target.RECORDED in folders else "the rows are missing."

    monkeypatch.setattr(real_target, "what_is_missing", what_is_missing)
    with pytest.raises(HarnessError, match="the guesses are missing"):
        real_target.measure(None, 1)
    with pytest.raises(HarnessError, match="the rows are missing"):
        real_target.measure(None, 1, has_prior=False)


def test_files_that_are_missing_or_damaged_are_named(monkeypatch, tmp_path):
    monkeypatch.setattr(data, "SATML", tmp_path)
    monkeypatch.setattr(recorded_trials, "TRIALS", tmp_path)
    for load in (data.training_rows, recorded_trials.recorded_trials):
        with pytest.raises(HarnessError, match=r"(preprefix\.npy|suffixes\.npy\.xz)"):
            load()
    (tmp_path / "suffixes.npy.xz").write_bytes(lzma.compress(b"text")[:-20])
    with pytest.raises(HarnessError, match=r"suffixes\.npy\.xz: cannot be read"):
        recorded_trials.recorded_trials()


def test_a_table_replaces_the_one_on_the_page(monkeypatch, tmp_path):
    monkeypatch.setattr(measuring, "PAGE", tmp_path / "results.md")
    measuring.PAGE.write_text("a\n<!-- x -->\nold\n<!-- /x -->\nb\n")
    measuring.replace_part("x", "new")
    assert measuring.PAGE.read_text() == "a\n<!-- x -->\nnew\n<!-- /x -->\nb\n"
    with pytest.raises(HarnessError, match="no lines <!-- y -->"):
        measuring.replace_part("y", "new")
