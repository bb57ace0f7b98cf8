"""Candidates from a search, draws or both, ordered by a trained ranker's probability that they are correct.

Step one finds candidates for every prefix, for attacked and training examples alike. Step two trains a ranker on the
training candidates, for which the answers are known, and orders all candidates by its probability. A second guess for
an example is placed by its own probability, because a wrong row costs one error for any example. Without training
examples, the likelihood under the target orders the candidates.

Draws cost as many forward passes for a training example as for an attacked one. With `few_trials`, only `examples`
random training examples get all trials, in whole clusters; a first ranker learns from the other training examples, and
its odds are a feature of the second ranker.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from harness import (
    Attack,
    CandidateRanker,
    Context,
    Field,
    Floats,
    Guesses,
    HarnessError,
    Ints,
    Params,
    Policy,
    Tokens,
    Training,
    candidate_features,
    drawn_candidates,
    prior_features,
    searched_candidates,
    text_of,
    united_candidates,
    with_prior,
)

if TYPE_CHECKING:
    from harness import Target

TIE = 1e-9
DRAWS_PER_BATCH = 8_192
MAX_NATS = 100.0  # A less likely token of a prefix counts as this unlikely.


class TwoStepParams(Params):
    candidates: Literal["search", "draws", "both"] = Field("search", description="Where candidates come from.")
    width: int = Field(8, ge=1, le=256, description="Beam width, the number of candidates per prefix of the search.")
    trials: int = Field(100, ge=1, description="Suffixes drawn per prefix.")
    top_k: int = Field(10, ge=1, description="Likeliest tokens among which a token is drawn.")
    kept: int = Field(
        4, ge=1, le=64, description="Draws kept per prefix: the most frequent ones, and as many likeliest ones."
    )
    examples: int = Field(0, ge=0, description="Training examples used, drawn at random; 0 for all.")
    few_trials: int = Field(
        0, ge=0, description="Suffixes drawn for each training example beyond `examples`; 0 leaves these out."
    )


class TwoStep(Attack[TwoStepParams]):
    name = "two_step"
    reference = (
        "Al-Kaswan et al., Targeted Attack on GPT-Neo for the SATML Language Model Data Extraction Challenge, 2023"
    )
    guesses_per_example = 0
    requires = ("scikit-learn",)

    def run(self, context: Context) -> Iterator[Guesses]:
        train, few = self.training(context)
        draws = 1 if self.params.candidates == "search" else self.params.trials
        stages = [("train", train, draws), ("few", few, self.params.few_trials)]
        # All draws of an example are one batch, because its candidates are compared.
        context.announce("guess", weight=draws)
        for stage, rows, trials in stages:
            if rows is not None:
                context.announce(stage, trials, over=rows)
        for batch in context.batches(size=None if draws == 1 else max(1, DRAWS_PER_BATCH // draws)):
            candidates = find_candidates(context.target, batch.ids, batch.prefixes, self.params, batch.seed)
            context.keep(f"guess {batch.ids[0]}", candidates.as_array())
            # Until the ranker is trained, the likelihood orders the candidates.
            yield Guesses(candidates.ids, candidates.suffixes, candidates.likelihood)
        for stage, rows, trials in stages:
            for batch in context.batches(trials, stage=stage, over=rows, in_order=False) if rows is not None else ():
                params = self.params.model_copy(update={"trials": trials})
                candidates = find_candidates(context.target, batch.ids, batch.prefixes, params, batch.seed)
                context.keep(f"{stage} {batch.ids[0]}", candidates.as_array())
        prior = None if few is None else trained_ranker(context, "few", few, None)
        ranker = None if train is None else trained_ranker(context, "train", train, prior)
        if ranker is None:
            return
        for candidates in kept_candidates(context, "guess", len(context.ids)):
            probability = ranker.probabilities(features_with(candidates, prior))
            # Trees give many candidates equal odds. The likelihood orders those.
            yield Guesses(candidates.ids, candidates.suffixes, probability + TIE * candidates.likelihood)

    def training(self, context: Context) -> tuple[Training | None, Training | None]:
        """Return the training examples that get all trials and those that get few, None if there are none.

        If some get few, no cluster has examples of both kinds: the first ranker must not know the second one's answers.
        """
        try:
            whole = context.train
        except HarnessError:
            print("two_step: the round has no training examples, so the likelihood orders the candidates.")
            return None, None
        count, few_trials = self.params.examples, self.params.few_trials
        is_train = np.zeros(len(whole), np.bool_)
        if few_trials and 0 < count < len(whole) and self.params.candidates != "search":
            names, cluster, sizes = np.unique(whole.clusters, return_inverse=True, return_counts=True)
            left = count
            for number in np.random.default_rng(context.seed).permutation(len(names)):
                if sizes[number] <= left:
                    left -= sizes[number]
                    is_train |= cluster == number
        if is_train.any():
            return whole.part(np.flatnonzero(is_train)), whole.part(np.flatnonzero(~is_train))
        if few_trials:
            print("two_step: few_trials has no effect. It needs draws, and `examples` smaller than the training set.")
        return whole.drawn(count, context.seed), None


@dataclass(frozen=True)
class FeaturedCandidates:
    """Candidates of some examples.

    ids: [rows].
    suffixes: [rows, length].
    likelihood: [rows], log-probabilities in nats.
    features: [rows, features].
    """

    ids: Ints
    suffixes: Tokens
    likelihood: Floats
    features: Floats

    def as_array(self) -> Floats:
        """Return one array that `context.keep` can store."""
        return np.column_stack([self.ids, self.likelihood, self.suffixes, self.features])

    @classmethod
    def of_array(cls, table: Floats, length: int) -> "FeaturedCandidates":
        """Return the candidates of an array from `as_array`. length: that of their suffixes."""
        suffixes, features = table[:, 2 : 2 + length], table[:, 2 + length :]
        return cls(table[:, 0].astype(np.int64), suffixes.astype(np.int64), table[:, 1], features)


def find_candidates(
    target: "Target", ids: Ints, prefixes: Tokens, params: TwoStepParams, seed: int
) -> FeaturedCandidates:
    """Return the candidates of the examples `ids` [n] with `prefixes` [n, prefix length], with their features."""
    sources = []
    if params.candidates != "search":
        drawn = target.sample(prefixes, Policy(top_k=params.top_k), params.trials, seed)
        logprob, conditionals = drawn.token_logprobs.sum(axis=1), np.exp(drawn.token_logprobs)
        sources.append(
            drawn_candidates(drawn.row, drawn.suffixes, drawn.count, logprob, conditionals, kept=params.kept)
        )
    if params.candidates != "draws":
        likely = target.search(prefixes, params.width)
        sources.append(searched_candidates(likely.row, likely.suffixes, likely.token_logprobs))
    candidates = sources[0] if len(sources) == 1 else united_candidates(*sources)
    prefix_loss = None
    if prefixes.shape[1] > 1:
        logprobs = target.score(prefixes[:, :1], prefixes[:, 1:]).token_logprobs
        prefix_loss = -logprobs.clip(min=-MAX_NATS).mean(axis=1)
    features = candidate_features(prefixes, candidates, text_of(target.tokenizer_file), prefix_loss)
    return FeaturedCandidates(ids[candidates.row], candidates.suffixes, candidates.logprob, features)


def kept_candidates(context: Context, stage: str, examples: int) -> Iterator[FeaturedCandidates]:
    """Yield the candidates of all batches of a stage, in the order of their examples."""
    for first in range(examples):
        if (table := context.kept(f"{stage} {first}")) is not None and len(table):
            yield FeaturedCandidates.of_array(table, context.suffix_length)


def trained_ranker(
    context: Context, stage: str, train: Training, prior: CandidateRanker | None
) -> CandidateRanker | None:
    """Return a ranker trained on the candidates of a stage, or None if all are right or all are wrong."""
    parts = list(kept_candidates(context, stage, len(train)))
    if not parts:
        print(f"two_step: the run ended before the stage {stage}, so it trains no ranker.")
        return None
    ids = np.concatenate([part.ids for part in parts])
    is_right = (np.concatenate([part.suffixes for part in parts]) == train.suffixes[ids]).all(axis=1)
    if len(np.unique(is_right)) < 2:
        print("two_step: too few training candidates are right, or wrong. The likelihood orders the candidates.")
        return None
    if stage == "few":
        return CandidateRanker(prior_features(np.concatenate([part.features for part in parts])), is_right)
    return CandidateRanker(np.concatenate([features_with(part, prior) for part in parts]), is_right)


def features_with(candidates: FeaturedCandidates, prior: CandidateRanker | None) -> Floats:
    """Return the features of candidates, with those of the first ranker if there is one."""
    return candidates.features if prior is None else with_prior(candidates.features, candidates.ids, prior)
