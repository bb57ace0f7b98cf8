"""From rows to what they say of one model: which names and prompts count, and every prompt's M-MEM in both halves."""

from functools import cached_property
from typing import NamedTuple

import numpy as np

from harness.audits.entities.inputs import PARTS
from harness.audits.entities.prompt import HAND_WRITTEN, MASK, OWN_KIND, Prompt
from harness.audits.entities.ranking import Ranked, ranked
from harness.core.arrays import Bools, Floats, Ints
from harness.core.audit import AuditInputs
from harness.core.rows import Rows

_MOST = 0.9


def asked_prompts(inputs: AuditInputs) -> list[Prompt]:
    """Every prompt that is measured: those of the inputs, then the hand-written ones, then the name alone."""
    given = [Prompt(*of) for of in zip(inputs.texts["prompts"], inputs.texts["kinds"], strict=True)]
    return [*given, *(Prompt(text, OWN_KIND) for text in (*HAND_WRITTEN, MASK))]


def every_name(inputs: AuditInputs) -> list[str]:
    """The names in the order in which a row of confidences holds them."""
    return [name for part in PARTS for name in inputs.texts[part]]


class Half(NamedTuple):
    """The names of the dev or of the test half, as places in a row of confidences. inside: [n]; outside: [m]."""

    inside: Ints
    outside: Ints

    def ranked(self, confidences: Floats) -> Ranked:
        """M-MEM of all pairs in it. confidences: [names]."""
        return ranked(confidences[self.inside], confidences[self.outside])

    def sides(self, confidences: Floats) -> tuple[Floats, Floats]:
        """The confidences of both lists."""
        return confidences[self.inside], confidences[self.outside]


def halves_of(inputs: AuditInputs, counts: Bools | None = None) -> tuple[Half, Half]:
    """Dev and test. counts: [names] which names have a part in it."""
    sizes = [len(inputs.texts[part]) for part in PARTS]
    of_part = np.repeat(np.arange(len(PARTS)), sizes)
    if counts is not None:
        of_part = np.where(counts, of_part, -1)
    in_dev, in_test, out_dev, out_test = (np.flatnonzero(of_part == part) for part in range(len(PARTS)))
    return Half(in_dev, out_dev), Half(in_test, out_test)


class Measured:
    """One model's confidences: those of the prompts that were measured, and of the names that it has tokens for.

    confidences: [asked prompts, names], NaN where there is none. A name counts when it has a confidence in nine of ten
    prompts (of others the vocabulary has no token), a prompt when every name that counts has one in it (others are
    longer than the model reads).
    """

    def __init__(self, inputs: AuditInputs, rows: Rows, model: int) -> None:
        """rows: of the table `confidence`, in any order."""
        self.inputs = inputs
        self.asked = asked_prompts(inputs)
        names = sum(len(inputs.texts[part]) for part in PARTS)
        self.confidences = np.full((len(self.asked), names), np.nan)
        self.is_measured = np.zeros(len(self.asked), bool)
        for row in np.flatnonzero(np.asarray(rows["model"]) == model):
            self.confidences[rows["prompt"][row]] = rows["values"][row]
            self.is_measured[rows["prompt"][row]] = True
        has_one = np.isfinite(self.confidences)
        is_of_use = has_one.any(axis=1)
        self.name_counts: Bools = has_one[is_of_use].mean(axis=0) >= _MOST if is_of_use.any() else has_one.any(axis=0)
        self.prompt_counts: Bools = is_of_use & has_one[:, self.name_counts].all(axis=1)
        self.dev, self.test = halves_of(inputs, self.name_counts)

    @property
    def given(self) -> int:
        """How many prompts are the inputs' own, the first ones."""
        return len(self.inputs.texts["prompts"])

    @property
    def is_complete(self) -> bool:
        """Every prompt was measured."""
        return bool(self.is_measured.all())

    @property
    def has_pairs(self) -> bool:
        """Some given prompt counts, and both halves have two names in each list, as an interval takes."""
        lists = (self.dev.inside, self.dev.outside, self.test.inside, self.test.outside)
        return len(self.counted) > 0 and min(map(len, lists)) >= 2

    @cached_property
    def counted(self) -> Ints:
        """The given prompts that count, as places among all."""
        return np.flatnonzero(self.prompt_counts[: self.given])

    @cached_property
    def of_dev(self) -> list[Ranked]:
        """The dev half's pairs under each of `counted`."""
        return [self.dev.ranked(self.confidences[prompt]) for prompt in self.counted]

    @cached_property
    def of_test(self) -> list[Ranked]:
        """The test half's pairs under each of `counted`."""
        return [self.test.ranked(self.confidences[prompt]) for prompt in self.counted]

    @cached_property
    def dev_m_mem(self) -> Floats:
        """M-MEM of each of `counted` in the dev half."""
        return np.array([one.m_mem for one in self.of_dev])

    @cached_property
    def test_m_mem(self) -> Floats:
        """M-MEM of each of `counted` in the test half."""
        return np.array([one.m_mem for one in self.of_test])

    @property
    def best(self) -> int:
        """The given prompt with the largest M-MEM in the dev half, the first of equal ones."""
        return int(self.counted[np.argmax(self.dev_m_mem)])

    @property
    def worst(self) -> int:
        """The given prompt with the smallest M-MEM in the dev half, the first of equal ones."""
        return int(self.counted[np.argmin(self.dev_m_mem)])

    @cached_property
    def of_counted(self) -> Floats:
        """Confidences of all names under each of `counted`, [counted, names]; those of names that do not count too."""
        return self.confidences[self.counted]
