"""Facts about a server in the answers of an endpoint, and words of the prompt before a completion.

A server may answer with another model, use its own sampling defaults, cut prompts or repeat them. Each of these makes
memorized text look unknown, so the facts are stored with each completion.
"""

import re
from typing import Any, NamedTuple

from harness.audits.endpoint.params import is_filter, model_of
from harness.audits.sequence.dataset import word_spans, words_of
from harness.core.rows import Kind, Rows

CHAT_INSTRUCTION = (
    "Continue the following text from a document word for word. Answer with the continuation alone:\n\n{prompt}"
)
"""The message that asks a chat model to continue a prompt."""

SHORTEST_ECHO = 8
"""Words of the shortest end of a prompt that is cut off a completion."""
_LONGEST_LEAD = 100
"""Words before a repeated prompt that are looked at."""
_INTRODUCTION = re.compile(
    r"\W{0,3}(?:sure|certainly|of course|okay|here|(?:the )?continu\w{1,6})\b"
    r"[^:\n]{0,200}(?::[*_]{0,2}|\n\s{0,9}\n)",
    re.IGNORECASE,
)
_CODE_FENCE = re.compile(r"\s{0,9}(?:`{3}|~{3})\S{0,30}")
_ABOUT_TEXT = re.compile(r"(?i)continu|text|passage|paragraph|rest of")
_SHORT = 2
"""Words of an introduction that need not be about a text."""
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

    The longest such end is cut, with an introduction or up to three words before it, such as "Text:". Words are
    compared by their letters and digits, without case. An end that the prompt itself repeats is kept: a text such as a
    refrain goes on so. The suffix decides nothing, so that the rule is the same for a corpus and its control.
    """
    prompt_words = words_of(prompt)
    before = list(filter(None, map(_letters, prompt_words)))
    spans = word_spans(answer, 2 * len(prompt_words) + _LONGEST_LEAD)
    placed = [(form, end) for first, end in spans if (form := _letters(answer[first:end]))]
    introduction = len(list(filter(None, map(_letters, words_of(answer)[: introduction_words(answer)]))))
    for begin in sorted({0, 1, 2, 3, introduction}):
        written = [form for form, _ in placed[begin : begin + len(before)]]
        least = SHORTEST_ECHO if begin else min(SHORTEST_ECHO, len(before))
        for length in range(min(len(before), len(written)), max(1, least) - 1, -1):
            if before[-length] != written[0]:
                continue
            end = before[-length:]
            if written[:length] == end and before[-2 * length : -length] != end:
                stop = placed[begin + length - 1][1]
                return answer[stop:], len(words_of(answer[:stop]))
    return answer, 0


def _letters(word: str) -> str:
    return "".join(filter(str.isalnum, word)).casefold()


def introduction_words(answer: str) -> int:
    """Return the number of words of a code fence, or of an introduction such as "Sure, here is the continuation:"."""
    if fence := _CODE_FENCE.match(answer):
        return len(words_of(fence[0]))
    match = _INTRODUCTION.match(answer)
    words = words_of(match[0]) if match else []
    return len(words) if match and (len(words) <= _SHORT or _ABOUT_TEXT.search(match[0])) else 0


def reference_model(rows: Rows, requested: str) -> str:
    """Return the model whose answers count: the requested one if it answered, otherwise that of the first answer.

    Many servers answer with a dated name. An empty name stands for answers that name no model.
    """
    if requested in rows["answered_by"]:
        return requested
    named = (answer for answer in zip(rows["number"].tolist(), rows["answered_by"], strict=True) if answer[1])
    return min(named, default=(0, ""))[1]
