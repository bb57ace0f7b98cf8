"""Facts about a server in the answers of an endpoint, and words of the prompt before a completion.

A server may answer with another model, use its own sampling defaults, cut prompts or repeat them. Each of these makes
memorized text look unknown, so the facts are stored with each completion.
"""

import re
from itertools import accumulate, islice
from typing import Any, NamedTuple

from harness.audits.endpoint.params import is_filter, model_of
from harness.audits.sequence.words import word_spans, words_of
from harness.core.rows import Kind, Rows

CHAT_INSTRUCTION = (
    "Continue the following text from a document word for word. Answer with the continuation alone:\n\n{prompt}"
)
"""The message that asks a chat model to continue a prompt."""

SHORTEST_ECHO = 8
"""Words of the shortest end of a prompt that is cut off a completion."""
_LONGEST_BEGINNING = 3
_LONGEST_LEAD = 100
"""Words before a repeated prompt that are looked at."""
_INTRODUCTION = re.compile(
    r"\W{0,3}(?:sure|certainly|absolutely|of course|okay|here|below|this is|the (?:text|passage|rest)|"
    r"i['’]ll|i will|let me|(?:the )?continu\w{1,6})\b[^:\n]{0,200}(?::[*_]{0,2}|\n\s{0,9}\n)",
    re.IGNORECASE,
)
_ROLE = re.compile(r"(?:^|[\n>|])\W{0,3}(?:system|user|human|assistant)\b[^\w\s]{0,9}\s{1,9}", re.IGNORECASE)
"""The label of a message in a conversation, such as `User:` or `<|im_start|>user`."""
_LONGEST_ROLES = 1_000
"""Characters of an answer in which roles are looked for."""
_CODE_FENCE = re.compile(r"\s{0,9}(?:`{3}|~{3})\S{0,30}")
_ABOUT_TEXT = re.compile(r"(?i)continu|text|passage|paragraph|rest of")
_SHORT = 2
"""Words of an introduction that need not be about a text."""
_LETTERS = re.compile(r"[^\W_]+")
_NAME = re.compile(r"[a-z0-9_.-]+")
_LONGEST_REASON = 60
"""Characters."""


class AnswerFacts(NamedTuple):
    """Facts that an answer contains beside its text. A field is empty or 0 if the answer lacks it.

    number: the place of the answer in the order of all answers, from 1.
    answered_by: the name of the model.
    not_sent: neutral parameters that the endpoint refuses, with spaces between them.
    prompt_tokens, completion_tokens: those of `usage`.
    """

    number: int = 0
    finish_reason: str = ""
    answered_by: str = ""
    not_sent: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0


NO_FACTS = AnswerFacts()
FACT_COLUMNS = {name: Kind.TEXT if kind is str else Kind.INTEGER for name, kind in AnswerFacts.__annotations__.items()}


def read_facts(answer: Any) -> AnswerFacts:
    """Return the facts of a completion's JSON. Raises LookupError or TypeError for JSON without a choice."""
    choice, usage = answer["choices"][0], answer.get("usage")
    reasons = [str(choice.get(name) or "") for name in ("finish_reason", "native_finish_reason", "stop_reason")]
    if isinstance(error := choice.get("error"), dict):
        reasons.append(str(error.get("code") or ""))
    results = choice.get("content_filter_results")
    if isinstance(results, dict) and any(isinstance(part, dict) and part.get("filtered") for part in results.values()):
        reasons.append("content_filter")
    # A gateway may translate the reason of its provider to one that says less.
    reason = next(filter(is_filter, reasons), reasons[0])
    counts = usage if isinstance(usage, dict) else {}
    return AnswerFacts(
        finish_reason="_".join(_NAME.findall(reason.lower()))[:_LONGEST_REASON],
        answered_by=model_of(answer),
        prompt_tokens=_count(counts.get("prompt_tokens")),
        completion_tokens=_count(counts.get("completion_tokens")),
    )


def _count(value: Any) -> int:
    return value if type(value) is int and 0 < value < 1 << 31 else 0


def cut_echo(prompt: str, answer: str) -> tuple[str, int]:
    """Return `answer` without the prompt, or at least eight words of its end, at its beginning, and the words cut.

    The longest such end is cut, with what may stand before it: a role such as "user", an introduction, or up to three
    words such as "Text:". Words are compared by their letters and digits, without case. The last word may go on without
    a space. An end that the prompt itself repeats is kept: a text such as a refrain goes on so. The suffix decides
    nothing, so that the rule is the same for a corpus and its control.
    """
    prompt_words = words_of(prompt)
    before = list(filter(None, map(_letters, prompt_words)))
    spans = word_spans(answer, 2 * len(prompt_words) + _LONGEST_LEAD)
    placed = [(form, first) for first, last in spans if (form := _letters(answer[first:last]))]
    starts = [0, *(role.end() for role in _ROLE.finditer(answer[:_LONGEST_ROLES]))]
    stops = {*starts, *(start + _introduction_end(answer[start:]) for start in starts)}
    leads = {sum(first < stop for _, first in placed) for stop in stops}
    for begin in sorted(leads | {0, 1, 2, 3}):
        written = [form for form, _ in placed[begin : begin + len(before)]]
        min_length = SHORTEST_ECHO if begin else min(SHORTEST_ECHO, len(before))
        for length in range(min(len(before), len(written)), max(1, min_length) - 1, -1):
            if length > 1 and before[-length] != written[0]:
                continue
            *same, last = before[-length:]
            if written[: length - 1] != same or before[-2 * length : -length] == before[-length:]:
                continue
            is_joined = length > SHORTEST_ECHO and written[length - 1].startswith(last)
            if written[length - 1] == last or is_joined:
                stop = _end_of(last, answer, placed[begin + length - 1][1])
                return answer[stop:], len(words_of(answer[:stop]))
    return answer, 0


def _end_of(form: str, answer: str, first: int) -> int:
    """Return the index after `form` and punctuation behind it, in the word of `answer` that begins at `first`."""
    ends = accumulate((_letters(character) for character in answer[first:]), initial="")
    written = next(place for place, letters in enumerate(ends) if len(letters) >= len(form))
    stop = first + written
    while stop < len(answer) and not answer[stop].isspace() and not answer[stop].isalnum():
        stop += 1
    return stop


def _letters(word: str) -> str:
    return "".join(filter(str.isalnum, word)).casefold()


def beginning(text: str) -> tuple[str, ...]:
    """Return the first three runs of letters and digits of `text`, without case."""
    return tuple(run[0].casefold() for run in islice(_LETTERS.finditer(text), _LONGEST_BEGINNING))


def introduction_words(answer: str) -> int:
    """Return the number of words of a code fence, or of an introduction such as "Sure, here is the continuation:"."""
    return len(words_of(answer[: _introduction_end(answer)]))


def _introduction_end(answer: str) -> int:
    """Return the index after an introduction or a code fence, 0 without one."""
    match = _INTRODUCTION.match(answer)
    if match and (len(words_of(match[0])) <= _SHORT or _ABOUT_TEXT.search(match[0])):
        return match.end()
    fence = _CODE_FENCE.match(answer)
    return fence.end() if fence else 0


def reference_model(rows: Rows, requested: str) -> str:
    """Return the model whose answers count: the requested one if it answered, otherwise that of the first answer.

    Many servers answer with a dated name. An empty name stands for answers that name no model.
    """
    if requested in rows["answered_by"]:
        return requested
    answers = (answer for answer in zip(rows["number"].tolist(), rows["answered_by"], strict=True) if answer[1])
    return min(answers, default=(0, ""))[1]
