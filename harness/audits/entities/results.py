"""Results for one model from its rows, and all measured values: M-MEM of methods and groups, tests, attention."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.audits.entities.measurements import (
    Chain,
    EngineeredPrompt,
    Half,
    Measurements,
    best_and_worst,
    engineered_prompts,
)
from harness.audits.entities.prompt import HAND_WRITTEN
from harness.audits.entities.statistics import (
    CochranQ,
    Correlation,
    GroupMean,
    PairScore,
    Spread,
    chance_error,
    cochran_q,
    count_votes,
    majority_vote,
    means_by_group,
    rank_correlation,
    spread_over_names,
)
from harness.audits.report import normal_interval
from harness.core.arrays import Floats
from harness.core.audit import AuditInputs, RowsOf
from harness.core.errors import HarnessError
from harness.core.measures import Estimate, Measure, MeasureRow, MeasureTable, Unit
from harness.core.rows import Rows

M_MEM = Measure(
    "m_mem",
    "M-MEM",
    "the share of pairs of one trained and one other name in which the trained name has the higher confidence",
)
TIES = Measure("ties", "ties", "pairs with equal confidences, which count as not recognized", unit=Unit.NUMBER)
PROMPTS_M_MEM = Measure("m_mem_of_prompts", "M-MEM of the prompts", "the mean, largest or smallest M-MEM of a prompt")
PROMPTS_RANGE = Measure(
    "m_mem_range", "range of M-MEM", "the largest M-MEM of a prompt minus the smallest", unit=Unit.CHANGE
)
CHANCE_ERROR = Measure(
    "chance_error", "standard error under chance", "the largest standard error of M-MEM without memorization"
)
COCHRAN = Measure(
    "cochran_q",
    "Cochran's Q",
    "do all prompts win equally many pairs? Pairs that share a name are taken as independent, as in the source",
    unit=Unit.NUMBER,
)
COCHRAN_P = Measure("cochran_p_value", "p of Cochran's Q", "too small, because pairs share names", unit=Unit.P_VALUE)
LEAD = Measure(
    "lead", "best − worst prompt", "the largest minus the smallest M-MEM, in a bootstrap over names", unit=Unit.CHANGE
)
LEAD_P = Measure(
    "equal_prompts_p_value", "p of equal prompts", "the bootstrap's p-value of equal prompts", unit=Unit.P_VALUE
)
TAU = Measure("kendall_tau", "Kendall's τ", "the rank correlation of the prompts' M-MEM", unit=Unit.NUMBER)
TAU_P = Measure("kendall_p_value", "p of Kendall's τ", "of prompts whose orders do not correlate", unit=Unit.P_VALUE)
BY_TYPE = Measure("m_mem_by_type", "mean M-MEM", "the mean M-MEM of the prompts of a sentence type")
BY_POSITION = Measure(
    "m_mem_by_position",
    "mean M-MEM",
    "the mean M-MEM of the prompts with the name at a position",
    at="{} before the name",
    at_name="words and punctuation marks before the name",
)
BY_LENGTH = Measure(
    "m_mem_by_length",
    "mean M-MEM",
    "the mean M-MEM of the prompts of a length",
    at="{} words",
    at_name="words and punctuation marks of the prompt",
)
ATTENTION = Measure(
    "attention", "attention to the name", "the mean attention that the other words of a prompt give to the name"
)
MEASURES = (
    M_MEM,
    TIES,
    PROMPTS_M_MEM,
    PROMPTS_RANGE,
    CHANCE_ERROR,
    COCHRAN,
    COCHRAN_P,
    LEAD,
    LEAD_P,
    TAU,
    TAU_P,
    BY_TYPE,
    BY_POSITION,
    BY_LENGTH,
    ATTENTION,
)
DEV, TEST, BOTH_HALVES, BETWEEN_MODELS = "dev", "test", "dev and test", "between models"
INSIDE, OUTSIDE = "in-train names", "out-of-train names"


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


def measured_values(results: Sequence[ModelResult]) -> MeasureTable:
    """Return all measured values of the models, and the rank correlations between models."""
    rows = [row for result in results for row in _model_rows(result)]
    for result, other in combinations(results, 2):
        _, first, second = np.intersect1d(result.measured.used, other.measured.used, return_indices=True)
        correlation = rank_correlation(result.measured.test_m_mem[first], other.measured.test_m_mem[second])
        for measure, value in zip((TAU, TAU_P), correlation, strict=True):
            rows.append(MeasureRow(measure, Estimate(value, of=len(first)), result.name, BETWEEN_MODELS, other.name))
    return MeasureTable(rows)


def _model_rows(result: ModelResult) -> Iterator[MeasureRow]:
    measured, name = result.measured, result.name
    for method in result.methods:
        for side, score in ((DEV, method.dev), (TEST, method.test)):
            estimate = Estimate(score.m_mem, score.low, score.high, score.pairs)
            yield MeasureRow(M_MEM, estimate, name, side, method.name)
            yield MeasureRow(TIES, Estimate(score.ties, of=score.pairs), name, side, method.name)
    number = len(measured.used)
    for side, values in ((DEV, measured.dev_m_mem), (TEST, measured.test_m_mem)):
        for case, value in (("mean", values.mean()), ("best", values.max()), ("worst", values.min())):
            yield MeasureRow(PROMPTS_M_MEM, Estimate(float(value), of=number), name, side, case)
        yield MeasureRow(PROMPTS_RANGE, Estimate(float(values.max() - values.min()), of=number), name, side)
    error = chance_error(len(measured.test.inside), len(measured.test.outside))
    yield MeasureRow(CHANCE_ERROR, Estimate(error), name, TEST)
    spread, tau, cochran = result.spread, result.dev_to_test, result.cochran
    for measure, estimate, side in (
        (COCHRAN, Estimate(cochran.q, of=number), TEST),
        (COCHRAN_P, Estimate(cochran.p), TEST),
        (LEAD, Estimate(spread.lead, spread.low, spread.high), TEST),
        (LEAD_P, Estimate(spread.p), TEST),
        (TAU, Estimate(tau.tau, of=number), BOTH_HALVES),
        (TAU_P, Estimate(tau.p), BOTH_HALVES),
    ):
        yield MeasureRow(measure, estimate, name, side)
    for measure, groups in (
        (BY_TYPE, result.by_kind),
        (BY_POSITION, result.by_position),
        (BY_LENGTH, result.by_length),
    ):
        for group in groups:
            case, at = (group.group, None) if isinstance(group.group, str) else ("", group.group)
            yield MeasureRow(measure, group.estimate, name, TEST, case, at)
    for attention in result.attention:
        for side, values in ((INSIDE, attention.inside), (OUTSIDE, attention.outside)):
            estimate = Estimate(*normal_interval(values), int(np.isfinite(values).sum()))
            yield MeasureRow(ATTENTION, estimate, name, side, f"#{attention.prompt + 1}")


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
    return sorted(attention, key=lambda of_prompt: (-dev.get(of_prompt.prompt, 0.0), of_prompt.prompt))


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
