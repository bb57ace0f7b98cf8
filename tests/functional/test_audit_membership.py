"""`harness audit membership`: killed and resumed, tables and figures, invalid input."""

import json
from pathlib import Path

import numpy as np
import pytest

from harness.audits.membership.inputs import LABELS, Score
from harness.demo import CORPUS, UNSEEN
from harness.runs.folder import RunFolder
from harness.runs.summary import run_status, run_summary
from tests.demo_texts import TOKENIZER
from tests.functional.machine import Machine, kill_supervisor, wait_until


@pytest.fixture
def arguments(machine: Machine) -> tuple[str, ...]:
    """The arguments of an audit of 150 documents of the demo and 150 that it has not seen."""
    arrays = np.load(UNSEEN)
    unseen = np.concatenate([arrays["prefixes"], arrays["suffixes"]], axis=1)[:150].tolist()
    texts = {"members": json.loads(CORPUS.read_bytes())[:150], "others": [TOKENIZER.decode(row) for row in unseen]}
    for name, some in texts.items():
        lines = (json.dumps({"text": text}) for text in some)
        (machine.folder / f"{name}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return ("audit", "membership", "members.jsonl", "--non-members", "others.jsonl", "--target", "demo-tiny")


@pytest.mark.slow
def test_a_killed_audit_continues_to_the_same_findings(machine: Machine, arguments: tuple[str, ...]) -> None:
    whole = (*arguments, "--reference", "demo-reference", "--threads", "1")
    reference = machine.json(*whole, "--out", "whole")
    assert reference["is_complete"] and reference["members"] == 150
    scores = [row["case"] for row in reference["measures"] if row["measure"] == "auc"]
    assert scores == [LABELS[score] for score in Score]
    folder = RunFolder(Path(machine.json(*whole, "--detach")["directory"]))
    wait_until(lambda: run_summary(folder).guesses > 300)
    kill_supervisor(folder)
    wait_until(lambda: run_status(folder).is_over)
    machine.run("resume", folder.id)
    assert machine.json("audit", "show", folder.id, "--out", "resumed") == reference
    names = {path.relative_to(machine.folder / "whole").as_posix() for path in (machine.folder / "whole").rglob("*.*")}
    assert {"figures/roc.svg", "figures/auc.svg", "tables/documents.parquet", "index.html"} <= names
    for name in ("tables/documents.csv", "figures/roc.svg"):
        assert (machine.folder / "resumed" / name).read_bytes() == (machine.folder / "whole" / name).read_bytes()


def test_bad_input_is_refused_in_one_sentence(machine: Machine, arguments: tuple[str, ...]) -> None:
    others = ("--non-members", "others.jsonl")
    for given, code, sentence in (
        ((), 2, "no members are named. Give a file or a directory, or a round with --round."),
        (("members.jsonl",), 2, "no non-members are named. Give --non-members or --non-members-round."),
        (("members.jsonl", *others), 2, "no target is named. Give --target."),
        (("members.jsonl", *others, "--target", "demo", "--k", "0"), 2, "--k: "),
        (("members.jsonl", *others, "--target", "demo", "--reference", "demo"), 2, "demo is both --target and"),
        (("members.jsonl", "--non-members", "members.jsonl", "--target", "demo"), 1, "are the same documents"),
    ):
        done = machine.run("audit", "membership", *given, code=code)
        assert sentence in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr
    assert machine.folders() == []
