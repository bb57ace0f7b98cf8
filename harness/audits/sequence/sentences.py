"""Sentences that explain the figures of a sequence audit. They quote no text of the corpus."""

from collections import Counter
from collections.abc import Iterator

from harness.audits.sequence.completion import State
from harness.audits.sequence.dataset import Control, Dataset, ReadCounts
from harness.audits.sequence.measures import Results
from harness.audits.sequence.params import SequenceParams
from harness.audits.sequence.rates import SIDES, Contrasts
from harness.audits.sequence.similarity import RUN
from harness.audits.sequence.thresholds import TITLES
from harness.core.text import format_p_value, pluralize


def sequence_sentences(
    params: SequenceParams, dataset: Dataset, results: Results, contrasts: Contrasts, model: str
) -> list[str]:
    """Return the sentences, most important first."""
    return [
        _method(params, dataset, results, model),
        *_rates(dataset, contrasts),
        *_control(dataset),
        *_read(params, "corpus", dataset.corpus_counts),
        *(_read(params, "control", dataset.control_counts) if dataset.control_counts else ()),
        *_states(results),
        "Intervals and tests treat paragraphs as independent. Paragraphs of one document are not: if few documents "
        "contribute many paragraphs, the results are less certain than the intervals say.",
        *dataset.notes,
    ]


def _method(params: SequenceParams, dataset: Dataset, results: Results, model: str) -> str:
    length = dataset.prompt_length
    prompt = "the round's own prefixes" if length is None else f"their first {pluralize(length, 'word')}"
    how = "greedy decoding" if params.temperature == 0 else f"sampling at temperature {params.temperature:g}"
    number = pluralize(int((results.own.is_compared & ~dataset.is_control).sum()), "paragraph")
    if dataset.control is Control.CORPUS:
        control = int((results.own.is_compared & dataset.is_control).sum())
        number += f" of the corpus and {control:,} of the control"
    else:
        number += " of the corpus"
    return (
        f"{model} completed {number} from {prompt} by {how}. Each completion was cut to the suffix's number of words "
        "and compared with the suffix."
    )


def _rates(dataset: Dataset, contrasts: Contrasts) -> Iterator[str]:
    for threshold, one in contrasts.items():
        if one.corpus.judged and one.control.judged:
            p_value = "" if one.p_value is None else f" ({format_p_value(one.p_value)})"
            title, side = TITLES[threshold].capitalize(), SIDES[dataset.control]
            yield f"{title}: {one.corpus.share} on the corpus, {one.control.share} on the {side}{p_value}."


def _control(dataset: Dataset) -> Iterator[str]:
    if dataset.control is Control.PERMUTED:
        if len(dataset) < 2:
            yield "A single paragraph has no control, so its rates prove nothing."
            return
        yield (
            "The control is permuted suffixes: each completion is compared with the suffix of another paragraph of "
            "similar length. It measures chance overlap only. Use --control with unseen text of the same kind to "
            "measure what a model completes without having seen the corpus. The test is McNemar's exact test, "
            "one-sided; verbatim runs are compared by Wilcoxon's signed-rank test."
        )
        return
    yield (
        "The control is other paragraphs, which the model is assumed not to have seen. The test is Fisher's exact "
        "test, one-sided."
    )
    if dataset.is_shared.any():
        corpus = pluralize(int((dataset.is_shared & ~dataset.is_control).sum()), "paragraph")
        control = int((dataset.is_shared & dataset.is_control).sum())
        yield (
            f"{corpus} of the corpus and {control:,} of the control share a run of {RUN} words with the other side. "
            "The control's rates, the differences and the tests exclude them."
        )


def _read(params: SequenceParams, side: str, counts: ReadCounts) -> Iterator[str]:
    parts = []
    if counts.too_short:
        parts.append(f"{counts.too_short:,} without a word after the prompt")
    if counts.repeated:
        parts.append(f"{pluralize(counts.repeated, 'repetition')} (a repeated paragraph is requested once)")
    if counts.not_chosen:
        parts.append(f"{counts.not_chosen:,} beyond the limit of {params.limit:,} (sampled by seed)")
    if parts:
        yield f"Not used of {pluralize(counts.paragraphs, 'paragraph')} of the {side}: {', '.join(parts)}."
    if counts.shortened:
        longest = pluralize(params.longest_suffix, "word")
        yield f"{pluralize(counts.shortened, 'paragraph')} of the {side} had a suffix cut to {longest}."


def _states(results: Results) -> Iterator[str]:
    states = Counter(results.states)
    if number := states[None]:
        yield f"Not measured yet: {pluralize(number, 'paragraph')}."
    if number := states[State.NO_ROOM]:
        yield (
            f"Left out: {pluralize(number, 'paragraph')} whose prompt and suffix exceed the model's context, or whose "
            "prompt has none of its tokens."
        )
    if number := states[State.UNANSWERED]:
        is_unanswered = [state is State.UNANSWERED for state in results.states]
        faults = Counter(fault for fault, is_one in zip(results.faults, is_unanswered, strict=True) if is_one)
        reasons = ", ".join(f"it {fault} ({pluralize(times, 'time')})" for fault, times in sorted(faults.items()))
        yield f"Left out: {pluralize(number, 'paragraph')} without an answer from the endpoint: {reasons}."
