"""`harness audit sequence`: a corpus, an unreliable endpoint, kills, and invalid input."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from harness.demo import SEED
from harness.runs.folder import RunFolder
from harness.runs.summary import run_status, run_summary
from tests.completions_server import Reply, completion, completions_server
from tests.demo_target.corpus import corpus
from tests.functional.machine import Machine, kill_supervisor, kill_worker, wait_until


def write_corpus(folder: Path, documents: int) -> list[str]:
    """Write the most repeated documents of the demo corpus, one per file, and return their texts."""
    chosen = sorted(corpus(SEED), key=lambda document: -document.repetitions)[:documents]
    folder.mkdir()
    for number, document in enumerate(chosen):
        (folder / f"{number:02}.txt").write_text(document.text)
    return [document.text for document in chosen]


def passed_trigrams(figures: dict[str, Any]) -> dict[str, Any]:
    """Return the measured share of the corpus that passes the threshold of trigrams."""
    return next(row for row in figures["measures"] if (row["measure"], row["side"]) == ("passed", "corpus"))


@pytest.mark.slow
def test_a_redacted_page_of_a_text_corpus_has_no_text(machine: Machine) -> None:
    texts = write_corpus(machine.folder / "corpus", 24)
    command = ("audit", "sequence", "corpus", "--target", "demo", "--threads", "1", "--prompt-length", "12")
    figures = machine.json(*command, "--out", "plain")
    assert passed_trigrams(figures)["value"] > 0.5
    assert figures["control"] == "permuted_suffixes"
    assert figures["is_complete"]
    machine.run("audit", "show", "latest", "--out", "redacted", "--redact")
    passages = [" ".join(text.split()[12:16]) for text in texts]
    for folder, is_there in (("plain", True), ("redacted", False)):
        files = [
            path for path in (machine.folder / folder).rglob("*") if path.suffix in (".html", ".csv", ".json", ".svg")
        ]
        written = " ".join(" ".join(path.read_text().split()) for path in files)
        assert any(passage in written for passage in passages) is is_there


@pytest.mark.slow
def test_a_killed_audit_repeats_at_most_requests_in_flight(machine: Machine) -> None:
    (machine.folder / "corpus.jsonl").write_text(
        "".join(f'{{"body": "p{place} {" ".join(f"w{number}" for number in range(30))}"}}\n' for place in range(24))
        + "broken\n"
    )

    def reply(body: dict[str, Any], number: int) -> Reply:
        if number % 5 == 1:
            return Reply(429, headers=(("Retry-After", "0"),))
        if number == 8:
            return Reply(200, b'{"choices": [{"text": "cut', promised=999)
        return completion(" " + " ".join(f"w{word}" for word in range(4, 40)))

    with completions_server(reply) as server:
        summary = machine.json(
            *("audit", "sequence", "corpus.jsonl", "--field", "body", "--prompt-length", "5", "--detach"),
            *("--endpoint", server.url, "--endpoint-model", "m", "--requests-per-minute", "600"),
        )
        folder = RunFolder(Path(summary["directory"]))
        kills = 0
        for kill in (kill_worker, kill_supervisor):
            before = run_summary(folder).guesses
            wait_until(lambda before=before: run_status(folder).is_over or run_summary(folder).guesses > before)
            if run_status(folder) == "finished":
                break
            kill(folder)
            kills += 1
            wait_until(lambda: run_status(folder).is_over)
            machine.run("resume", folder.id, "--detach")
        wait_until(lambda: run_status(folder).is_over, seconds=90)
        assert kills > 0
        found = machine.json("audit", "show", folder.id)
    assert found["paragraphs"] == {"completed": 24, "unanswered": 0, "no_room": 0, "pending": 0}
    passed = passed_trigrams(found)
    assert (passed["value"], passed["of"]) == (1.0, 24)
    refused = sum(number % 5 == 1 or number == 8 for number in range(len(server.prompts)))
    repeated = sum(times - 1 for times in Counter(server.prompts).values())
    assert repeated <= refused + kills
    assert len(set(server.prompts)) == 24


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ((), 2, "no corpus is named. Give a directory or a file, or a round with --round."),
        (("nowhere", "--target", "demo"), 1, "no such file or directory: nowhere"),
        (("empty", "--target", "demo"), 1, "empty contains no paragraph. It is empty."),
        (
            ("short.txt", "--target", "demo"),
            1,
            "none of which has more than 35 words (text between spaces). Use longer paragraphs",
        ),
        (("short.txt",), 2, "no model is named"),
        (
            ("short.txt", "--endpoint", "http://localhost/v1"),
            2,
            "--endpoint-model must be given together.",
        ),
        (("short.txt", "--target", "demo", "--top-p", "0.5"), 2, "set --temperature."),
        (("short.txt", "--target", "demo", "--split", "train"), 1, "not a data set with splits"),
        (("broken.jsonl", "--target", "demo"), 1, "Skipped broken.jsonl, line 1: not valid JSON."),
        (("--round", "round.toml", "--target", "empty"), 1, "not the directory of a model: "),
    ],
)
def test_bad_input_is_refused(machine: Machine, arguments: tuple[str, ...], code: int, says: str) -> None:
    (machine.folder / "empty").mkdir()
    (machine.folder / "short.txt").write_text("a few words")
    (machine.folder / "broken.jsonl").write_text("{")
    failed = machine.run("audit", "sequence", *arguments, code=code)
    (sentence,) = failed.stderr.splitlines()
    assert says in sentence
    assert failed.stdout == ""
