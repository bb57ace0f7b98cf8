"""Every audit is a run: it is shown, redacted, killed, resumed and stopped, and refuses bad input in one sentence."""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest

from harness.audits.sequence.audit import REPEATED
from harness.demo import CONTROL_TEXT, CORPUS, ROUND_ARRAYS, SEED
from harness.runs.folder import RunFolder
from harness.runs.summary import run_status, run_summary
from tests.demo_target.classifiers import Family, fine_tune, invented_names, write_names
from tests.demo_target.corpus import corpus
from tests.demo_target.names import write_name_pairs
from tests.functional.machine import Machine, kill_supervisor, kill_worker, readable_bytes, wait_until
from tests.tools.completions_server import Reply, completion, completions_server
from tests.tools.demo_texts import TOKENIZER, trained_text, unseen_text
from tests.tools.gguf_files import write_gguf

TINY = ("--target", "demo-tiny", "--threads", "1")
TWO_SIZES = ("--target", "demo-tiny", "--target", "demo-small", "--threads", "1")
KEY = "sk-a-secret-key"


Arguments = tuple[str, ...]


def book(folder: Path) -> Arguments:
    texts = folder / "books"
    texts.mkdir()
    (texts / "one.txt").write_text(trained_text(8), encoding="utf-8")
    (texts / "two.txt").write_text(trained_text(14)[-900:], encoding="utf-8")
    (folder / "control.txt").write_text(unseen_text(8), encoding="utf-8")
    return ("audit", "book", "books", "--control", "control.txt", *TWO_SIZES, "--stride", "8")


def compare(folder: Path) -> Arguments:
    arrays = [np.load(ROUND_ARRAYS / f"{part}.npy") for part in ("prefix", "suffix")]
    for name, rows in (("pairs", slice(10)), ("others", slice(10, 16))):
        np.savez(folder / f"{name}.npz", prefixes=arrays[0][rows], suffixes=arrays[1][rows])
    np.save(folder / "copies.npy", np.arange(1, 11))
    control = ("--control", "others.npz", "--copies", "copies.npy")
    return ("audit", "compare", "pairs.npz", *control, *TWO_SIZES)


def entities(folder: Path) -> Arguments:
    names = invented_names(8)
    for family in (Family.BERT, Family.ALBERT):
        fine_tune(family, names, folder / family, steps=4)
    write_names(names, folder)
    (folder / "prompts.txt").write_text("MASK came home.\nWho is MASK?\nNobody came.\n")
    files = ("--in-train", "in-train.txt", "--out-train", "out-train.txt", "--prompts", "prompts.txt")
    return ("audit", "entities", "--target", "bert", "--target", "albert", *files, "--threads", "1")


def leakage(folder: Path) -> Arguments:
    write_name_pairs(folder)
    limits = ("--shorter-prefixes", "20", "--limit", "8", "--inexact", "3")
    return ("audit", "leakage", "names.npz", *limits, *TWO_SIZES)


def membership(folder: Path) -> Arguments:
    arrays = np.load(CONTROL_TEXT)
    unseen = np.concatenate([arrays["prefixes"], arrays["suffixes"]], axis=1)[:150].tolist()
    texts = {"members": json.loads(CORPUS.read_bytes())[:150], "others": [TOKENIZER.decode(row) for row in unseen]}
    for name, documents in texts.items():
        lines = (json.dumps({"text": text}) for text in documents)
        (folder / f"{name}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    inputs = ("members.jsonl", "--non-members", "others.jsonl", "--reference", "demo-reference")
    return ("audit", "membership", *inputs, *TINY)


def sequence(folder: Path) -> Arguments:
    often = sorted(corpus(SEED), key=lambda document: -document.repetitions)[:24]
    records = (json.dumps({"text": document.text}) for document in often)
    (folder / "corpus.jsonl").write_text("\n".join(records), encoding="utf-8")
    return ("audit", "sequence", "corpus.jsonl", "--target", "demo", "--threads", "1", "--prompt-length", "12")


AUDITS: dict[str, Callable[[Path], Arguments]] = {
    audit.__name__: audit for audit in (book, compare, entities, leakage, membership, sequence)
}


def written(folder: Path) -> dict[str, bytes]:
    """Return the contents of the files that `--out` wrote, by name."""
    return {path.relative_to(folder).as_posix(): readable_bytes(path) for path in folder.rglob("*") if path.is_file()}


def test_a_killed_audit_continues_to_the_same_findings_which_are_written_and_redacted(machine: Machine) -> None:
    # A batch for each length of the prompt: the audit is killed after the first ones.
    arguments = (*sequence(machine.folder)[:-1], "8,12,16,20,24")
    machine.run(*arguments, "--out", "whole")
    findings, whole = machine.json("show", machine.newest()["id"])["findings"], written(machine.folder / "whole")
    folder = RunFolder(Path(machine.json(*arguments, "--detach")["directory"]))
    wait_until(lambda: run_summary(folder).guesses > 0)
    kill_supervisor(folder)
    wait_until(lambda: run_status(folder).is_over)
    assert run_status(folder) != "finished"
    assert machine.json("show", folder.id)["findings"] != findings
    machine.run("resume", folder.id)
    machine.run("report", folder.id, "--out", "resumed")
    assert machine.json("show", folder.id)["findings"] == findings
    resumed = written(machine.folder / "resumed")
    assert set(resumed) == set(whole) >= {"index.html", "findings.json", "figures/rates.svg", "tables/rates.parquet"}
    parts = ("tables/", "figures/", "texts/")
    assert [name for name in whole if name.startswith(parts) and resumed[name] != whole[name]] == []
    machine.run("report", folder.id, "--out", "hidden", "--redact")
    # A page may break a text over lines.
    shown, hidden = (
        b" ".join(b" ".join(files.values()).split()) for files in (whole, written(machine.folder / "hidden"))
    )
    records = map(json.loads, (machine.folder / "corpus.jsonl").read_text(encoding="utf-8").splitlines())
    texts = [" ".join(record["text"].split()[12:16]).encode() for record in records]
    assert any(text in shown for text in texts) and not any(text in hidden for text in texts)


@pytest.mark.slow
def test_a_stopped_audit_shows_findings_and_continues_with_the_same_inputs_only(machine: Machine) -> None:
    arguments = ("audit", "sequence", "--round", "demo", *TINY, "--limit", "400", "--detach")
    folder = RunFolder(Path(machine.json(*arguments)["directory"]))
    wait_until(lambda: run_summary(folder).guesses > 0)
    machine.run("stop", folder.id)
    assert run_status(folder) == "stopped"
    assert ["audit", "sequence"] in [line.split() for line in machine.run("show", folder.id).stdout.splitlines()]
    assert "trigrams" in machine.run("show", folder.id).stdout
    for command in (
        ("export", folder.id),
        ("bundle", "create", folder.id),
        ("compare", folder.id, folder.id),
    ):
        assert "found kind audit" in machine.run(*command, code=1).stderr
    assert "--example: it does not apply" in machine.run("show", folder.id, "--example", "1", code=2).stderr
    inputs = folder.inputs / "inputs.json"
    original = inputs.read_text()
    inputs.write_text(original + " ")
    assert "its inputs in" in machine.run("resume", folder.id, code=1).stderr
    inputs.write_text(original)
    machine.run("resume", folder.id)
    assert run_status(folder) == "finished"
    assert "finished" in machine.run("list", "audits").stdout


@pytest.mark.slow
def test_an_audit_out_of_time_keeps_its_findings(machine: Machine) -> None:
    arguments = ("audit", "sequence", "--round", "demo", "--threads", "1", "--limit", "1000", "--budget", "6s")
    machine.run(*arguments, "--json", code=3)
    summary = machine.newest()
    assert summary["status"] == "out_of_time"
    assert summary["elapsed_s"] > 5
    assert machine.json("show", summary["id"])["findings"]


@pytest.mark.slow
def test_a_directory_of_texts_is_cut_and_its_sequences_are_listed(machine: Machine) -> None:
    book(machine.folder)
    (machine.folder / "books" / "short.txt").write_text("too short")
    found = machine.json("audit", "leakage", "books", *TINY, "--near", "0", "--out", "page")
    page = (machine.folder / "page" / "index.html").read_text(encoding="utf-8")
    listed = pyarrow.parquet.read_table(machine.folder / "page" / "tables" / "sequences.parquet").to_pydict()
    assert len(listed["suffix"]) == found["sequences"] > 4
    # Records are documents, and a sequence continues where the one before it ended.
    texts = {name: (machine.folder / "books" / name).read_text(encoding="utf-8") for name in set(listed["record"])}
    assert texts.keys() == {"one.txt", "two.txt"}
    assert all(suffix in texts[record] for suffix, record in zip(listed["suffix"], listed["record"], strict=True))
    (likeliest, *_) = found["text_tables"]
    assert likeliest["title"].startswith("Sequences, likeliest first")
    assert likeliest["columns"]["suffix"][0] in texts[likeliest["columns"]["record"][0]]
    assert "Skipped short.txt: " in page and f"Cut 2 of 3 texts into {found['sequences']} sequences of 50 + 50" in page


@pytest.mark.long
def test_stored_audits_and_targets_give_the_same_comparison(machine: Machine) -> None:
    on_demo = ("--round", "demo", "--threads", "1", "--limit", "12")
    measured = machine.json("audit", "compare", *on_demo, "--target", "demo-tiny", "--target", "demo")
    ids = []
    for target in ("demo-tiny", "demo"):
        machine.json("audit", "leakage", *on_demo, "--inexact", "0", "--near", "0", "--target", target)
        ids.append(machine.newest()["id"])
    stored = machine.json("audit", "compare", "--run", ids[0], "--run", ids[1])
    assert stored["targets"] == measured["targets"] == ["demo-tiny", "demo"]
    assert len(stored["measures"]) == len(measured["measures"]) > 0
    for row, again in zip(measured["measures"], stored["measures"], strict=True):
        assert (again["measure"], again["model"], again["case"]) == (row["measure"], row["model"], row["case"])
        assert again["value"] == pytest.approx(row["value"], abs=1e-5)
    refused = machine.run("audit", "compare", "--run", machine.newest()["id"], "--run", ids[0], code=1)
    assert "Name a leakage audit with --run" in refused.stderr


def test_a_sandboxed_worker_uses_an_endpoint_and_stores_no_key(machine_per_backend: Machine) -> None:
    machine = Machine(machine_per_backend.folder, {**machine_per_backend.environment, "OPENAI_API_KEY": KEY})
    paragraphs = [" ".join(f"word{number}of{paragraph}" for number in range(60)) for paragraph in range(5)]
    (machine.folder / "corpus.txt").write_text("\n\n".join(paragraphs))
    with completions_server(lambda body, number: completion(" and then nothing more")) as server:
        options = ("--endpoint", server.url, "--endpoint-model", "any", "--requests-per-minute", "6000")
        assert machine.json("audit", "sequence", "corpus.txt", *options, "--out", "found")
    assert len(set(server.prompts)) == 5
    assert {headers["Authorization"] for headers in server.headers} == {f"Bearer {KEY}"}
    summary = machine.newest()
    assert summary["status"] == "finished" and summary["network"] == "endpoint"
    for path in machine.folder.rglob("*"):
        if path.is_file():
            assert KEY.encode() not in path.read_bytes(), path


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
        found = machine.json("show", folder.id)["findings"]
    assert found["paragraphs"].pop("completed") == 24 and not any(found["paragraphs"].values())
    passed = next(row for row in found["measures"] if (row["measure"], row["side"]) == ("passed", "corpus"))
    assert (passed["value"], passed["of"]) == (1.0, 24)
    refused = sum(number % 5 == 1 or number == 8 for number in range(len(server.prompts)))
    repeated = sum(times - 1 for times in Counter(server.prompts).values())
    assert repeated <= refused + kills + REPEATED
    assert len(set(server.prompts)) == 24


BOOK, COMPARE, LEAKAGE, MEMBERSHIP, SEQUENCE = (
    ("audit", name) for name in ("book", "compare", "leakage", "membership", "sequence")
)
MEMBERS = ("members.jsonl", "--non-members", "others.jsonl")


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (BOOK, 2, "missing text. Give TEXT."),
        ((*BOOK, "books"), 2, "missing target. Give --target."),
        ((*BOOK, "books", *TINY, "--schemes", "beam"), 2, "--schemes: "),
        ((*BOOK, "books", *TINY, "--stride", "0"), 2, "--stride: "),
        ((*BOOK, "books", *TINY, "--stride-unit", "words"), 2, "--stride-unit"),
        ((*BOOK, "books", *TINY, "--prefix-tokens", "4000"), 1, "the context of demo-tiny is"),
        ((*COMPARE, "--round", "demo", "--target", "demo"), 2, "only demo is named, and a comparison needs two"),
        (COMPARE, 2, "missing pairs. Give PAIRS, --round or --run."),
        ((*COMPARE, "--run", "none"), 2, "unknown run 'none'"),
        ((*COMPARE, "--round", "demo", "--run", "latest"), 2, "--run compares stored audits. Remove --round."),
        ((*COMPARE, "--round", "demo", *TWO_SIZES, "--queries", "0"), 2, "--queries: "),
        ((*LEAKAGE, "pairs.npz"), 2, "missing target. Give --target or --round."),
        (LEAKAGE, 2, "missing pairs. Give PAIRS, --round or --corpus."),
        ((*LEAKAGE, "absent.npz", "--target", "demo"), 1, "no such file"),
        ((*LEAKAGE, "short.txt", *TINY), 1, "short.txt contains no text of 100 tokens. Skipped short.txt: "),
        ((*LEAKAGE, "empty", *TINY), 1, "empty contains no text of 100 tokens. It is empty."),
        ((*LEAKAGE, "broken.jsonl", *TINY), 1, "line 1: not valid JSON. A record has `prefix` and `suffix`, or"),
        ((*LEAKAGE, "short.txt", *TINY, "--field", "text"), 2, "--field has no effect"),
        ((*LEAKAGE, "--round", "demo", "--top-p", "2"), 2, "--top-p"),
        ((*LEAKAGE, "--corpus", "pairs.npz", *TINY), 2, "--corpus and --tagger must be given together"),
        (MEMBERSHIP, 2, "missing members. Give MEMBERS or --round."),
        ((*MEMBERSHIP, "members.jsonl"), 2, "missing non-members. Give --non-members or --non-members-round."),
        ((*MEMBERSHIP, *MEMBERS), 2, "missing target. Give --target."),
        ((*MEMBERSHIP, *MEMBERS, "--target", "demo", "--k", "0"), 2, "--k: "),
        ((*MEMBERSHIP, *MEMBERS, "--target", "demo", "--reference", "demo"), 2, "demo is both --target and"),
        (SEQUENCE, 2, "missing corpus. Give CORPUS, --round or --completions."),
        ((*SEQUENCE, "nowhere", "--target", "demo"), 1, "no such file or directory: nowhere"),
        ((*SEQUENCE, "short.txt"), 2, "missing target. Give --target, --round, --completions or --endpoint."),
        ((*SEQUENCE, "short.txt", "--endpoint", "http://localhost/v1"), 2, "--endpoint-model must be given together."),
        ((*SEQUENCE, "short.txt", "--target", "demo", "--top-p", "0.5"), 2, "set --temperature."),
        ((*SEQUENCE, "short.txt", "--target", "demo", "--split", "train"), 1, "not a data set with splits"),
        ((*SEQUENCE, "broken.jsonl", "--target", "demo"), 1, "Skipped broken.jsonl, line 1: not valid JSON."),
        ((*SEQUENCE, "--round", "round.toml", "--target", "empty"), 1, "no config.json in "),
    ],
)
def test_bad_input_is_refused_in_one_sentence(
    machine: Machine, arguments: tuple[str, ...], code: int, sentence: str
) -> None:
    book(machine.folder)
    membership(machine.folder)
    (machine.folder / "empty").mkdir()
    (machine.folder / "short.txt").write_text("a few words")
    (machine.folder / "broken.jsonl").write_text("{")
    rows = np.random.default_rng(0).integers(1, 384, (20, 54))
    np.savez(machine.folder / "pairs.npz", prefixes=rows[:, :50], suffixes=rows[:, 50:])
    failed = machine.run(*arguments, code=code)
    assert sentence in failed.stderr and len(failed.stderr.splitlines()) == 1, failed.stderr
    assert failed.stdout == "" and machine.folders() == []


@pytest.mark.slow
def test_an_audit_reads_a_file_whose_name_is_not_utf8(machine: Machine) -> None:
    folder = machine.folder / "corpus"
    folder.mkdir()
    words = " ".join(f"word{number}" for number in range(40))
    (folder / os.fsdecode(b"caf\xe9.txt")).write_text(f"{words}\n\n{words[::-1]}\n")
    machine.run("audit", "sequence", "corpus", "--target", "demo-tiny", "--prompt-length", "10")
    assert machine.json("show", "latest")["findings"]
    machine.run("report", "latest", "--out", "report")


def test_a_page_of_an_audit_that_is_not_waited_for_is_refused(machine: Machine) -> None:
    refused = machine.run("audit", "sequence", "texts.txt", "--detach", "--out", "page", code=2).stderr
    assert "--out needs findings, which --detach does not wait for. Use harness report RUN --out DIR." in refused
    assert not machine.folders()


@pytest.mark.slow
def test_an_audit_of_a_gguf_file_names_the_file_and_its_hash(machine: Machine) -> None:
    file = write_gguf(machine.folder / "m.gguf", quantization="Q8_0")
    (machine.folder / "text.txt").write_text("the thing that they gather there, " * 10)
    machine.run("audit", "book", "text.txt", "--target", file.name, "--stride", "50", "--threads", "1")
    shown = machine.run("show", "latest").stdout
    assert "m.gguf, weights sha256 " in shown
    assert f"converted from the GGUF file with sha256 {hashlib.sha256(file.read_bytes()).hexdigest()}" in shown
