"""The sequence audit of an endpoint: the worked example, resume, and faults."""

import json
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.audits.endpoint.client import NEUTRAL, Answer, Endpoint
from harness.audits.sequence.audit import REPEATED, SequenceAudit
from harness.audits.sequence.dataset import SequenceParams
from harness.audits.sequence.remote import ServedText, complete_prompt, max_tokens
from harness.audits.sequence.results import P_VALUE, PASSED, TOO_SHORT_SUFFIX
from harness.audits.sequence.thresholds import TITLES
from harness.core.errors import Interruption
from harness.core.findings import Findings
from tests.tools.completions_server import Reply, completion, completions_server
from tests.unit.audits.in_memory import Killed
from tests.unit.audits.sequence.served_corpus import audit_of, audited, chat_message, continued, counting_corpus


def test_a_model_that_memorized_the_corpus_passes_everything(tmp_path: Path) -> None:
    server, run = audited(tmp_path, continued, 12)
    measured = run.findings().measures
    assert {row.model for row in measured} == {"gpt"}
    for title in TITLES.values():
        passed, too_short = (measured.get(measure, side="corpus", case=title) for measure in (PASSED, TOO_SHORT_SUFFIX))
        assert (passed.value, passed.of, too_short.value) == (1.0, 12, 0)
        assert measured.get(PASSED, side="permuted suffixes", case=title).value == 0
        assert measured.get(P_VALUE, case=title).value == pytest.approx(2**-12)
    assert sorted(set(server.prompts)) == sorted(" ".join(f"w{place}x{one}" for one in range(3)) for place in range(12))


@pytest.mark.parametrize("concurrency", [1, 3])
def test_a_resumed_audit_repeats_at_most_requests_in_flight(tmp_path: Path, concurrency: int) -> None:
    with completions_server(continued) as server:
        path = counting_corpus(tmp_path / "a.txt", 10)
        run = audit_of(server, path, batches=2, concurrency=concurrency)
        with pytest.raises(Killed):
            run.run()
        asked_before = len(server.prompts)
        resumed = run.resumed().run()
        whole = audit_of(server, path, concurrency=concurrency)
        assert len(set(server.prompts)) == 10
        assert len(server.prompts) <= 10 + REPEATED + concurrency - 1
        whole.run()
    # Two were committed, and what was under way beside them comes to its end and is asked for again.
    assert 2 <= asked_before <= 1 + concurrency
    assert resumed.findings().figures == whole.findings().figures


def states_of(findings: Findings) -> dict[str, int]:
    """Return the number of paragraphs in each state that occurs."""
    return {state: number for state, number in findings.figures["paragraphs"].items() if number}


def test_an_unanswered_paragraph_is_retried_once_at_the_end(tmp_path: Path) -> None:
    def reply(body: dict[str, Any], number: int) -> Reply:
        return Reply(200, b"garbage") if body["prompt"].startswith(("w3x", "w5x")) else continued(body, number)

    server, run = audited(tmp_path, reply, 8)
    findings = run.findings()
    assert states_of(findings) == {"completed": 6, "unanswered": 2}
    assert findings.measures.get(PASSED, side="corpus").of == 6
    assert len(server.prompts) == 10 + REPEATED
    assert run.announced == {"complete": 8, "again": 2, "repeat": REPEATED}
    (left_out,) = (sentence for sentence in findings.sentences if "2 paragraphs without an answer" in sentence)
    assert run.warnings and all("sends invalid JSON" in said for said in (left_out, *run.warnings))


def test_an_answer_of_the_second_stage_counts(tmp_path: Path) -> None:
    _, run = audited(tmp_path, lambda body, number: Reply(500) if number < 3 else continued(body, number), 6)
    findings = run.findings()
    assert findings.figures["paragraphs"]["completed"] == 6
    passed = findings.measures.get(PASSED, side="corpus")
    assert (passed.value, passed.of) == (1.0, 6)


def test_a_dead_endpoint_ends_the_audit_and_a_resume_continues(tmp_path: Path) -> None:
    is_down = True

    def reply(body: dict[str, Any], number: int) -> Reply:
        return Reply(503) if is_down else continued(body, number)

    with completions_server(reply) as server:
        run = audit_of(server, counting_corpus(tmp_path / "a.txt", 12))
        with pytest.raises(
            Interruption, match=r"answers with status 503; 8 paragraphs in a row got no answer after 1 request each"
        ):
            run.run()
        is_down = False
        resumed = run.resumed().run()
    assert resumed.findings().figures["paragraphs"]["completed"] == 12


def test_refused_prompts_are_not_retried(tmp_path: Path) -> None:
    def reply(body: dict[str, Any], number: int) -> Reply:
        return Reply(400) if number % 2 else continued(body, number)

    server, run = audited(tmp_path, reply, 20)
    assert len(server.prompts) == 20 + REPEATED
    findings = run.findings()
    assert states_of(findings) == {"completed": 10, "unanswered": 10}
    assert any("it refuses the request (status 400) (10 times)" in sentence for sentence in findings.sentences)


def error(code: str | None, message: str, parameter: str | None = None) -> Reply:
    body = {"error": {"code": code, "message": message, "param": parameter, "type": "invalid_request_error"}}
    return Reply(400, body=json.dumps(body).encode())


def answers_of(
    reply: Callable[[dict[str, Any]], Reply], *, requests: int = 1, **fields: Any
) -> tuple[list[Answer[ServedText]], list[dict[str, Any]]]:
    """Return the answers of a chat server to some requests, and the bodies that it got."""
    settings = {"requests_per_minute": 60_000, "retries": 0, "chat": True} | fields
    with completions_server(lambda body, number: reply(body)) as server:
        params = SequenceParams.checked(endpoint=server.url, endpoint_model="gpt", **settings)
        with closing(Endpoint(params, key=None, seed=0)) as endpoint:
            answers = [complete_prompt(endpoint, params, "Once upon", 10, number) for number in range(requests)]
        return answers, server.bodies


def texts_of(answers: list[Answer[ServedText]]) -> list[str | None]:
    return [answer.value.text if answer.value else None for answer in answers]


RENAMED = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."


@pytest.mark.parametrize("refusal", [error("unsupported_parameter", RENAMED, "max_tokens"), error(None, RENAMED)])
def test_a_server_that_renamed_the_token_limit_is_asked_by_its_name(refusal: Reply) -> None:
    answers, bodies = answers_of(
        lambda body: refusal if "max_tokens" in body else chat_message(content="a time"), requests=3
    )
    assert texts_of(answers) == ["a time"] * 3
    assert ["max_tokens" in body for body in bodies] == [True, False, False, False]
    assert all(body["max_completion_tokens"] == 10 for body in bodies[1:])


NO_TEMPERATURE = "Unsupported value: 'temperature' does not support 0 with this model."


@pytest.mark.parametrize(
    "refusal",
    [
        error("unsupported_value", NO_TEMPERATURE, "temperature"),
        error("unsupported_value", NO_TEMPERATURE),
        Reply(422, b'{"error": "Input validation error: `temperature` must be strictly positive"}'),
        Reply(422, b'{"detail": [{"loc": ["body", "temperature"], "msg": "Input should be greater than 0"}]}'),
    ],
)
def test_a_refused_temperature_0_ends_a_greedy_audit(refusal: Reply) -> None:
    with pytest.raises(Interruption, match=r"temperature\), so greedy decoding cannot be measured\. Start an audit"):
        answers_of(lambda body: refusal)


@pytest.mark.parametrize("name", NEUTRAL)
@pytest.mark.parametrize(
    "refusal",
    [
        '{{"error": {{"message": "Unrecognized request argument supplied: {0}", "type": "invalid_request_error"}}}}',
        '{{"error": {{"message": "Unknown parameter: \'{0}\'.", "param": "{0}", "code": "unknown_parameter"}}}}',
        '{{"detail": [{{"type": "extra_forbidden", "loc": ["body", "{0}"], "input": 0}}]}}',
        '[{{"error": {{"code": 400, "message": "Unknown name \\"{0}\\": Cannot find field."}}}}]',
        '{{"object": "error", "message": "invalid request"}}',
        "",
    ],
)
def test_a_refused_neutral_parameter_is_left_out_and_named(name: str, refusal: str) -> None:
    answers, bodies = answers_of(
        lambda body: Reply(400, refusal.format(name).encode()) if name in body else chat_message(content="a time"),
        requests=2,
    )
    assert texts_of(answers) == ["a time"] * 2
    assert name in answers[0].not_sent and answers[0].not_sent == answers[1].not_sent
    # One more request for each name, and none for the second prompt.
    assert len(bodies) == 2 + len(answers[0].not_sent)
    assert len(answers[0].not_sent) == 1 or name not in refusal.format(name)


def test_a_value_that_is_refused_with_status_500_is_left_out() -> None:
    """llama-cpp-python 0.3.36 does so for a negative top_k."""
    text = "1 validation error:\n  {'type': 'greater_than_equal', 'loc': ('body', 'top_k'), 'input': -1}"
    refusal = Reply(500, json.dumps({"error": {"message": text, "type": "internal_server_error"}}).encode())
    answers, bodies = answers_of(
        lambda body: refusal if "top_k" in body else chat_message(content="a time"), requests=2
    )
    assert texts_of(answers) == ["a time"] * 2 and len(bodies) == 3
    assert answers[0].not_sent == answers[1].not_sent == ("top_k",)


def test_an_error_that_quotes_the_request_refuses_no_parameter() -> None:
    (answer,), bodies = answers_of(lambda body: Reply(413, json.dumps({"detail": body}).encode()))
    assert answer.fault == "refuses the request (status 413)" and len(bodies) == 1


def test_a_parameter_with_its_default_is_left_out_if_it_is_refused() -> None:
    def reply(body: dict[str, Any]) -> Reply:
        for name in ("temperature", "top_p"):
            if name in body:
                text = f"Unsupported parameter: '{name}' is not supported with this model."
                return error("unsupported_parameter", text, name)
        return chat_message(content="a time")

    answers, bodies = answers_of(reply, requests=2, temperature=1.0)
    assert texts_of(answers) == ["a time"] * 2 and len(bodies) == 4
    (answer,), _ = answers_of(reply, temperature=0.5)
    assert answer.fault == "refuses the request (status 400, unsupported_parameter: temperature)"


@pytest.mark.parametrize(
    "fields",
    [
        {"content": "a time"},
        {"content": [{"type": "text", "text": "a "}, {"type": "text", "text": "time"}]},
        {"content": [{"type": "thinking", "thinking": "x"}, {"type": "output_text", "text": "a time"}]},
        {"content": "<think>They want more.</think>\n\na time"},
        {"content": "They want more.\n</think>\n\na time"},
        {"content": "a time", "reasoning_content": "They want more."},
    ],
)
def test_the_text_of_a_message_is_read_from_each_form(fields: dict[str, Any]) -> None:
    assert texts_of(answers_of(lambda body: chat_message(**fields))[0]) == ["a time"]


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"content": None, "reasoning_content": "They"}, "spends all tokens on reasoning"),
        ({"content": "", "reasoning": "They"}, "spends all tokens on reasoning"),
        ({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "They"}]}]}, "spends all tokens"),
        ({"content": "<think>They want"}, "spends all tokens on reasoning"),
        ({"content": None}, "sends JSON without a completion"),
        ({"content": None, "refusal": None, "safety_ratings": []}, "sends JSON without a completion"),
        ({"content": None, "note": "A sentence about the safety of a blocklist."}, "sends JSON without a completion"),
        ({"content": [5]}, "sends JSON without a completion"),
    ],
)
def test_a_message_without_text_is_named(fields: dict[str, Any], says: str) -> None:
    ((answer,), _) = answers_of(lambda body: chat_message(**fields))
    assert answer.value is None and answer.fault.startswith(says)


@pytest.mark.parametrize("content", [None, "No."])
def test_a_refusal_is_the_reason_of_an_end(content: str | None) -> None:
    ((answer,), _) = answers_of(lambda body: chat_message(content=content, refusal="No."))
    assert answer.value and answer.value.text == "" and answer.value.facts.finish_reason == "refusal"


@pytest.mark.parametrize(
    ("suffix", "tokens"),
    [("word " * 10, 41), ("\u4f60" * 10, 31), ("3.14159265", 26), ("word " * 100_000, 4_096)],
)
def test_the_token_limit_exceeds_the_suffix(suffix: str, tokens: int) -> None:
    assert max_tokens(suffix) == tokens


def test_a_huge_answer_without_spaces_is_cut(tmp_path: Path) -> None:
    with completions_server(lambda body, number: completion("x" * (3 << 20))) as server:
        run = audit_of(server, counting_corpus(tmp_path / "a.txt", 2))
        run.run()
    suffix = run.inputs.suffixes[0]
    assert [len(text) for text in run.rows("completion")["text"]] == [8 * len(suffix) + 1_000] * 2


def test_a_rejected_key_ends_the_audit_after_answers_in_flight_are_committed(tmp_path: Path) -> None:
    others = threading.Semaphore(0)

    def reply(body: dict[str, Any], number: int) -> Reply:
        if number:
            others.release()
            return replace(continued(body, number), delay=0.3)
        assert others.acquire(timeout=60) and others.acquire(timeout=60)
        return Reply(401)

    with completions_server(reply) as server:
        run = audit_of(server, counting_corpus(tmp_path / "a.txt", 12), concurrency=3)
        with pytest.raises(Interruption, match="rejects the API key"):
            run.run()
    assert len(server.prompts) - 1 == len(run.rows("completion")["paragraph"]) > 0


def test_a_slow_answer_does_not_block_others(tmp_path: Path) -> None:
    with completions_server(lambda body, number: replace(continued(body, number), delay=3 * (number == 0))) as server:
        run = audit_of(server, counting_corpus(tmp_path / "a.txt", 12), concurrency=2)
        run.run()
    hanging = int(server.prompts[0].split("x")[0].removeprefix("w"))
    assert run.rows("completion")["paragraph"].tolist()[-1] == hanging


@pytest.mark.parametrize("has_control", [False, True])
def test_completions_that_end_early_count_as_failures(tmp_path: Path, has_control: bool) -> None:
    from scipy.stats import hypergeom

    """A model that recites 10 of 40 paragraphs and otherwise says "The end." passes 25 %, not 100 %."""

    def reply(body: dict[str, Any], number: int) -> Reply:
        place = int(body["prompt"].split("x")[0].removeprefix("w"))
        return continued(body, number) if place < 10 else completion(" The end.")

    corpus, control = counting_corpus(tmp_path / "corpus.txt", 40), tmp_path / "control.txt"
    control.write_text("\n\n".join(counting_corpus(control, 80).read_text().split("\n\n")[40:]))
    with completions_server(reply) as server:
        run = audit_of(server, corpus, control=control if has_control else None)
        run.run()
    found = run.findings()
    for title in TITLES.values():
        corpus_rate, control_rate = (
            found.measures.get(PASSED, side=side, case=title)
            for side in ("corpus", "control" if has_control else "permuted suffixes")
        )
        assert (corpus_rate.value, corpus_rate.of, control_rate.of) == (0.25, 40, 40), title
        if has_control:  # Fisher's exact test of 10 of 40 and 0 of 40
            assert found.measures.get(P_VALUE, case=title).value == pytest.approx(hypergeom.sf(9, 80, 40, 10))
    assert found.conclusion is not None and found.conclusion.answer in ("Probably", "Possibly")
    assert "25.0 % of its completions pass" in found.conclusion.evidence


def test_only_an_endpoint_needs_the_network() -> None:
    remote = SequenceParams.checked(endpoint="http://localhost/v1", endpoint_model="gpt")
    assert SequenceAudit(remote).needs_network
    assert not SequenceAudit(SequenceParams()).needs_network
