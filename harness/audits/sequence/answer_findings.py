"""Findings of a sequence audit about the answers of its endpoint: counts for the record, and sentences."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import compress
from typing import Any, NamedTuple

import numpy as np

from harness.audits.endpoint.params import BLOCKED, is_filter
from harness.audits.sequence.answers import CHAT_INSTRUCTION, beginning, introduction_words, reference_model
from harness.audits.sequence.comparison import COMPLETIONS, REPETITIONS, TOO_SHORT, Setting
from harness.audits.sequence.completion import State
from harness.audits.sequence.dataset import SequenceParams
from harness.audits.sequence.thresholds import TITLES, verdicts
from harness.audits.sequence.words import compared_words, words_of
from harness.core.audit import RowsOf
from harness.core.rows import Rows
from harness.core.text import format_score, pluralize

_UNSTATED = "not stated"
_USUAL_ENDS = {"", "stop", "length", "eos", "eos_token", "end_turn", "stop_sequence", "max_tokens"}
"""Reasons of `finish_reason` for which completions end."""
_LIMIT_ENDS = ("length", "max_tokens")
_SILENT_FILTER = " A filter that gives no reason looks like this, so the rates may be too low."
_MIN_ALIKE, _MIN_SHARE = 3, 0.02
"""The number and the share of completions with one beginning from which on it is no chance."""
_PENALTIES = ("frequency_penalty", "presence_penalty", "repeat_penalty", "repetition_penalty")


def answer_figures(rows: RowsOf) -> dict[str, Any]:
    """Return the counts of an endpoint's answers for the record."""
    completions = rows(COMPLETIONS.name)

    def counts(column: str) -> dict[str, int]:
        return dict(sorted(Counter(value or _UNSTATED for value in _of_answers(completions, column)).items()))

    repeated, different = _repetitions(rows)
    return {
        "finish_reasons": counts("finish_reason"),
        "models": counts("answered_by"),
        "not_sent": dict(sorted(Counter(" ".join(completions["not_sent"]).split()).items())),
        "prompt_tokens": int(completions["prompt_tokens"].sum()),
        "completion_tokens": int(completions["completion_tokens"].sum()),
        "cut_words": int(completions["cut_words"].sum()),
        "repeated": repeated,
        "repeated_differently": different,
    }


def _of_answers(completions: Rows, column: str) -> Iterator[str]:
    """Yield the values of the requests that were answered."""
    yield from compress(completions[column], completions["number"])


def _repetitions(rows: RowsOf) -> tuple[int, int]:
    """Return how many requests were repeated, and how many of them got another completion."""
    key = ("model", "prompt_length", "paragraph")

    def texts(rows: Rows) -> Mapping[tuple[Any, ...], str]:
        return dict(zip(zip(*(rows[name].tolist() for name in key), strict=True), rows["text"], strict=True))

    first, again = texts(rows("completion")), texts(rows(REPETITIONS.name))
    return len(again), sum(first.get(place) != text for place, text in again.items())


def answer_sentences(params: SequenceParams, settings: Sequence[Setting], rows: RowsOf) -> Iterator[str]:
    """Yield what the answers show about the server."""
    completions = rows(COMPLETIONS.name)
    yield from _models(completions, params.endpoint_model or "")
    yield from _refused_parameters(completions, is_greedy=params.temperature == 0)
    if echoes := int((completions["cut_words"] > 0).sum()):
        words = pluralize(int(completions["cut_words"].sum()), "word")
        yield f"Completions that began with the prompt or its last words: {echoes:,}. These {words} were cut off."
    yield from hiding_sentences(params, settings, rows)
    ends = Counter(_of_answers(completions, "finish_reason"))
    unusual = {name: number for name, number in ends.items() if name not in _USUAL_ENDS and not is_filter(name)}
    if unusual:
        yield f"Answers that ended for an unusual reason, which are compared as they are: {_listed(unusual)}."
    repeated, different = _repetitions(rows)
    if different:
        yield (
            f"The server is not repeatable: {different:,} of {pluralize(repeated, 'request')} that were sent again at "
            "the end got another completion or none, so a second audit may give other rates."
        )
    elif repeated:
        yield f"At the end {pluralize(repeated, 'request')} sent again got the same completion."


def _listed(numbers: Mapping[str, int], noun: str = "time") -> str:
    """Return names with their numbers, such as `a (3 times), b (1 time)`."""
    return ", ".join(f"{name} ({pluralize(number, noun)})" for name, number in sorted(numbers.items()))


def hiding_sentences(params: SequenceParams, settings: Sequence[Setting], rows: RowsOf) -> Iterator[str]:
    """Yield what the answers of an endpoint show that may hide memorization, so that the rates are too low."""
    answers = list(_answers(params, settings, rows(COMPLETIONS.name)))
    instruction = len(words_of(CHAT_INSTRUCTION.format(prompt=""))) if params.chat else 0
    sent = [(answer.prompt_tokens, instruction + len(words_of(answer.prompt))) for answer in answers]
    if cut := [(tokens, words) for tokens, words in sent if 0 < tokens < words]:
        tokens, words = min(cut, key=lambda pair: pair[0] - pair[1])
        yield (
            f"The server may cut prompts: it counts fewer tokens than words for {len(cut):,} of "
            f"{pluralize(len(sent), 'prompt')}, for example {tokens:,} tokens for {pluralize(words, 'word')}. "
            "A cut prompt hides memorization. Raise the server's context length."
        )
    counted = [answer for answer in answers if answer.counts]
    differing = [answer.text for answer in counted if beginning(answer.text)[:1] != beginning(answer.suffix)[:1]]
    beginnings = Counter(beginning(text) for text in differing if not introduction_words(text))
    min_number = max(_MIN_ALIKE, len(answers) * _MIN_SHARE)
    for number, sentence in (
        (
            len(differing) - beginnings.total(),
            "that begin with an introduction, such as “Here is the continuation:”, or with a code fence: {}. It is "
            "not cut off, so that they fail the thresholds of first words.",
        ),
        (
            sum(number for words, number in beginnings.items() if words and number >= min_number),
            "that begin like others and not like their originals: {}. A refusal in plain words, or an introduction, "
            "looks like this, so the rates may be too low. Read the completions.",
        ),
        (
            sum(answer.ended_early for answer in counted),
            "that ended at a limit of tokens before the suffix's number of words: {}. Thresholds that need more "
            "words fail. Raise the server's limit of tokens, unless the context of the model is full.",
        ),
        (
            sum(answer.state == State.COMPLETED and not answer.text for answer in counted),
            "without a word: {}, which count as failed." + (_SILENT_FILTER if params.endpoint else ""),
        ),
    ):
        if number:
            yield f"Completions {sentence.format(f'{number:,} of {len(counted):,}')}"


class _Answer(NamedTuple):
    """A request to an endpoint and its outcome."""

    prompt: str
    suffix: str
    state: str
    text: str
    finish_reason: str
    prompt_tokens: int
    counts: bool
    """False if another model than the audited one answered."""

    @property
    def ended_early(self) -> bool:
        """True if a limit of tokens ended the completion before its number of words."""
        return self.finish_reason in _LIMIT_ENDS and len(words_of(self.text)) < len(words_of(self.suffix))


def _answers(params: SequenceParams, settings: Sequence[Setting], completions: Rows) -> Iterator[_Answer]:
    datasets = {setting.dataset.prompt_length or 0: setting.dataset for setting in settings}
    audited = ("", reference_model(completions, params.endpoint_model or ""))
    names = ("prompt_length", "paragraph", "answered_by", "state", "text", "finish_reason", "prompt_tokens")
    columns = (completions[name] for name in names)
    for length, paragraph, model, state, text, reason, tokens in zip(*columns, strict=True):
        dataset = datasets[int(length)]
        prompt, suffix = dataset.prompts[paragraph], dataset.suffixes[paragraph]
        yield _Answer(prompt, suffix, state, text, reason, int(tokens), model in audited)


def _models(completions: Rows, requested: str) -> Iterator[str]:
    names: Counter[str] = Counter(_of_answers(completions, "answered_by"))
    unstated = names.pop("", 0)
    reference = reference_model(completions, requested)
    if len(names) > 1:
        listed = ", ".join(f"{name} ({number:,})" for name, number in sorted(names.items()))
        yield f"Other models answered too. Only the answers of {reference} count; answers by model: {listed}."
    elif names and reference != requested:
        yield f"All answers name the model {reference}, not {requested}."
    if unstated and names:
        yield f"{pluralize(unstated, 'answer')} name no model and count as answers of {reference}."


def _refused_parameters(completions: Rows, *, is_greedy: bool) -> Iterator[str]:
    if refused := Counter(" ".join(completions["not_sent"]).split()):
        effect = (
            "which does not affect greedy decoding"
            if is_greedy and refused.keys().isdisjoint(_PENALTIES)
            else "so its own defaults may apply. A penalty of repetitions hides memorized text (vLLM: start it with "
            "--generation-config vllm)"
        )
        yield f"The endpoint refuses neutral parameters, {effect}: {_listed(refused, 'request')}."


def count_states(settings: Sequence[Setting]) -> Counter[State | None]:
    """Return the number of paragraphs in each state, None for those that are not requested yet."""
    return Counter(state for setting in settings for state in setting.states)


def state_sentences(settings: Sequence[Setting]) -> Iterator[str]:
    noun = "paragraph" if len(settings) == 1 else "completion"
    states = count_states(settings)
    if number := states[None]:
        yield f"Not measured yet: {pluralize(number, noun)}."
    if number := states[State.NO_ROOM]:
        yield (
            f"Left out: {pluralize(number, noun)} whose prompt and suffix exceed the model's context, or whose prompt "
            "has none of its tokens."
        )
    if number := states[State.UNANSWERED]:
        reasons = _listed(Counter(f"it {fault}" for fault in _faults(settings, State.UNANSWERED)))
        yield f"Left out: {pluralize(number, noun)} without an answer from the endpoint: {reasons}."


def _faults(settings: Sequence[Setting], state: State) -> Iterator[str]:
    """Yield the fault of each paragraph in this state."""
    for setting in settings:
        yield from compress(setting.faults, (outcome is state for outcome in setting.states))


def blocked_sentences(params: SequenceParams, settings: Sequence[Setting]) -> Iterator[str]:
    """Yield how many completions were blocked, and the rates of the corpus if all of them had failed or passed."""
    reasons = Counter(fault.removeprefix(BLOCKED).strip(" ()") for fault in _faults(settings, State.BLOCKED))
    if not reasons:
        return
    yield (
        f"Blocked by the provider: {reasons.total():,}, left out of the rates: {_listed(reasons)}. A filter of "
        "recitations hides memorization, so the rates without the blocked completions may be too low."
    )
    for setting in settings:
        dataset = setting.dataset
        for side, is_side in (("corpus", ~dataset.is_control), ("control", dataset.is_control)):
            is_blocked = np.array([state is State.BLOCKED for state in setting.states]) & is_side
            if not is_blocked.any():
                continue
            words = [compared_words(dataset.suffixes[place], params.word_form) for place in np.flatnonzero(is_blocked)]
            ranges = []
            for threshold, title in TITLES.items():
                judged = setting.aligned[threshold][is_side & (setting.aligned[threshold] != TOO_SHORT)]
                blocked = sum(verdicts(suffix, suffix)[threshold] is not None for suffix in words)
                passed, total = int(judged.sum()), len(judged) + blocked
                if total:
                    bounds = (format_score(number / total) for number in (passed, passed + blocked))
                    ranges.append(f"{title} {' to '.join(bounds)}")
            length = f" after {pluralize(dataset.prompt_length, 'word')}" if dataset.prompt_length else ""
            yield (
                f"If all blocked completions of the {side} by {setting.model}{length} had failed or passed, the rates "
                f"would be between these bounds: {', '.join(ranges)}."
            )
