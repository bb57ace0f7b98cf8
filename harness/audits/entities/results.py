"""All that is concluded about one model, from its rows: each method's M-MEM, the tests, the groups, the attention."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.audits.entities.combining import baselines, ensembles, pair_votes
from harness.audits.entities.engineering import Chain, Modified, best_and_worst, modified
from harness.audits.entities.measured import Measured
from harness.audits.entities.ranking import Ranked
from harness.audits.entities.statistics import (
    Agreement,
    Cochran,
    GroupMean,
    Spread,
    agreement,
    cochran_over_all_pairs,
    cochran_over_disjoint_pairs,
    means_by,
    spread_over_names,
)
from harness.core.arrays import Floats
from harness.core.audit import AuditInputs, RowsOf
from harness.core.rows import Rows


class Method(NamedTuple):
    """A way of asking, and what it reaches in both halves. prompt: its text; empty where there are several."""

    family: str
    name: str
    prompt: str
    dev: Ranked
    test: Ranked


class WordImportance(NamedTuple):
    """The words that could go at one step. added, share: [words] of confidence, and of its softmax."""

    chain: Chain
    step: int
    places: NDArray[np.int64]
    words: list[str]
    added: Floats
    share: Floats


class AttendedPrompt(NamedTuple):
    """One prompt's attention to the name. inside, outside: [names] of a list; of_inside, of_outside: [words], means."""

    prompt: int
    words: list[str]
    inside: Floats
    outside: Floats
    of_inside: Floats
    of_outside: Floats


@dataclass(frozen=True)
class ModelResult:
    """One model's results; lists are empty, and tests None, where rows are not there yet."""

    name: str
    of: Measured
    methods: list[Method]
    all_pairs: Cochran
    disjoint_pairs: Cochran
    spread: Spread
    dev_to_test: Agreement
    by_kind: list[GroupMean]
    by_position: list[GroupMean]
    by_length: list[GroupMean]
    importances: list[WordImportance]
    engineered: list[Modified]
    attention: list[AttendedPrompt]


def model_result(inputs: AuditInputs, rows: RowsOf, model: int, name: str) -> ModelResult | None:
    """What one model's rows come to; None while they hold nothing to compare."""
    of = Measured(inputs, rows("confidence"), model)
    if not of.has_pairs:
        return None
    counters = pair_votes(of, of.test)
    seed = int(inputs.arrays["seed"])
    inside, outside = of.of_counted[:, of.test.inside], of.of_counted[:, of.test.outside]
    prompts = [of.asked[prompt] for prompt in of.counted]
    found = modified(of, rows("engineered"), model)
    return ModelResult(
        name=name,
        of=of,
        methods=_methods(of, counters, found),
        all_pairs=cochran_over_all_pairs(counters, [one.wins for one in of.of_test]),
        disjoint_pairs=cochran_over_disjoint_pairs(inside, outside, seed),
        spread=spread_over_names(inside, outside, seed),
        dev_to_test=agreement(of.dev_m_mem, of.test_m_mem),
        by_kind=means_by([prompt.kind for prompt in prompts], of.test_m_mem),
        by_position=means_by([prompt.position for prompt in prompts], of.test_m_mem),
        by_length=means_by([prompt.length for prompt in prompts], of.test_m_mem),
        importances=_importances(rows("word"), model),
        engineered=found,
        attention=_attention(of, rows("attention"), rows("attended_word"), model),
    )


def _methods(of: Measured, counters: NDArray[np.uint16], found: list[Modified]) -> list[Method]:
    alone, hand_written = of.asked[-1].text, of.asked[of.given].text
    texts = {"name alone": alone, "one hand-written prompt": hand_written}
    on_dev = dict(baselines(of, of.dev))
    methods = [
        Method("baseline", name, texts.get(name, ""), on_dev[name], test) for name, test in baselines(of, of.test)
    ]
    for name, prompt in (("best prompt on dev", of.best), ("worst prompt on dev", of.worst)):
        confidences = of.confidences[prompt]
        methods.append(
            Method("search", name, of.asked[prompt].text, of.dev.ranked(confidences), of.test.ranked(confidences))
        )
    if (ends := best_and_worst(found)) is not None:
        for name, end in zip(("best modified prompt (BM-PT)", "worst modified prompt (WM-PT)"), ends, strict=True):
            methods.append(Method("engineering", name, end.prompt.text, end.dev, end.test))
    on_dev = dict(ensembles(of, of.dev, pair_votes(of, of.dev)))
    methods += [Method("ensemble", name, "", on_dev[name], test) for name, test in ensembles(of, of.test, counters)]
    return methods


def _importances(rows: Rows, model: int) -> list[WordImportance]:
    is_own = np.asarray(rows["model"]) == model
    found = []
    for chain in Chain:
        is_of_chain = is_own & (np.asarray(rows["chain"]) == chain)
        for step in np.unique(np.asarray(rows["step"])[is_of_chain]).tolist():
            chosen = np.flatnonzero(is_of_chain & (np.asarray(rows["step"]) == step))
            chosen = chosen[np.argsort(np.asarray(rows["word"])[chosen], kind="stable")]
            places = np.asarray(rows["word"], np.int64)[chosen]
            words = [rows["text"][row] for row in chosen]
            added, share = np.asarray(rows["added"])[chosen], np.asarray(rows["share"])[chosen]
            found.append(WordImportance(chain, step, places, words, added, share))
    return found


def _attention(of: Measured, rows: Rows, of_words: Rows, model: int) -> list[AttendedPrompt]:
    """By M-MEM in the dev half, the best prompt first."""
    inside = np.concatenate([of.dev.inside, of.test.inside])
    outside = np.concatenate([of.dev.outside, of.test.outside])
    found = []
    for row in np.flatnonzero(np.asarray(rows["model"]) == model):
        prompt, values = int(rows["prompt"][row]), np.asarray(rows["values"][row])
        chosen = np.flatnonzero((np.asarray(of_words["model"]) == model) & (np.asarray(of_words["prompt"]) == prompt))
        chosen = chosen[np.argsort(np.asarray(of_words["word"])[chosen], kind="stable")]
        found.append(
            AttendedPrompt(
                prompt,
                [of_words["text"][word] for word in chosen],
                values[inside],
                values[outside],
                np.asarray(of_words["inside"])[chosen],
                np.asarray(of_words["outside"])[chosen],
            )
        )
    dev = dict(zip(of.counted.tolist(), of.dev_m_mem.tolist(), strict=True))
    return sorted(found, key=lambda one: (-dev.get(one.prompt, 0.0), one.prompt))
