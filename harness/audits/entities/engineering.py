"""Prompt engineering: drop words one after the other from the best and from the worst prompt.

The best prompt loses its least important word at each step, the worst its most important one, down to the name alone. A
word's importance is the confidence that is lost without it, averaged over the dev half's names of both lists and
normalized over the prompt's words by a softmax (Xia et al. 2024).
"""

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from harness.audits.entities.measurements import Measurements
from harness.audits.entities.prompt import Prompt
from harness.audits.entities.ranking import PairScore
from harness.core.arrays import Floats
from harness.core.rows import Rows


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
