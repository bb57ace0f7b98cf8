"""One model's confidences from the rows, the prompts that are made by dropping words, and all measured values.

Prompt engineering drops words one after the other from the best and from the worst prompt. The best prompt loses its
least important word at each step, the worst its most important one, until one word besides the name is left. A word
adds the M-MEM on dev of the prompt minus that of the prompt without it. Its importance is this difference, normalized
over the prompt's words by a softmax (Xia et al. 2024, Sections 4.1 and 5.5).
"""

import math
from collections.abc import Iterator, Sequence
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
from harness.core.measures import Estimate, Measure, MeasureRow, MeasureTable
from harness.core.rows import Rows

_SHARE_OF_PROMPTS = 0.9


def select_rows(rows: Rows, *order: str, **values: int) -> dict[str, list[Any]]:
    """Return the rows whose columns have these values, ordered by the columns `order`."""
    places = np.flatnonzero(np.all([np.asarray(rows[column]) == value for column, value in values.items()], axis=0))
    for column in reversed(order):
        places = places[np.argsort(np.asarray(rows[column])[places], kind="stable")]
    return {column: [cells[row] for row in places.tolist()] for column, cells in rows.items()}


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
    """Its place in `ModelResult.prompts`."""
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


class ModelResult:
    """The results of one model, from the rows so far.

    confidences: [prompts, names], NaN if there is none. A name is used if it has a confidence in nine of ten prompts
    (otherwise the vocabulary lacks its tokens), a prompt if every used name has a confidence in it (otherwise it is
    longer than the model's context).
    lengths, positions: [prompts] model tokens of each prompt, in which the name counts as one, and those before it.
    """

    def __init__(self, inputs: Names, rows: RowsOf, model: int, name: str = "") -> None:
        self.inputs, self.name = inputs, name
        self._rows, self._model = rows, model
        self.prompts = inputs.measured_prompts
        self.confidences = np.full((len(self.prompts), len(inputs.all)), np.nan)
        self.is_measured = np.zeros(len(self.prompts), bool)
        self.lengths, self.positions = np.zeros((2, len(self.prompts)), np.int64)
        for prompt, values, tokens, position in self._cells("confidence", "prompt", "values", "tokens", "position"):
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

    def _cells(self, table: str, *columns: str, order: Sequence[str] = ()) -> Iterator[tuple[Any, ...]]:
        """Yield cells of each of the model's rows of a table, ordered by the columns `order`."""
        rows = select_rows(self._rows(table), *order, model=self._model)
        yield from zip(*(rows[column] for column in columns), strict=True)

    @property
    def input_prompts(self) -> int:
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
        return np.flatnonzero(self.uses_prompt[: self.input_prompts])

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

    @cached_property
    def engineered(self) -> list[EngineeredPrompt]:
        """All prompts of both chains by chain and step, the unchanged ones included; empty without rows."""
        prompts = []
        for number, step, text, values in self._cells(
            "engineered", "chain", "step", "text", "values", order=("chain", "step")
        ):
            chain = Chain(int(number))
            prompt = Prompt(text, self.prompts[self.first_prompt(chain)].kind)
            scores = self.score(np.where(self.uses_name, values, np.nan))
            prompts.append(EngineeredPrompt(chain, int(step), prompt, scores))
        return prompts

    @cached_property
    def words(self) -> Rows:
        """The rows of the table `word` by chain, step and place: the words that can be dropped, and what each adds."""
        return select_rows(self._rows("word"), "chain", "step", "word", model=self._model)

    @cached_property
    def attention(self) -> list[PromptAttention]:
        """The attention in some prompts, ordered by M-MEM in the dev half, best first; empty without rows."""
        weights = self._rows("attention_weight")
        dev = dict(zip(self.used.tolist(), self.dev_m_mem.tolist(), strict=True))
        attention = [
            PromptAttention(prompt, values, select_rows(weights, "query", "key", model=self._model, prompt=prompt))
            for prompt, values in self._cells("attention", "prompt", "values")
        ]
        return sorted(attention, key=lambda of_prompt: (-dev.get(of_prompt.prompt, 0.0), of_prompt.prompt))

    @cached_property
    def methods(self) -> list[Method]:
        """All ways of prompting (Xia et al. 2024)."""
        alone = self.input_prompts + len(HAND_WRITTEN)
        hand_written = slice(self.input_prompts, alone)
        methods = [
            self._method("baseline", name, prompt)
            for name, prompt in (("∅-PT: name alone", alone), ("One-PT: hand-written", self.input_prompts))
            if self.uses_prompt[prompt]
        ]
        if self.uses_prompt[hand_written].all():
            names = np.arange(self.confidences.shape[1])
            generator = np.random.default_rng([self.inputs.seed, 3])
            choice = generator.integers(len(HAND_WRITTEN), size=len(names))
            scores = self.score(self.confidences[hand_written][choice, names])
            methods.append(Method("baseline", "Mix-PT: random of five", "", scores))
        methods.append(self._method("search", measures.BEST_ON_DEV, self.first_prompt(Chain.BEST)))
        methods.append(self._method("search", measures.WORST_ON_DEV, self.first_prompt(Chain.WORST)))
        if modified := [prompt for prompt in self.engineered if prompt.step > 0 and prompt.scores.dev.pairs]:
            for name, choose in ((measures.BEST_MODIFIED, max), (measures.WORST_MODIFIED, min)):
                of_name = choose(modified, key=lambda prompt: prompt.scores.dev.m_mem)
                methods.append(Method("engineering", name, of_name.prompt.text, of_name.scores))
        majority = Scores(*(majority_vote(counters, len(self.used)) for counters in self.votes))
        used = self.used_confidences
        weights = self.dev_m_mem if self.dev_m_mem.any() else np.ones(len(used))
        ensembles = {
            "MV: majority vote": majority,
            "AVG-C: average": self.score(used.mean(axis=0)),
            "WED-C: weighted average": self.score(np.average(used, axis=0, weights=weights)),
            "MAX-C: maximum": self.score(used.max(axis=0)),
            "MIN-C: minimum": self.score(used.min(axis=0)),
        }
        return methods + [Method("ensemble", name, "", scores) for name, scores in ensembles.items()]

    def _method(self, family: str, name: str, prompt: int) -> Method:
        return Method(family, name, self.prompts[prompt].text, self.score(self.confidences[prompt]))


def measured_values(results: Sequence[ModelResult]) -> MeasureTable:
    """Return all measured values of the models, and the rank correlations between models."""
    rows = []
    for result in results:
        rows += [*_values_of_methods(result), *_values_of_prompts(result), *_values_of_attention(result)]
    for side, halves in ((measures.DEV, (0, 0)), (measures.TEST, (1, 1)), (measures.DEV_TO_TEST, (0, 1))):
        pairs = permutations(results, 2) if side == measures.DEV_TO_TEST else combinations(results, 2)
        for first, second in pairs:
            _, *places = np.intersect1d(first.used, second.used, return_indices=True)
            of_models = zip((first, second), halves, places, strict=True)
            correlation = rank_correlation(*(result.m_mem[half, place] for result, half, place in of_models))
            for measure, value in zip((measures.TAU, measures.TAU_P), correlation, strict=True):
                rows.append(MeasureRow(measure, Estimate(value, of=len(places[0])), first.name, side, second.name))
    return MeasureTable(rows)


def _values_of_methods(result: ModelResult) -> Iterator[MeasureRow]:
    for method in result.methods:
        for side, score in zip((measures.DEV, measures.TEST), method.scores, strict=True):
            estimate = Estimate(score.m_mem, score.low, score.high, score.pairs)
            yield MeasureRow(measures.M_MEM, estimate, result.name, side, method.name)
            yield MeasureRow(measures.TIES, Estimate(score.ties, of=score.pairs), result.name, side, method.name)


def _values_of_prompts(result: ModelResult) -> Iterator[MeasureRow]:
    """Yield the values over the used prompts."""
    number, (dev, test) = len(result.used), result.m_mem

    def row(measure: Measure, value: float | Estimate, side: str, case: str = "", at: int | None = None) -> MeasureRow:
        estimate = value if isinstance(value, Estimate) else Estimate(float(value), of=number)
        return MeasureRow(measure, estimate, result.name, side, case, at)

    for side, half, values in ((measures.DEV, result.dev, dev), (measures.TEST, result.test, test)):
        placed = [placements(*(confidences[part] for part in half)) for confidences in result.used_confidences]
        low, high = delong_interval(Placements(*(np.mean(part, axis=0) for part in zip(*placed, strict=True))))
        mean = float(values.mean())
        interval = Estimate(mean, min(low, mean), max(high, mean), number)
        yield row(measures.PROMPTS_M_MEM, interval, side, "mean")
        yield row(measures.PROMPTS_M_MEM, values.max(), side, "best")
        yield row(measures.PROMPTS_M_MEM, values.min(), side, "worst")
        yield row(measures.PROMPTS_M_MEM, values.std(), side, "standard deviation")
        yield row(measures.PROMPTS_M_MEM, np.ptp(values), side, "range")
    best, worst = test[dev.argmax()], test[dev.argmin()]
    yield row(measures.RANK, 1 + (test > best).sum(), measures.TEST, measures.BEST_ON_DEV)
    yield row(measures.RANK, -1 - (test < worst).sum(), measures.TEST, measures.WORST_ON_DEV)
    yield row(measures.CHANCE_ERROR, Estimate(chance_error(*map(len, result.test))), measures.TEST)
    q, q_p = cochran_q(result.votes[1], [score.test.wins for score in result.scores])
    inside, outside = (result.used_confidences[:, names] for names in result.test)
    lead, lead_p = spread_over_names(inside, outside, result.inputs.seed)
    tau, tau_p = rank_correlation(dev, test)
    yield row(measures.COCHRAN, q, measures.TEST)
    yield row(measures.COCHRAN_P, Estimate(q_p), measures.TEST)
    yield row(measures.LEAD, lead, measures.TEST)
    yield row(measures.LEAD_P, Estimate(lead_p), measures.TEST)
    yield row(measures.TAU, tau, measures.DEV_TO_TEST)
    yield row(measures.TAU_P, Estimate(tau_p), measures.DEV_TO_TEST)
    kinds = [result.prompts[prompt].kind for prompt in result.used]
    lengths, positions = result.lengths[result.used], result.positions[result.used]
    for kind, estimate in means_by_group(kinds, dev).items():
        yield row(measures.BY_TYPE, estimate, measures.DEV, str(kind))
    for measure, places in ((measures.BY_POSITION, positions), (measures.BY_LENGTH, lengths)):
        for place, estimate in means_by_group(places.tolist(), dev).items():
            yield row(measure, estimate, measures.DEV, at=int(place))
    for case, coefficient in property_correlations(kinds, {"length": lengths, "position": positions}, dev):
        yield row(measures.PROPERTY, coefficient, measures.DEV, case)


def _values_of_attention(result: ModelResult) -> Iterator[MeasureRow]:
    for of_prompt in result.attention:
        for side, names in zip((measures.INSIDE, measures.OUTSIDE), result.dev, strict=True):
            values = of_prompt.to_name[names]
            estimate = Estimate(*normal_interval(values), int(np.isfinite(values).sum()))
            yield MeasureRow(measures.ATTENTION, estimate, result.name, f"{side} names", f"#{of_prompt.prompt + 1}")
