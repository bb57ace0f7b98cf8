"""One model's confidences from the rows, the prompts that are made by dropping words, and all measured values.

Prompt engineering drops words one after the other from the best and from the worst prompt. The best prompt loses its
least important word at each step, the worst its most important one, until one word besides the name is left. A word
adds the M-MEM on dev of the prompt minus that of the prompt without it. Its importance is this difference, normalized
over the prompt's words by a softmax (Xia et al. 2024, Sections 4.1 and 5.5).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from itertools import combinations, permutations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.audits.entities import measures
from harness.audits.entities.inputs import Names
from harness.audits.entities.measures import (
    PairScore,
    Placements,
    chance_error,
    cochran_q,
    count_votes,
    delong_interval,
    majority_vote,
    means_by_group,
    placements,
    property_correlations,
    rank_correlation,
    score_pairs,
    spread_over_names,
)
from harness.audits.entities.prompts import HAND_WRITTEN, Prompt
from harness.audits.report import normal_interval
from harness.core.arrays import Bools, Floats, Ints
from harness.core.audit import RowsOf
from harness.core.measures import Estimate, MeasureRow, MeasureTable
from harness.core.rows import Rows

_SHARE_OF_PROMPTS = 0.9


def select_rows(rows: Rows, *order: str, **values: int) -> dict[str, list[Any]]:
    """Return the rows whose columns have these values, ordered by the columns `order`."""
    chosen = np.flatnonzero(np.all([np.asarray(rows[column]) == value for column, value in values.items()], axis=0))
    for column in reversed(order):
        chosen = chosen[np.argsort(np.asarray(rows[column])[chosen], kind="stable")]
    return {column: [cells[row] for row in chosen.tolist()] for column, cells in rows.items()}


class Half(NamedTuple):
    """The names of the dev or the test half as places in a row of confidences."""

    inside: Ints
    """[n], the trained names."""
    outside: Ints
    """[m], the other names."""


class Scores(NamedTuple):
    """The scores of one way of prompting in both halves of the names."""

    dev: PairScore
    test: PairScore


class Chain(IntEnum):
    """The prompt from which words are dropped."""

    BEST = 0
    WORST = 1


class Measurements:
    """One model's confidences.

    confidences: [prompts, names], NaN if there is none. A name is used if it has a confidence in nine of ten prompts
    (otherwise the vocabulary lacks its tokens), a prompt if every used name has a confidence in it (otherwise it is
    longer than the model's context).
    lengths, positions: [prompts] model tokens of each prompt, in which the name counts as one, and those before it.
    """

    def __init__(self, inputs: Names, rows: Rows, model: int) -> None:
        """rows: of the table `confidence`, in any order."""
        self.inputs = inputs
        self.prompts = inputs.measured_prompts
        self.confidences = np.full((len(self.prompts), len(inputs.all)), np.nan)
        self.is_measured = np.zeros(len(self.prompts), bool)
        self.lengths, self.positions = np.zeros((2, len(self.prompts)), np.int64)
        measured = select_rows(rows, model=model)
        columns = (measured[name] for name in ("prompt", "values", "tokens", "position"))
        for prompt, values, tokens, position in zip(*columns, strict=True):
            self.confidences[prompt] = values
            self.is_measured[prompt] = True
            self.lengths[prompt], self.positions[prompt] = tokens, position
        is_known = np.isfinite(self.confidences)
        has_any = is_known.any(axis=1)
        self.uses_name: Bools = (
            is_known[has_any].mean(axis=0) >= _SHARE_OF_PROMPTS if has_any.any() else is_known.any(axis=0)
        )
        self.uses_prompt: Bools = has_any & is_known[:, self.uses_name].all(axis=1)
        sizes = list(map(len, inputs.parts.values()))
        part_of = np.repeat(np.arange(len(sizes)), sizes)
        in_dev, in_test, out_dev, out_test = (
            np.flatnonzero(self.uses_name & (part_of == part)) for part in range(len(sizes))
        )
        self.dev, self.test = Half(in_dev, out_dev), Half(in_test, out_test)

    @property
    def read(self) -> int:
        """The number of prompts of the inputs, which come first."""
        return len(self.inputs.prompts)

    @property
    def is_complete(self) -> bool:
        """True if every prompt was measured."""
        return bool(self.is_measured.all())

    @property
    def has_pairs(self) -> bool:
        """True if a prompt of the inputs is used and both halves have two names in each list, as intervals need."""
        return len(self.used) > 0 and min(map(len, (*self.dev, *self.test))) >= 2

    @cached_property
    def used(self) -> Ints:
        """The prompts of the inputs that are used, as places in `prompts`."""
        return np.flatnonzero(self.uses_prompt[: self.read])

    @cached_property
    def used_confidences(self) -> Floats:
        """The confidences of all names in the used prompts, [used, names]."""
        return self.confidences[self.used]

    def score(self, confidences: Floats) -> Scores:
        """Score all pairs of both halves. confidences: [names]."""
        return Scores(*(score_pairs(confidences[half.inside], confidences[half.outside]) for half in self.halves))

    @property
    def halves(self) -> tuple[Half, Half]:
        """The dev and the test half."""
        return self.dev, self.test

    @cached_property
    def scores(self) -> list[Scores]:
        """The scores of the used prompts."""
        return [self.score(confidences) for confidences in self.used_confidences]

    @cached_property
    def m_mem(self) -> Floats:
        """M-MEM of the used prompts in the dev and the test half, [2, used]."""
        return np.array([[score.m_mem for score in scores] for scores in self.scores]).T

    @property
    def dev_m_mem(self) -> Floats:
        """M-MEM of the used prompts in the dev half, [used]."""
        return np.asarray(self.m_mem[0])

    @cached_property
    def votes(self) -> list[NDArray[np.uint16]]:
        """The number of used prompts that each pair of a half wins, [inside, outside], for both halves."""
        used = self.used_confidences
        return [count_votes(used[:, half.inside], used[:, half.outside]) for half in self.halves]

    def first_prompt(self, chain: Chain) -> int:
        """Return the used prompt with the largest or smallest M-MEM in the dev half; the first of equal ones."""
        choose = np.argmax if chain is Chain.BEST else np.argmin
        return int(self.used[choose(self.dev_m_mem)])


class Method(NamedTuple):
    """A way of prompting and its scores. prompt: its text, empty if there are several."""

    family: str
    name: str
    prompt: str
    scores: Scores


class EngineeredPrompt(NamedTuple):
    """A prompt after `step` words were dropped, and its scores."""

    chain: Chain
    step: int
    prompt: Prompt
    scores: Scores


class PromptAttention(NamedTuple):
    """Attention in one prompt, averaged over heads and layers."""

    prompt: int
    """Its place in `Measurements.prompts`."""
    to_name: Floats
    """[names], from its other tokens to a token of the name; NaN for names of the test half."""
    weights: Rows
    """The rows of the table `attention_weight` by query and key, for all pairs of its tokens."""

    @property
    def size(self) -> int:
        """The number of its tokens. The name is one."""
        return math.isqrt(len(self.weights["query"]))

    @property
    def tokens(self) -> list[str]:
        """The text of its tokens."""
        return list(self.weights["text"][:: self.size])


@dataclass(frozen=True)
class ModelResult:
    """One model's results. Lists are empty if their rows do not exist yet."""

    name: str
    measured: Measurements
    methods: list[Method]
    engineered: list[EngineeredPrompt]
    """All prompts of both chains by chain and step, the unchanged ones included."""
    words: Rows
    """The rows of the table `word` by chain, step and place: the words that can be dropped, and what each adds."""
    attention: list[PromptAttention]
    """Ordered by M-MEM in the dev half, best first."""
    values: list[MeasureRow]


def model_result(inputs: Names, rows: RowsOf, model: int, name: str) -> ModelResult | None:
    """Return the results of one model, or None if there is nothing to compare yet."""
    measured = Measurements(inputs, rows("confidence"), model)
    if not measured.has_pairs:
        return None
    engineered = list(_engineered_prompts(measured, rows("engineered"), model))
    methods = list(_methods(measured, engineered))
    attention = _attention(measured, rows, model)
    values = [
        *_values_of_methods(name, methods),
        *_values_of_prompts(name, measured),
        *_values_of_attention(name, measured, attention),
    ]
    words = select_rows(rows("word"), "chain", "step", "word", model=model)
    return ModelResult(name, measured, methods, engineered, words, attention, values)


def measured_values(results: Sequence[ModelResult]) -> MeasureTable:
    """Return all measured values of the models, and the rank correlations between models."""
    rows = [row for result in results for row in result.values]
    for side, halves in ((measures.DEV, (0, 0)), (measures.TEST, (1, 1)), (measures.DEV_TO_TEST, (0, 1))):
        pairs = permutations(results, 2) if side == measures.DEV_TO_TEST else combinations(results, 2)
        for first, second in pairs:
            _, *places = np.intersect1d(first.measured.used, second.measured.used, return_indices=True)
            of_models = zip((first, second), halves, places, strict=True)
            correlation = rank_correlation(*(model.measured.m_mem[half, place] for model, half, place in of_models))
            for measure, value in zip((measures.TAU, measures.TAU_P), correlation, strict=True):
                rows.append(MeasureRow(measure, Estimate(value, of=len(places[0])), first.name, side, second.name))
    return MeasureTable(rows)


def _values_of_methods(name: str, methods: Sequence[Method]) -> Iterator[MeasureRow]:
    for method in methods:
        for side, score in zip((measures.DEV, measures.TEST), method.scores, strict=True):
            estimate = Estimate(score.m_mem, score.low, score.high, score.pairs)
            yield MeasureRow(measures.M_MEM, estimate, name, side, method.name)
            yield MeasureRow(measures.TIES, Estimate(score.ties, of=score.pairs), name, side, method.name)


def spread_of_prompts(name: str, measured: Measurements, side: str) -> Iterator[MeasureRow]:
    """Yield the mean of the used prompts' M-MEM in one half, with its interval over names, and their spread."""
    half, values = (measured.dev, measured.m_mem[0]) if side == measures.DEV else (measured.test, measured.m_mem[1])
    placed = [placements(*(confidences[part] for part in half)) for confidences in measured.used_confidences]
    low, high = delong_interval(Placements(*(np.mean(part, axis=0) for part in zip(*placed, strict=True))))
    mean = float(values.mean())
    for case, estimate in (
        ("mean", Estimate(mean, min(low, mean), max(high, mean))),
        ("best", Estimate(float(values.max()))),
        ("worst", Estimate(float(values.min()))),
        ("standard deviation", Estimate(float(values.std()))),
        ("range", Estimate(float(np.ptp(values)))),
    ):
        yield MeasureRow(measures.PROMPTS_M_MEM, estimate._replace(of=len(values)), name, side, case)


def _values_of_prompts(name: str, measured: Measurements) -> Iterator[MeasureRow]:
    """Yield the values over the used prompts."""
    number, (dev, test) = len(measured.used), measured.m_mem
    for half in (measures.DEV, measures.TEST):
        yield from spread_of_prompts(name, measured, half)
    best, worst = dev.argmax(), dev.argmin()
    for case, rank in (
        (measures.BEST_ON_DEV, 1 + (test > test[best]).sum()),
        (measures.WORST_ON_DEV, -1 - (test < test[worst]).sum()),
    ):
        yield MeasureRow(measures.RANK, Estimate(int(rank), of=number), name, measures.TEST, case)
    yield MeasureRow(measures.CHANCE_ERROR, Estimate(chance_error(*map(len, measured.test))), name, measures.TEST)
    q, q_p = cochran_q(measured.votes[1], [score.test.wins for score in measured.scores])
    inside, outside = (measured.used_confidences[:, side] for side in measured.test)
    lead, lead_p = spread_over_names(inside, outside, measured.inputs.seed)
    tau, tau_p = rank_correlation(dev, test)
    estimates = (
        Estimate(q, of=number),
        Estimate(q_p),
        lead,
        Estimate(lead_p),
        Estimate(tau, of=number),
        Estimate(tau_p),
    )
    for measure, estimate in zip(measures.TESTS, estimates, strict=True):
        yield MeasureRow(
            measure,
            estimate,
            name,
            measures.DEV_TO_TEST if measure in (measures.TAU, measures.TAU_P) else measures.TEST,
        )
    kinds = [measured.prompts[prompt].kind for prompt in measured.used]
    lengths, positions = measured.lengths[measured.used], measured.positions[measured.used]
    for kind, estimate in means_by_group(kinds, dev).items():
        yield MeasureRow(measures.BY_TYPE, estimate, name, measures.DEV, str(kind))
    for measure, places in ((measures.BY_POSITION, positions), (measures.BY_LENGTH, lengths)):
        for place, estimate in means_by_group(places.tolist(), dev).items():
            yield MeasureRow(measure, estimate, name, measures.DEV, at=int(place))
    for case, coefficient in property_correlations(kinds, {"length": lengths, "position": positions}, dev):
        yield MeasureRow(measures.PROPERTY, Estimate(coefficient, of=number), name, measures.DEV, case)


def _values_of_attention(
    name: str, measured: Measurements, attention: Sequence[PromptAttention]
) -> Iterator[MeasureRow]:
    for of_prompt in attention:
        for side, names in zip((measures.INSIDE, measures.OUTSIDE), measured.dev, strict=True):
            values = of_prompt.to_name[names]
            estimate = Estimate(*normal_interval(values), int(np.isfinite(values).sum()))
            yield MeasureRow(measures.ATTENTION, estimate, name, f"{side} names", f"#{of_prompt.prompt + 1}")


def _methods(measured: Measurements, engineered: Sequence[EngineeredPrompt]) -> Iterator[Method]:
    """Yield all methods (Xia et al. 2024)."""
    prompts, confidences = measured.prompts, measured.confidences
    alone = measured.read + len(HAND_WRITTEN)
    hand_written = slice(measured.read, alone)
    for name, prompt in (("∅-PT: name alone", alone), ("One-PT: hand-written", measured.read)):
        if measured.uses_prompt[prompt]:
            yield Method("baseline", name, prompts[prompt].text, measured.score(confidences[prompt]))
    if measured.uses_prompt[hand_written].all():
        names = np.arange(confidences.shape[1])
        generator = np.random.default_rng([measured.inputs.seed, 3])
        choice = generator.integers(len(HAND_WRITTEN), size=len(names))
        scores = measured.score(confidences[hand_written][choice, names])
        yield Method("baseline", "Mix-PT: random of five", "", scores)
    for name, chain in ((measures.BEST_ON_DEV, Chain.BEST), (measures.WORST_ON_DEV, Chain.WORST)):
        prompt = measured.first_prompt(chain)
        yield Method("search", name, prompts[prompt].text, measured.score(confidences[prompt]))
    if modified := [prompt for prompt in engineered if prompt.step > 0 and prompt.scores.dev.pairs]:
        for name, choose in ((measures.BEST_MODIFIED, max), (measures.WORST_MODIFIED, min)):
            chosen = choose(modified, key=lambda prompt: prompt.scores.dev.m_mem)
            yield Method("engineering", name, chosen.prompt.text, chosen.scores)
    majority = Scores(*(majority_vote(counters, len(measured.used)) for counters in measured.votes))
    yield Method("ensemble", "MV: majority vote", "", majority)
    used = measured.used_confidences
    weights = measured.dev_m_mem if measured.dev_m_mem.any() else np.ones(len(used))
    for name, combined in (
        ("AVG-C: average", used.mean(axis=0)),
        ("WED-C: weighted average", np.average(used, axis=0, weights=weights)),
        ("MAX-C: maximum", used.max(axis=0)),
        ("MIN-C: minimum", used.min(axis=0)),
    ):
        yield Method("ensemble", name, "", measured.score(combined))


def _engineered_prompts(measured: Measurements, rows: Rows, model: int) -> Iterator[EngineeredPrompt]:
    chosen = select_rows(rows, "chain", "step", model=model)
    for number, step, text, values in zip(*(chosen[name] for name in ("chain", "step", "text", "values")), strict=True):
        chain = Chain(int(number))
        prompt = Prompt(text, measured.prompts[measured.first_prompt(chain)].kind)
        yield EngineeredPrompt(chain, int(step), prompt, measured.score(np.where(measured.uses_name, values, np.nan)))


def _attention(measured: Measurements, rows: RowsOf, model: int) -> list[PromptAttention]:
    attended = select_rows(rows("attention"), model=model)
    attention = [
        PromptAttention(
            int(prompt), values, select_rows(rows("attention_weight"), "query", "key", model=model, prompt=prompt)
        )
        for prompt, values in zip(attended["prompt"], attended["values"], strict=True)
    ]
    dev = dict(zip(measured.used.tolist(), measured.dev_m_mem.tolist(), strict=True))
    return sorted(attention, key=lambda of_prompt: (-dev.get(of_prompt.prompt, 0.0), of_prompt.prompt))
