"""One model's confidences from the rows, and the prompts that are made by dropping words.

Prompt engineering drops words one after the other from the best and from the worst prompt. The best prompt loses its
least important word at each step, the worst its most important one, down to the name alone. A word's importance is the
confidence that is lost without it, averaged over the dev half's names of both lists and normalized over the prompt's
words by a softmax (Xia et al. 2024).
"""

from enum import IntEnum
from functools import cached_property
from typing import NamedTuple

import numpy as np

from harness.audits.entities.inputs import PARTS
from harness.audits.entities.prompt import HAND_WRITTEN, MASK, OWN_KIND, Prompt
from harness.audits.entities.statistics import PairScore, score_pairs
from harness.core.arrays import Bools, Floats, Ints
from harness.core.audit import AuditInputs
from harness.core.rows import Rows

_SHARE_OF_PROMPTS = 0.9


def measured_prompts(inputs: AuditInputs) -> list[Prompt]:
    """Return every prompt that is measured: those of the inputs, the hand-written ones, and the name alone."""
    given = [Prompt(*each) for each in zip(inputs.texts["prompts"], inputs.texts["kinds"], strict=True)]
    return [*given, *(Prompt(text, OWN_KIND) for text in (*HAND_WRITTEN, MASK))]


def all_names(inputs: AuditInputs) -> list[str]:
    """Return the names in the order of a row of confidences."""
    return [name for part in PARTS for name in inputs.texts[part]]


class Half(NamedTuple):
    """The names of the dev or the test half as places in a row of confidences. inside: [n]; outside: [m]."""

    inside: Ints
    outside: Ints

    def score(self, confidences: Floats) -> PairScore:
        """Score all pairs of the half. confidences: [names]."""
        return score_pairs(*self.sides(confidences))

    def sides(self, confidences: Floats) -> tuple[Floats, Floats]:
        """Return the confidences of both lists."""
        return confidences[self.inside], confidences[self.outside]


def split_names(inputs: AuditInputs, is_used: Bools) -> tuple[Half, Half]:
    """Return the dev and the test half. is_used: [names]."""
    part_of = np.repeat(np.arange(len(PARTS)), [len(inputs.texts[part]) for part in PARTS])
    part_of = np.where(is_used, part_of, -1)
    in_dev, in_test, out_dev, out_test = (np.flatnonzero(part_of == part) for part in range(len(PARTS)))
    return Half(in_dev, out_dev), Half(in_test, out_test)


class Measurements:
    """One model's confidences.

    confidences: [prompts, names], NaN if there is none. A name is used if it has a confidence in nine of ten prompts
    (otherwise the vocabulary lacks its tokens), a prompt if every used name has a confidence in it (otherwise it is
    longer than the model's context).
    """

    def __init__(self, inputs: AuditInputs, rows: Rows, model: int) -> None:
        """rows: of the table `confidence`, in any order."""
        self.inputs = inputs
        self.prompts = measured_prompts(inputs)
        self.confidences = np.full((len(self.prompts), len(all_names(inputs))), np.nan)
        self.is_measured = np.zeros(len(self.prompts), bool)
        for row in np.flatnonzero(np.asarray(rows["model"]) == model):
            self.confidences[rows["prompt"][row]] = rows["values"][row]
            self.is_measured[rows["prompt"][row]] = True
        has_one = np.isfinite(self.confidences)
        has_any = has_one.any(axis=1)
        self.uses_name: Bools = (
            has_one[has_any].mean(axis=0) >= _SHARE_OF_PROMPTS if has_any.any() else has_one.any(axis=0)
        )
        self.uses_prompt: Bools = has_any & has_one[:, self.uses_name].all(axis=1)
        self.dev, self.test = split_names(inputs, self.uses_name)

    @property
    def given(self) -> int:
        """The number of prompts of the inputs, which come first."""
        return len(self.inputs.texts["prompts"])

    @property
    def is_complete(self) -> bool:
        """True if every prompt was measured."""
        return bool(self.is_measured.all())

    @property
    def has_pairs(self) -> bool:
        """True if a given prompt is used and both halves have two names in each list, as an interval needs."""
        return len(self.used) > 0 and min(map(len, (*self.dev, *self.test))) >= 2

    @cached_property
    def used(self) -> Ints:
        """The given prompts that are used, as places in `prompts`."""
        return np.flatnonzero(self.uses_prompt[: self.given])

    @cached_property
    def used_confidences(self) -> Floats:
        """The confidences of all names in the used prompts, [used, names]."""
        return self.confidences[self.used]

    @cached_property
    def dev_scores(self) -> list[PairScore]:
        """The scores of the used prompts in the dev half."""
        return [self.dev.score(confidences) for confidences in self.used_confidences]

    @cached_property
    def test_scores(self) -> list[PairScore]:
        """The scores of the used prompts in the test half."""
        return [self.test.score(confidences) for confidences in self.used_confidences]

    @cached_property
    def dev_m_mem(self) -> Floats:
        """M-MEM of the used prompts in the dev half, [used]."""
        return np.array([score.m_mem for score in self.dev_scores])

    @cached_property
    def test_m_mem(self) -> Floats:
        """M-MEM of the used prompts in the test half, [used]."""
        return np.array([score.m_mem for score in self.test_scores])

    @property
    def best(self) -> int:
        """The used prompt with the largest M-MEM in the dev half; the first of equal ones."""
        return int(self.used[np.argmax(self.dev_m_mem)])

    @property
    def worst(self) -> int:
        """The used prompt with the smallest M-MEM in the dev half; the first of equal ones."""
        return int(self.used[np.argmin(self.dev_m_mem)])


class Chain(IntEnum):
    """The prompt from which words are dropped."""

    BEST = 0
    WORST = 1


class EngineeredPrompt(NamedTuple):
    """A prompt after `step` words were dropped, and its scores in both halves."""

    chain: Chain
    step: int
    prompt: Prompt
    dev: PairScore
    test: PairScore


def importances(whole: float, without: Floats) -> Floats:
    """Return the softmax of the confidence that each word adds, [words]. whole, without: mean confidences in [0, 1]."""
    from scipy.special import softmax  # slow to import

    return np.asarray(softmax(whole - without))


def first_prompt(measured: Measurements, chain: Chain) -> int:
    """Return the place of the prompt with which a chain begins."""
    return measured.best if chain is Chain.BEST else measured.worst


def prompt_at(measured: Measurements, words: Rows, model: int, chain: Chain, step: int) -> Prompt:
    """Return the chain's prompt after `step` words were dropped. words: rows of the table `word` of earlier steps."""
    prompt = measured.prompts[first_prompt(measured, chain)]
    is_own = (np.asarray(words["model"]) == model) & (np.asarray(words["chain"]) == chain)
    for before in range(step):
        rows = np.flatnonzero(is_own & (np.asarray(words["step"]) == before))
        rows = rows[np.argsort(np.asarray(words["word"])[rows], kind="stable")]
        added = np.asarray(words["added"])[rows]
        dropped = rows[np.argmin(added) if chain is Chain.BEST else np.argmax(added)]
        prompt = prompt.without(int(words["word"][dropped]))
    return prompt


def engineered_prompts(measured: Measurements, engineered: Rows, model: int) -> list[EngineeredPrompt]:
    """Return all prompts of both chains by chain and step, the unchanged ones included."""
    prompts = []
    for row in np.flatnonzero(np.asarray(engineered["model"]) == model):
        confidences = np.where(measured.uses_name, engineered["values"][row], np.nan)
        chain = Chain(int(engineered["chain"][row]))
        prompt = Prompt(engineered["text"][row], measured.prompts[first_prompt(measured, chain)].kind)
        dev, test = measured.dev.score(confidences), measured.test.score(confidences)
        prompts.append(EngineeredPrompt(chain, int(engineered["step"][row]), prompt, dev, test))
    return sorted(prompts, key=lambda one: (one.chain, one.step))


def best_and_worst(prompts: list[EngineeredPrompt]) -> tuple[EngineeredPrompt, EngineeredPrompt] | None:
    """Return BM-PT and WM-PT: the modified prompts with the largest and the smallest M-MEM in the dev half."""
    modified = [one for one in prompts if one.step > 0 and one.dev.pairs]
    if not modified:
        return None
    return max(modified, key=lambda one: one.dev.m_mem), min(modified, key=lambda one: one.dev.m_mem)
