"""Candidates of examples, and a ranker that is trained to tell right candidates from wrong ones.

`two_step` feeds it with draws and searches of its target. `tests.bench.real_target` feeds it with recorded draws of
GPT-Neo 1.3B.
"""

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.candidate_text import TEXT_FEATURES, TextOf, text_features
from harness.core.arrays import Bools, Floats, Ints, Tokens, place_among_equals

if TYPE_CHECKING:
    from sklearn.ensemble import HistGradientBoostingClassifier

LOWEST_COUNT = 3  # The mean of this many lowest conditional probabilities of a suffix is a feature.
MIN_SHARE = 1e-6  # Replaces the share of trials that drew a suffix, if none did, in logarithms.

FEATURES = {
    "loss": "logarithm of the mean loss of the suffix",
    "loss lead": "log-probability of the suffix minus that of its likeliest rival",
    "share": "logarithm of its share of the candidates' probability",
    "drawn": "share of the trials that drew the suffix",
    "drawn lead": "logarithm of that share minus that of the rival drawn most often",
    "entropy": "entropy of the example's draws",
    "unseen": "share of the trials whose suffix was drawn once",
    "agreement": "mean share of the trials that drew the same token at a position",
    "agreement lead": "agreement minus that of the rival with the highest one",
    "weakest": "mean of the three lowest conditional probabilities of its tokens",
    "weakest lead": "that mean minus the highest one of a rival",
    "first token": "conditional probability of the first token",
    "spread": "standard deviation of the conditional probabilities",
    "typical loss": "mean logarithm of the losses of the example's draws",
    "below typical": "that mean minus the logarithm of the loss of the suffix",
    "fork": "position at which it differs from its likeliest rival",
    "prefix loss": "mean loss of the prefix, which is low if the target memorized the example",
    **TEXT_FEATURES,
    "text bytes lead": "compressed length of prefix and suffix minus the shortest one of a rival",
    "not copied lead": "tokens that depart from a copy, minus the lowest number of a rival",
}
"""The features of a candidate, {name: description}. Its rivals are the other candidates of its example."""
PRIOR_FEATURES = ("loss", "drawn", "typical loss", "below typical", "prefix loss", *TEXT_FEATURES)
"""The features of a prior ranker, which learns from examples with few trials and often without rivals."""


@dataclass(frozen=True)
class Candidates:
    """Candidates of n examples, ordered by example.

    row: [rows] int64, the example of each candidate in 0..n-1.
    suffixes: [rows, length].
    logprob: [rows], the log-probability of the suffix under the target, in nats.
    conditionals: [rows, length], the probability of each token given those before it: exact if the target computed it,
    else estimated from draws.
    drawn: [rows], the share of the trials that drew the suffix, 0 if no draw that was kept equals it.
    entropy: [rows], the entropy of the example's draws in nats.
    unseen: [rows], the share of the example's trials whose suffix was drawn once: an estimate of the probability of the
    suffixes that no trial drew (Good, 1953).
    agreement: [rows], the mean over positions of the share of trials that drew the candidate's token, 0 where drawn is.
    typical: [rows], the mean of `log_loss` over the example's trials, or over the results of its search.
    """

    row: Ints
    suffixes: Tokens
    logprob: Floats
    conditionals: Floats
    drawn: Floats
    entropy: Floats
    unseen: Floats
    agreement: Floats
    typical: Floats

    def __len__(self) -> int:
        return len(self.row)

    def at(self, rows: Ints | Bools) -> "Candidates":
        """Return the candidates at `rows`."""
        return Candidates(*(getattr(self, field.name)[rows] for field in fields(self)))


def drawn_candidates(
    row: Ints,
    suffixes: Tokens,
    count: Ints,
    logprob: Floats,
    conditionals: Floats | None = None,
    *,
    kept: int,
) -> Candidates:
    """Return candidates among draws: for each example the `kept` most frequent ones and the `kept` likeliest ones.

    row [rows], sorted, and suffixes [rows, length]: the distinct draws of each example.
    count: [rows], how often each was drawn.
    logprob: [rows] in nats.
    conditionals: [rows, length], the probability of each token given those before it. If None, it is estimated: the
    share of the other draws with the same beginning that continue with the same token.
    """
    parts = []
    for start, end in _examples(row):
        rows = slice(start, end)
        draws, times, likely = suffixes[rows], count[rows], logprob[rows]
        places = np.union1d(np.lexsort((-likely, -times))[:kept], np.lexsort((-times, -likely))[:kept])
        same = draws[places][:, None, :] == draws[None, :, :]  # [places, draws, length]
        trials = times.sum()
        # The number of trials that share the first tokens with a candidate, after 0, 1, … tokens.
        together = np.column_stack(
            [
                np.full(len(places), trials),
                np.einsum("cdl,d->cl", np.logical_and.accumulate(same, axis=2), times),
            ]
        )
        estimated = (together[:, 1:] - 1) / np.maximum(together[:, :-1] - 1, 1)
        shares = times / trials
        ones = np.ones(len(places))
        parts.append(
            Candidates(
                row[rows][places],
                draws[places],
                likely[places],
                estimated if conditionals is None else conditionals[rows][places],
                shares[places],
                ones * -(shares * np.log(shares)).sum(),
                ones * shares[times == 1].sum(),
                np.einsum("cdl,d->c", same, shares) / draws.shape[1],
                ones * (shares @ log_loss(likely, draws.shape[1])),
            )
        )
    return concatenate(parts)


def searched_candidates(row: Ints, suffixes: Tokens, token_logprobs: Floats) -> Candidates:
    """Return the results of a search as candidates: row [rows], suffixes and token_logprobs [rows, length]."""
    nothing = np.zeros(len(row))
    total = token_logprobs.sum(axis=1)
    typical = (np.bincount(row, log_loss(total, suffixes.shape[1])) / np.maximum(np.bincount(row), 1))[row]
    return Candidates(row, suffixes, total, np.exp(token_logprobs), nothing, nothing, nothing, nothing, typical)


def log_loss(logprob: Floats, length: int) -> Floats:
    """Return the logarithm of the mean loss per token of suffixes of `length` tokens; `logprob` [rows] is in nats."""
    return np.log(1e-4 + np.maximum(-logprob, 0) / length)


def concatenate(parts: list[Candidates]) -> Candidates:
    """Return the candidates of all parts, in their order."""
    return Candidates(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Candidates)))


def united_candidates(drawn: Candidates, searched: Candidates) -> Candidates:
    """Return the candidates of both, ordered by example. `drawn` must contain candidates of every example.

    If both contain a suffix, the drawn candidate is kept. A searched candidate takes the statistics of the trials from
    the draws of its example.
    """
    whole = concatenate([drawn, searched])
    _, first = np.unique(np.column_stack([whole.row, whole.suffixes.astype(np.int64)]), axis=0, return_index=True)
    of_example = np.searchsorted(drawn.row, whole.row)
    statistics = {name: getattr(drawn, name)[of_example] for name in ("entropy", "unseen", "typical")}
    columns = {field.name: getattr(whole, field.name) for field in fields(Candidates)} | statistics
    return Candidates(**columns).at(first)


def candidate_features(
    prefixes: Tokens, candidates: Candidates, text_of: TextOf | None = None, prefix_loss: Floats | None = None
) -> Floats:
    """Return the FEATURES of each candidate, [rows, features].

    prefixes: [n, prefix length]. text_of: returns the text of tokens; without it, the features of the layout are 0.
    prefix_loss: [n], the mean loss of each prefix in nats; 0 if it is unknown.
    """
    row, logprob = candidates.row, candidates.logprob
    text = text_features(prefixes, row, candidates.suffixes, text_of)
    loss = log_loss(logprob, candidates.suffixes.shape[1])
    weakest = np.sort(candidates.conditionals, axis=1)[:, :LOWEST_COUNT].mean(axis=1)
    values: dict[str, Any] = {
        **text,
        "loss": loss,
        "typical loss": candidates.typical,
        "below typical": candidates.typical - loss,
        "loss lead": lead(row, logprob),
        "share": share(row, logprob),
        "drawn": candidates.drawn,
        "drawn lead": lead(row, np.log(np.maximum(candidates.drawn, MIN_SHARE))),
        "entropy": candidates.entropy,
        "unseen": candidates.unseen,
        "agreement": candidates.agreement,
        "agreement lead": lead(row, candidates.agreement),
        "weakest": weakest,
        "weakest lead": lead(row, weakest),
        "first token": candidates.conditionals[:, 0],
        "spread": candidates.conditionals.std(axis=1),
        "fork": first_fork(row, candidates.suffixes, logprob),
        "prefix loss": np.zeros(len(row)) if prefix_loss is None else prefix_loss[row],
        "text bytes lead": lead(row, -text["text bytes"]),
        "not copied lead": lead(row, -text["not copied"]),
    }
    return np.column_stack([values[name] for name in FEATURES])


def lead(row: Ints, value: Floats) -> Floats:
    """Return how much each value [rows] exceeds the highest of its rivals, [rows]; 0 without a rival."""
    return value - value[best_rivals(row, value)]


def best_rivals(row: Ints, value: Floats) -> Ints:
    """Return the place of each candidate's rival with the highest value, [rows]; its own without a rival.

    row, value: [rows].
    """
    order = np.lexsort((-value, row))
    _, first, size = np.unique(row[order], return_index=True, return_counts=True)
    rival = np.repeat(order[first], size)
    rival[first] = order[first + (size > 1)]
    result = np.empty(len(row), np.int64)
    result[order] = rival
    return result


def share(row: Ints, logarithm: Floats) -> Floats:
    """Return the logarithm of each candidate's share of the probability of its example's candidates, [rows] in nats."""
    total = np.full(int(row.max(initial=-1)) + 1, -np.inf)
    np.logaddexp.at(total, row, logarithm)
    shares: Floats = logarithm - total[row]
    return shares


def first_fork(row: Ints, suffixes: Tokens, value: Floats) -> Floats:
    """Return the position at which each suffix first differs from its best rival by `value` [rows], [rows].

    It is the length of the suffix without a rival.
    """
    is_different = suffixes != suffixes[best_rivals(row, value)]
    fork: Floats = np.where(is_different.any(axis=1), is_different.argmax(axis=1), suffixes.shape[1]).astype(np.float64)
    return fork


class CandidateRanker:
    """The mean of a logistic regression and boosted trees: the probability that a candidate is right.

    The result is deterministic.
    """

    def __init__(self, features: Floats, is_right: Bools) -> None:
        """Train on features [rows, features] and truth [rows], which has both values."""
        from sklearn.linear_model import LogisticRegression  # slow to import
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        regression = make_pipeline(StandardScaler(), LogisticRegression(max_iter=3000))
        self._models = [model.fit(features, is_right) for model in (regression, _trees())]

    def probabilities(self, features: Floats) -> Floats:
        """Return the probability that each candidate is right, [rows]."""
        mean: Floats = np.mean([model.predict_proba(features)[:, 1] for model in self._models], axis=0)
        return mean


def prior_features(features: Floats) -> Floats:
    """Return the columns PRIOR_FEATURES of features [rows, FEATURES], from which a prior ranker learns."""
    names = list(FEATURES)
    return features[:, [names.index(name) for name in PRIOR_FEATURES]]


def with_prior(features: Floats, row: Ints, prior: CandidateRanker) -> Floats:
    """Return features [rows, FEATURES] with the log-odds of a prior ranker, and its lead over rivals, as two columns.

    prior: a ranker trained on `prior_features` of other examples.
    """
    probability = np.clip(prior.probabilities(prior_features(features)), 1e-9, 1 - 1e-9)
    odds = np.log(probability / (1 - probability))
    return np.column_stack([features, odds, lead(row, odds)])


def _trees() -> "HistGradientBoostingClassifier":
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(
        max_iter=150,
        learning_rate=0.05,
        max_leaf_nodes=8,
        min_samples_leaf=60,
        l2_regularization=5.0,
        # Early stopping would hold out rows that share prefixes and clusters with the rest.
        early_stopping=False,
        random_state=0,
    )


def _examples(row: Ints) -> list[tuple[int, int]]:
    """Return the first row and the end of each example of `row`, which is sorted."""
    starts = np.flatnonzero(place_among_equals(row) == 0).tolist()
    return list(zip(starts, [*starts[1:], len(row)], strict=True))
