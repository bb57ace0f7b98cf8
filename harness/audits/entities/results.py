"""Results for one model from its rows: each method's M-MEM, the tests, the groups, the attention."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.audits.entities.engineering import Chain, EngineeredPrompt, best_and_worst, engineered_prompts
from harness.audits.entities.measurements import Half, Measurements
from harness.audits.entities.prompt import HAND_WRITTEN
from harness.audits.entities.ranking import PairScore, count_votes, majority_vote
from harness.audits.entities.statistics import (
    CochranQ,
    Correlation,
    GroupMean,
    Spread,
    cochran_q,
    means_by_group,
    rank_correlation,
    spread_over_names,
)
from harness.core.arrays import Floats
from harness.core.audit import AuditInputs, RowsOf
from harness.core.errors import HarnessError
from harness.core.rows import Rows


class Method(NamedTuple):
    """A way of prompting and its scores in both halves. prompt: its text, empty if there are several."""

    family: str
    name: str
    prompt: str
    dev: PairScore
    test: PairScore


class WordImportance(NamedTuple):
    """The words that can be dropped at one step. added, share: [words] of the confidence, and of its softmax."""

    chain: Chain
    step: int
    places: NDArray[np.int64]
    words: list[str]
    added: Floats
    share: Floats


class PromptAttention(NamedTuple):
    """Attention to the name in one prompt. inside, outside: [names] of a list; of_inside, of_outside: [words] means."""

    prompt: int
    words: list[str]
    inside: Floats
    outside: Floats
    of_inside: Floats
    of_outside: Floats


@dataclass(frozen=True)
class ModelResult:
    """One model's results. Lists are empty if their rows do not exist yet."""

    name: str
    measured: Measurements
    methods: list[Method]
    cochran: CochranQ
    spread: Spread
    dev_to_test: Correlation
    by_kind: list[GroupMean]
    by_position: list[GroupMean]
    by_length: list[GroupMean]
    importances: list[WordImportance]
    engineered: list[EngineeredPrompt]
    attention: list[PromptAttention]


def model_result(inputs: AuditInputs, rows: RowsOf, model: int, name: str) -> ModelResult | None:
    """Return the results of one model, or None if there is nothing to compare yet."""
    measured = Measurements(inputs, rows("confidence"), model)
    if not measured.has_pairs:
        return None
    votes = pair_votes(measured, measured.test)
    seed = int(inputs.arrays["seed"])
    inside, outside = (measured.used_confidences[:, side] for side in measured.test)
    prompts = [measured.prompts[prompt] for prompt in measured.used]
    engineered = engineered_prompts(measured, rows("engineered"), model)
    return ModelResult(
        name=name,
        measured=measured,
        methods=_methods(measured, votes, engineered),
        cochran=cochran_q(votes, [score.wins for score in measured.test_scores]),
        spread=spread_over_names(inside, outside, seed),
        dev_to_test=rank_correlation(measured.dev_m_mem, measured.test_m_mem),
        by_kind=means_by_group([prompt.kind for prompt in prompts], measured.test_m_mem),
        by_position=means_by_group([prompt.position for prompt in prompts], measured.test_m_mem),
        by_length=means_by_group([prompt.length for prompt in prompts], measured.test_m_mem),
        importances=_importances(rows("word"), model),
        engineered=engineered,
        attention=_attention(measured, rows("attention"), rows("attended_word"), model),
    )


def _methods(measured: Measurements, votes: NDArray[np.uint16], engineered: list[EngineeredPrompt]) -> list[Method]:
    """Return all methods. votes: on the pairs of the test half."""
    dev, test = measured.dev, measured.test

    def score_method(family: str, name: str, prompt: str, confidences: Floats) -> Method:
        return Method(family, name, prompt, dev.score(confidences), test.score(confidences))

    methods = [score_method("baseline", *each) for each in _baselines(measured)]
    for name, prompt in (("best prompt on dev", measured.best), ("worst prompt on dev", measured.worst)):
        methods.append(score_method("search", name, measured.prompts[prompt].text, measured.confidences[prompt]))
    if (ends := best_and_worst(engineered)) is not None:
        for name, end in zip(("best modified prompt (BM-PT)", "worst modified prompt (WM-PT)"), ends, strict=True):
            methods.append(Method("engineering", name, end.prompt.text, end.dev, end.test))
    majority = (majority_vote(each, len(measured.used)) for each in (pair_votes(measured, dev), votes))
    methods.append(Method("ensemble", "majority vote", "", *majority))
    return [*methods, *(score_method("ensemble", name, "", each) for name, each in _ensembles(measured))]


def _sorted_words(rows: Rows, is_chosen: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the places of the chosen rows, ordered by their column `word`."""
    chosen = np.flatnonzero(is_chosen)
    return chosen[np.argsort(np.asarray(rows["word"])[chosen], kind="stable")]


def _importances(rows: Rows, model: int) -> list[WordImportance]:
    importances = []
    for chain in Chain:
        is_of_chain = (np.asarray(rows["model"]) == model) & (np.asarray(rows["chain"]) == chain)
        for step in np.unique(np.asarray(rows["step"])[is_of_chain]).tolist():
            chosen = _sorted_words(rows, is_of_chain & (np.asarray(rows["step"]) == step))
            places = np.asarray(rows["word"], np.int64)[chosen]
            words = [rows["text"][row] for row in chosen]
            added, share = np.asarray(rows["added"])[chosen], np.asarray(rows["share"])[chosen]
            importances.append(WordImportance(chain, step, places, words, added, share))
    return importances


def _attention(measured: Measurements, rows: Rows, word_rows: Rows, model: int) -> list[PromptAttention]:
    """Return the attention of the measured prompts, ordered by M-MEM in the dev half, best first."""
    inside = np.concatenate([measured.dev.inside, measured.test.inside])
    outside = np.concatenate([measured.dev.outside, measured.test.outside])
    attention = []
    for row in np.flatnonzero(np.asarray(rows["model"]) == model):
        prompt, values = int(rows["prompt"][row]), np.asarray(rows["values"][row])
        is_own = (np.asarray(word_rows["model"]) == model) & (np.asarray(word_rows["prompt"]) == prompt)
        chosen = _sorted_words(word_rows, is_own)
        attention.append(
            PromptAttention(
                prompt,
                [word_rows["text"][word] for word in chosen],
                values[inside],
                values[outside],
                np.asarray(word_rows["inside"])[chosen],
                np.asarray(word_rows["outside"])[chosen],
            )
        )
    dev = dict(zip(measured.used.tolist(), measured.dev_m_mem.tolist(), strict=True))
    return sorted(attention, key=lambda one: (-dev.get(one.prompt, 0.0), one.prompt))


def pair_votes(measured: Measurements, half: Half) -> NDArray[np.uint16]:
    """Return how many of the used prompts each pair of `half` wins, [inside, outside].

    Raises HarnessError for more than 65,535 prompts.
    """
    if len(measured.used) > np.iinfo(np.uint16).max:
        raise HarnessError(f"the majority vote takes at most 65,535 prompts, not {len(measured.used):,}.")
    sides = (half.sides(confidences) for confidences in measured.used_confidences)
    return count_votes(sides, len(half.inside), len(half.outside))


def _ensembles(measured: Measurements) -> Iterator[tuple[str, Floats]]:
    """Yield the name and the confidences [names] of each ensemble of the used prompts (Xia et al. 2024).

    They are the average, the average weighted by M-MEM in the dev half, the maximum and the minimum.
    """
    confidences = measured.used_confidences
    weights = measured.dev_m_mem if measured.dev_m_mem.any() else np.ones(len(confidences))
    yield "average", confidences.mean(axis=0)
    yield "weighted average", np.average(confidences, axis=0, weights=weights)
    yield "maximum", confidences.max(axis=0)
    yield "minimum", confidences.min(axis=0)


def _baselines(measured: Measurements) -> Iterator[tuple[str, str, Floats]]:
    """Yield name, prompt and confidences [names] of the name alone and of hand-written prompts, if they are used."""
    first, alone = measured.given, measured.given + len(HAND_WRITTEN)
    for name, prompt in (("name alone", alone), ("one hand-written prompt", first)):
        if measured.uses_prompt[prompt]:
            yield name, measured.prompts[prompt].text, measured.confidences[prompt]
    if measured.uses_prompt[first:alone].all():
        hand_written = measured.confidences[first:alone]
        names = np.arange(hand_written.shape[1])
        generator = np.random.default_rng([int(measured.inputs.arrays["seed"]), 3])
        choice = generator.integers(len(hand_written), size=len(names))
        yield "a random hand-written prompt a name", "", hand_written[choice, names]
