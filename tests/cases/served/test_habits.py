"""Habits of real servers: each changes no rate, or the findings say what was left out and why."""

import re
from pathlib import Path
from typing import Any

import pytest

from harness.audits.sequence.results import PASSED
from harness.audits.sequence.thresholds import TITLES
from harness.core.findings import Findings
from tests.tools.completions_server import BLOCKING_HABITS, HABITS, HARMLESS_HABITS, Habit, Reply, edited, text_of
from tests.unit.audits.sequence.served_corpus import audited, continued

CHANGES_RATES = (
    *(
        "refused penalty",
        "introduction",
        "introduced with below",
        "code fence",
        "short limit",
        "limit of tokens",
        "unstable",
        "empty",
        "refusal in words",
        "refusal in words of another language",
        "introduction without a mark",
        "reasoning",
        "channel",
    ),
    *BLOCKING_HABITS,
)
WITHOUT_ANSWER = ("filter403", "filtermessage", "filter400", "filter200", "filterprompt", "filter451", "filter500")


def findings_with_habit(folder: Path, habit: Habit, **fields: Any) -> Findings:
    def reply(body: dict[str, Any], number: int) -> Reply:
        return habit(body, number, continued(body, number))

    return audited(folder, reply, 12, **{"prompt_length": (10,), **fields})[1].findings()


@pytest.mark.parametrize("chat", [False, True])
@pytest.mark.parametrize("habit", HARMLESS_HABITS)
def test_a_harmless_habit_of_a_server_changes_no_rate(tmp_path: Path, habit: str, chat: bool) -> None:
    findings = findings_with_habit(tmp_path, HARMLESS_HABITS[habit], chat=chat)
    for title in TITLES.values():
        passed = findings.measures.get(PASSED, side="corpus", case=title)
        assert (passed.value, passed.of) == (1.0, 12)
    assert findings.conclusion and "may hide" not in findings.conclusion.caveat


@pytest.mark.parametrize("chat", [False, True])
@pytest.mark.parametrize("habit", HABITS)
def test_a_habit_of_a_server_that_may_change_a_rate_is_a_sentence(tmp_path: Path, habit: str, chat: bool) -> None:
    change, pattern = HABITS[habit]
    findings = findings_with_habit(tmp_path, change, chat=chat)
    assert re.search(pattern, "\n".join(findings.sentences))
    if habit not in CHANGES_RATES:
        for title in TITLES.values():
            passed = findings.measures.get(PASSED, side="corpus", case=title)
            assert passed.value == 1.0 and (passed.of == 12 or "fallback" in habit)
    answers = findings.figures["answers"]
    number = 0 if habit in WITHOUT_ANSWER else 12
    assert sum(answers["models"].values()) == sum(answers["finish_reasons"].values()) == number


def test_a_recited_text_behind_an_introduction_that_is_not_cut_is_named(tmp_path: Path) -> None:
    def introduce(body: dict[str, Any], number: int, reply: Reply) -> Reply:
        return edited(reply, text="Gern, so geht es weiter." + text_of(reply))

    findings = findings_with_habit(tmp_path, introduce, prompt_length=(3,))
    assert findings.conclusion and "12 of 12 paragraphs are continued word for word" in findings.conclusion.evidence


@pytest.mark.parametrize(
    "habit",
    ["refusal in words", "refusal in words of another language", "empty", "short limit", "window", "introduction"],
)
def test_the_answer_itself_says_that_the_server_may_hide_memorization(tmp_path: Path, habit: str) -> None:
    conclusion = findings_with_habit(tmp_path, HABITS[habit][0]).conclusion
    assert conclusion and "The server's answers may hide memorization" in conclusion.caveat


@pytest.mark.parametrize("habit", ["fallback", "fallback first", "dated and fallback"])
def test_answers_of_another_model_that_are_left_out_are_no_refusals(tmp_path: Path, habit: str) -> None:
    sentences = " ".join(findings_with_habit(tmp_path, HABITS[habit][0]).sentences)
    assert "Other models answered too" in sentences and "begin like others" not in sentences


@pytest.mark.parametrize("habit", BLOCKING_HABITS)
def test_blocked_completions_are_left_out_of_the_rates_and_counted(tmp_path: Path, habit: str) -> None:
    def reply(body: dict[str, Any], number: int) -> Reply:
        is_blocked = int(body["prompt"].split("x")[0].removeprefix("w")) < 10
        answer = continued(body, number)
        return BLOCKING_HABITS[habit](body, number, answer) if is_blocked else answer

    server, run = audited(tmp_path, reply, 12)
    findings = run.findings()
    states = {"completed": 2, "unanswered": 0, "blocked": 10, "other_model": 0, "no_room": 0, "pending": 0}
    assert findings.figures["paragraphs"] == states and len(server.prompts) == 12 + 2 and not run.warnings
    for title in TITLES.values():
        passed = findings.measures.get(PASSED, side="corpus", case=title)
        assert (passed.value, passed.of) == (1.0, 2)
    sentences = " ".join(findings.sentences)
    assert "Blocked by the provider: 10, left out of the rates" in sentences
    assert "trigrams 0.167 to 1.000, first 5 words 0.167 to 1.000" in sentences
    assert findings.conclusion and "The provider blocked 10 completions: a filter hides" in findings.conclusion.caveat
