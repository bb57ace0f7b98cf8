"""`harness score` and `harness score`, also on the challenge's files if present."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from harness.cli.output import SCHEMA_VERSION
from harness.core.submission import write_submission
from tests.functional.command import run_command
from tests.functional.machine import ROOT
from tests.tools.data import DATA, RECORDED, SATML, what_is_missing

MISSING = what_is_missing(SATML, RECORDED)
needs_data = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))

ROUND = """
name = "small"
title = "Four examples"
prefix_file = "prefixes.npy"
answer_file = "answers.npy"
prefix_length = 2
suffix_length = 3
vocabulary = 100
error_cap = 2
row_cap = 6
clusters = "none"
target = "none/at-all"
"""


def harness(*arguments, **environment):
    given = {**os.environ, "COLUMNS": "200", **environment}
    return run_command([*map(str, arguments)], folder=ROOT, environment=given)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A round of four examples, and a submission whose rows are alternately correct and wrong."""
    answers = np.arange(12, dtype=np.uint16).reshape(4, 3)
    np.save(tmp_path / "answers.npy", answers)
    np.save(tmp_path / "prefixes.npy", np.zeros((4, 2), np.uint16))
    (tmp_path / "small.toml").write_text(ROUND)
    ids = np.array([0, 1, 1, 2, 3])
    suffixes = answers[ids]
    suffixes[[1, 3]] = 50
    write_submission(tmp_path / "guesses.csv", ids, suffixes)
    return tmp_path


@needs_data
@pytest.mark.parametrize(
    ("submission", "answers", "recall", "read"),
    [
        (RECORDED / "guess1.csv", "train_suffix.npy", 0.244, 344),
        (RECORDED / "guess5.csv", "train_suffix.npy", 0.301, 401),
        (SATML / "example_submission.csv", "fake_test_suffixes.npy", 0.5, 774),
    ],
)
def test_published_submissions_have_their_published_recall(submission, answers, recall, read):
    done = harness("score", submission, "--answers", SATML / answers, "--json")
    assert ("Scored against the last 1,000 of 15,000 answers" in done.stderr) == (answers == "train_suffix.npy")
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert figures["recall_at_cap"] == recall
    assert (figures["rows_read"], figures["wrong_rows_read"]) == (read, 100)
    assert figures["recall_interval"][0] < recall < figures["recall_interval"][1]


@needs_data
def test_a_round_has_an_interval_by_clusters():
    done = harness("score", RECORDED / "guess5.csv", "--round", "satml-dev", "--json", HARNESS_DATA=str(DATA))
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert figures["recall_interval_unit"] == "cluster"
    assert figures["recall_interval"] == pytest.approx([0.256, 0.357], abs=0.01)


def test_a_score_is_printed_as_text(folder: Path):
    done = harness("score", folder / "guesses.csv", "--answers", folder / "answers.npy", "--cap", 2)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Recall@2: 0.500 [")
    assert "solved 2 of 4 examples; read 4 of 5 rows, 2 of them wrong; ignored 1" in done.stdout


def test_ids_refer_to_the_last_rows_of_the_answers(folder: Path):
    answers = np.load(folder / "answers.npy")
    np.save(folder / "longer.npy", np.concatenate([answers + 40, answers]))
    done = harness("score", folder / "guesses.csv", "--answers", folder / "longer.npy", "--last", 4, "--json")
    assert json.loads(done.stdout)["solved"] == 3


def test_a_round_provides_cap_and_answers(folder: Path):
    done = harness("score", folder / "guesses.csv", "--round", folder / "small.toml", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["error_cap"] == 2
    assert len(done.stdout.splitlines()) == 1


def test_the_curve_is_written_to_a_file(folder: Path):
    done = harness("score", folder / "guesses.csv", "--round", folder / "small.toml", "--plot", folder / "curve.svg")
    assert done.returncode == 0, done.stderr
    assert "<svg" in (folder / "curve.svg").read_text()


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["--answers", "absent.npy"], "absent.npy. Check the path"),
        (["--answers", "guesses.csv"], "not a plain .npy array"),
        (["--answers", "answers.npy", "--last", "5"], "has 4 rows. Lower --last 5."),
        (["--answers", "prefixes.npy"], "line 2: expected a suffix of 2 tokens, found 3"),
        (["--answers", "answers.npy", "--plot", "curve.pdf"], "Use .svg or .png"),
        (["--round", "smal"], "unknown round 'smal'"),
    ],
)
def test_invalid_inputs_are_refused(arguments, what, folder: Path):
    within = [str(folder / word) if "." in word else word for word in arguments]
    done = harness("score", folder / "guesses.csv", *within)
    assert done.returncode == (2 if what.startswith(("unknown ", "Use ")) else 1)
    assert done.stdout == ""
    assert what in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "arguments", [[], ["--answers", "a.npy", "--round", "demo"], ["--round", "demo", "--last", "4"]]
)
def test_contradicting_options_are_a_usage_error(arguments, folder: Path):
    done = harness("score", folder / "guesses.csv", *arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_a_valid_submission_needs_no_answers(folder: Path):
    (folder / "answers.npy").unlink()
    done = harness("score", folder / "guesses.csv", "--round", folder / "small.toml", "--json")
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    assert printed == {"schema_version": SCHEMA_VERSION, "valid": True, "round": "small", "rows": 5, "faults": []}


def test_faults_are_listed_by_line_with_exit_code_1(folder: Path):
    path = folder / "faulty.csv"
    path.write_text('Example ID,Suffix Guess\n4,"[1,2,3]"\n0,"[1,2,3]"\n1,"[np.int64(3),2,3]"\n1,"[1,2,100]"\n')
    done = harness("score", path, "--round", folder / "small.toml")
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "line 2: the example id '4' is not in 0..3",
        "line 4: the token 'np.int64(3)' is not a plain integer",
        "line 5: the token '100' is not in 0..99",
    ]
    assert [
        fault["line"]
        for fault in json.loads(harness("score", path, "--round", folder / "small.toml", "--json").stdout)["faults"]
    ] == [2, 4, 5]
