"""`harness data` and `harness list rounds`: output and exit codes."""

import json
import os

import numpy as np
import pytest

from tests.functional.command import run_command
from tests.functional.machine import ROOT
from tests.tools.data import SATML, require_data


def harness(*arguments, data):
    environment = {**os.environ, "HARNESS_DATA": str(data)}
    return run_command([*map(str, arguments)], folder=ROOT, environment=environment)


@pytest.fixture(scope="module")
def fetched_data(tmp_path_factory):
    require_data(SATML)
    data = tmp_path_factory.mktemp("data")
    done = harness("data", "fetch", "satml", "--from", SATML, data=data)
    assert done.returncode == 0, done.stderr
    return data


def assert_refused(done, *words, code=1):
    assert done.returncode == code and done.stdout == ""
    assert done.stderr.startswith("harness: ") and done.stderr.count("\n") == 1, done.stderr
    for word in words:
        assert word in done.stderr


@pytest.fixture
def small_round(tmp_path):
    random = np.random.default_rng(1)
    np.save(tmp_path / "prefix.npy", random.integers(0, 90, (5, 8), np.uint16))
    np.save(tmp_path / "suffix.npy", random.integers(0, 90, (5, 4), np.uint16))
    path = tmp_path / "small.toml"
    path.write_text(
        'name = "small"\ntitle = "small"\nprefix_file = "prefix.npy"\nanswer_file = "suffix.npy"\n'
        'prefix_length = 8\nsuffix_length = 4\nvocabulary = 90\ntarget = "none"\n'
    )
    return path


def test_status_names_missing_files_and_the_fetch_command(tmp_path):
    done = harness("data", "status", "satml-dev", "--json", data=tmp_path)
    status = json.loads(done.stdout)
    assert done.returncode == 0 and done.stdout.count("\n") == 1
    assert not status["is_complete"] and {file["state"] for file in status["files"]} == {"missing"}
    assert status["commands"][0] == "harness data fetch satml"
    assert "harness data fetch satml" in harness("data", "status", "satml-dev", data=tmp_path).stdout


def test_a_fetch_from_a_directory_names_missing_files_and_complete_rounds(fetched_data):
    done = harness("data", "fetch", "satml", "--from", SATML, data=fetched_data)
    assert done.returncode == 0
    assert "val_suffix.npy          lacking" in done.stdout and "already there" in done.stdout
    for text in ("lacks val_preprefix.npy, val_suffix.npy", "satml-dev: complete.", "satml-val: complete (blind"):
        assert text in done.stderr


def test_a_fetched_round_is_complete_and_has_the_official_md5(fetched_data):
    status = json.loads(harness("data", "status", "satml-dev", "--json", data=fetched_data).stdout)
    assert status["is_complete"] and status["is_sound"] and not status["is_blind"]
    assert [(rows["split"], rows["checksum"]) for rows in status["joined"]] == [("train", "right")]


def test_a_changed_token_changes_the_md5(fetched_data, tmp_path):
    folder = tmp_path / "satml"
    folder.mkdir()
    for name in ("train_preprefix.npy", "train_prefix.npy", "train_suffix.npy"):
        rows = np.load(fetched_data / "satml" / name)
        rows[77, 3] = (rows[77, 3] + 1) % 50257
        np.save(folder / name, rows)
    done = harness("data", "status", "satml-dev", data=tmp_path)
    assert done.returncode == 1 and "md5 wrong: expected 6d85d7f2" in done.stdout


def test_files_that_contradict_the_round_are_named(small_round, tmp_path):
    np.save(small_round.parent / "suffix.npy", np.zeros((5, 7), np.uint16))
    done = harness("data", "status", small_round, data=tmp_path)
    assert done.returncode == 1 and "expected rows of 4 tokens, as in the round, found 7" in done.stdout
    (small_round.parent / "suffix.npy").write_bytes(b"\x80\x04rubbish")
    done = harness("data", "status", small_round, data=tmp_path)
    assert done.returncode == 1 and "not a plain .npy array" in done.stdout and "Traceback" not in done.stderr


def test_overlap_lists_the_examples_that_are_in_the_training_rows(small_round, tmp_path):
    training = 'train_prefix_file = "prefix.npy"\ntrain_suffix_file = "suffix.npy"\n'
    small_round.write_text(small_round.read_text() + training)
    found = json.loads(harness("data", "overlap", small_round, "--json", data=tmp_path).stdout)
    assert (found["in_train"], found["in_train_ids"]) == (5, [*range(5)])


def test_overlap_of_a_blind_round_has_no_examples_in_train(small_round, tmp_path):
    prefixes = np.load(small_round.parent / "prefix.npy")
    np.save(small_round.parent / "train_suffix.npy", np.zeros((5, 4), np.uint16))
    small_round.write_text(
        small_round.read_text().replace('answer_file = "suffix.npy"', "")
        + 'train_prefix_file = "prefix.npy"\ntrain_suffix_file = "train_suffix.npy"\n'
    )
    done = harness("data", "overlap", small_round, data=tmp_path)
    assert done.returncode == 0 and "blind" in done.stdout and "in train" not in done.stdout
    found = json.loads(harness("data", "overlap", small_round, "--json", data=tmp_path).stdout)
    assert (found["known_prefix"], found["stitched"], found["in_train"]) == (len(prefixes), len(prefixes), None)
    answers = ("--answers", small_round.parent / "suffix.npy")
    found = json.loads(harness("data", "overlap", small_round, *answers, "--json", data=tmp_path).stdout)
    assert (found["is_blind"], found["in_train"], found["known_prefix_right"]) == (False, 0, 0)


def test_overlap_without_files_is_refused(tmp_path, small_round):
    assert_refused(harness("data", "overlap", "satml-dev", data=tmp_path), "train_prefix.npy", "no such file")
    assert_refused(harness("data", "overlap", small_round, data=tmp_path), "no training rows")


def test_an_unknown_name_suggests_similar_ones(tmp_path):
    for command in (["show"], ["data", "status"], ["data", "overlap"]):
        assert_refused(harness(*command, "satml-dve", data=tmp_path), "did you mean satml-dev", code=2)
    assert_refused(harness("data", "fetch", "satlm", data=tmp_path), "did you mean satml", code=2)


def test_rounds_lists_the_state_of_the_files(fetched_data):
    listed = {line.split()[0]: line for line in harness("list", "rounds", data=fetched_data).stdout.splitlines()}
    assert "complete" in listed["satml-dev"] and "blind" not in listed["satml-dev"]
    assert "complete, blind" in listed["satml-test"]
    rounds = json.loads(harness("list", "rounds", "--json", data=fetched_data).stdout)["rounds"]
    by_name = {row["round"]: row for row in rounds}
    assert by_name["satml-dev"]["examples"] == 1000 and by_name["satml-dev"]["is_complete"]


def test_rounds_show_prints_every_rule_and_file(small_round, tmp_path):
    done = harness("show", small_round, "--json", data=tmp_path)
    shown = json.loads(done.stdout)
    rules = ("prefix_length", "suffix_length", "vocabulary", "error_cap", "row_cap", "budget_s", "examples")
    assert [shown[rule] for rule in rules] == [8, 4, 90, 100, 100_000, 86400.0, 5]
    assert [file["fields"] for file in shown["files"]] == [["prefix_file"], ["answer_file"]]
    text = harness("show", small_round, data=tmp_path).stdout
    assert "24:00:00" in text and str(small_round.parent / "prefix.npy") in text


def test_rounds_show_prints_dates_and_forbidden_models(tmp_path):
    shown = json.loads(harness("show", "satml-test", "--json", data=tmp_path).stdout)
    assert (shown["closes"], shown["answers_released"]) == ("2023-01-27T23:59:59.999999-12:00", None)
    assert "*/pythia-*" in shown["forbidden_models"] and shown["training_data_search"] == "forbidden"
    text = harness("show", "satml-test", data=tmp_path).stdout
    for line in ("code deadline         2023-01-20 AoE", "prefixes released     2023-01-23 AoE"):
        assert f"  {line}\n" in text
    assert "answers released" not in text and "*/pythia-*, " in text and "; the target is allowed\n" in text


def test_rounds_show_prints_the_rules_of_a_fold(tmp_path):
    shown = json.loads(harness("show", "demo:fold0of5", "--json", data=tmp_path).stdout)
    assert shown["answer_rows"] is None and shown["train_rows"] is None
    whole = json.loads(harness("show", "demo", "--json", data=tmp_path).stdout)
    assert shown["error_cap"] == round(whole["error_cap"] * shown["examples"] / whole["examples"])
    assert f"error cap      {shown['error_cap']}\n" in harness("show", "demo:fold0of5", data=tmp_path).stdout


def test_rounds_show_lists_the_presets(tmp_path):
    shown = json.loads(harness("show", "demo", "--json", data=tmp_path).stdout)
    assert shown["presets"]["baseline"] == {"trials": 4}
    assert "  preset         baseline: trials=4\n" in harness("show", "demo", data=tmp_path).stdout
    assert "preset" not in harness("show", "satml-dev", data=tmp_path).stdout


def test_the_status_of_all_rounds(tmp_path):
    rounds = json.loads(harness("data", "status", "--json", data=tmp_path).stdout)["rounds"]
    by_name = {row["round"]: row for row in rounds}
    assert set(by_name) >= {"demo", "satml-dev", "satml-test"}
    assert by_name["demo"]["is_complete"] and by_name["demo"]["commands"] == []
    missing = [file["path"] for file in by_name["satml-dev"]["files"] if file["state"] == "missing"]
    assert str(tmp_path / "satml" / "train_prefix.npy") in missing
    assert by_name["satml-dev"]["commands"][0] == "harness data fetch satml"
    text = harness("data", "status", data=tmp_path).stdout
    assert "demo: complete\n" in text and "satml-dev: files: " in text


def test_a_title_prints_no_control_characters(small_round, tmp_path):
    small_round.write_text(small_round.read_text().replace('title = "small"', 'title = "\\u001b[2Jsmall"'))
    assert "\x1b" not in harness("show", small_round, data=tmp_path).stdout
