"""Prompt engineering: words dropped one after the other, from the best prompt and from the worst.

From the best the least important word goes, from the worst the most important one, down to the name alone. A word's
importance is the confidence that leaving it out costs, averaged over the dev half's names of both lists, and
normalised over the prompt's words by a softmax (Xia et al. 2024).
"""

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from harness.audits.entities.measured import Measured
from harness.audits.entities.prompt import Prompt
from harness.audits.entities.ranking import Ranked
from harness.core.arrays import Floats
from harness.core.rows import Rows


class Chain(IntEnum):
    """Which prompt the words are dropped from."""

    BEST = 0
    WORST = 1


class Modified(NamedTuple):
    """A prompt on the way down, `step` words shorter than the one it began as; dev and test: its pairs."""

    chain: Chain
    step: int
    prompt: Prompt
    dev: Ranked
    test: Ranked


def importances(whole: float, without: Floats) -> Floats:
    """The softmax of what each word adds to the confidence, [words]. whole, without: mean confidences, in [0, 1]."""
    added = np.exp(whole - without - np.max(whole - without, initial=-np.inf))
    return np.asarray(added / added.sum())


def begins_as(of: Measured, chain: Chain) -> Prompt:
    """The prompt that a chain starts with."""
    return of.asked[of.best if chain is Chain.BEST else of.worst]


def prompt_at(of: Measured, dropped: Rows, model: int, chain: Chain, step: int) -> Prompt:
    """The chain's prompt after `step` words were dropped. dropped: rows of the table `word`, of all earlier steps."""
    prompt = begins_as(of, chain)
    is_own = (np.asarray(dropped["model"]) == model) & (np.asarray(dropped["chain"]) == chain)
    for before in range(step):
        rows = np.flatnonzero(is_own & (np.asarray(dropped["step"]) == before))
        rows = rows[np.argsort(np.asarray(dropped["word"])[rows], kind="stable")]
        drops = np.asarray(dropped["added"])[rows]
        chosen = rows[np.argmin(drops) if chain is Chain.BEST else np.argmax(drops)]
        prompt = prompt.without(int(dropped["word"][chosen]))
    return prompt


def modified(of: Measured, engineered: Rows, model: int) -> list[Modified]:
    """All prompts on the way down, those they began as included, by chain and step."""
    found = []
    for row in np.flatnonzero(np.asarray(engineered["model"]) == model):
        confidences = np.where(of.name_counts, engineered["values"][row], np.nan)
        chain = Chain(int(engineered["chain"][row]))
        prompt = Prompt(engineered["text"][row], begins_as(of, chain).kind)
        step = int(engineered["step"][row])
        found.append(Modified(chain, step, prompt, of.dev.ranked(confidences), of.test.ranked(confidences)))
    return sorted(found, key=lambda one: (one.chain, one.step))


def best_and_worst(found: list[Modified]) -> tuple[Modified, Modified] | None:
    """BM-PT and WM-PT: of all modified prompts those with the largest and the smallest M-MEM in the dev half."""
    shorter = [one for one in found if one.step > 0 and one.dev.pairs]
    if not shorter:
        return None
    return max(shorter, key=lambda one: one.dev.m_mem), min(shorter, key=lambda one: one.dev.m_mem)
