"""Bundles of strangers: what they contain leads nowhere, and one of them does not end the work on others."""

import csv
import io
import json
import os
import shutil
from pathlib import Path

import pytest

from tests.functional.bundler import (
    FAST,
    OWN_ENVIRONMENT,
    Bundler,
    Packed,
    altered,
    files_of,
    finding,
    unpacked,
    with_run_sh,
)
from tests.functional.machine import EXAMPLES, Machine
from tests.tools.tiers import first_is_fast

DEEP = """exec "$PYTHON" -c "
import os
for _ in range(3000):
    os.mkdir('x')
    os.chdir('x')
" """


def test_no_bundle_ends_the_leaderboard_of_the_others(
    each_sandbox: Bundler, draws: Packed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (entries := tmp_path / "entries").mkdir()
    (temporary := tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    with_run_sh(draws.zip, entries / "a-deep.zip", DEEP)
    (entries / "b-directory.zip").mkdir()
    (entries / "c-dangling.zip").symlink_to("nowhere")
    os.mkfifo(entries / "d-pipe.zip")
    shutil.copy(draws.zip, entries / "z-good.zip")
    command = ("bundle", "rank", str(entries), *each_sandbox.round, "--verify", *OWN_ENVIRONMENT)
    board = {entry["bundle"]: entry for entry in each_sandbox.machine.json(*command)["entries"]}
    assert board.pop("z-good.zip")["verified"] == "reproduced"
    assert "the code did not write a valid submission" in board["a-deep.zip"]["unranked"]
    assert len(board) == 4 and all(entry["unranked"] for entry in board.values())
    assert os.listdir(temporary) == []


@pytest.mark.parametrize(
    "place",
    first_is_fast(
        ["paths/file/file/team.toml", "paths/file", "attack/draws.py", "round.toml", "spec.json", "more/inside"]
    ),
)
def test_code_with_a_link_is_not_run_again(bundler: Bundler, tmp_path: Path, place: str) -> None:
    code = unpacked(bundler.package("draws", *FAST, "--set", "file=team.toml").zip, tmp_path / "bundle")
    elsewhere = tmp_path / "elsewhere"
    link = code / place
    link.parent.mkdir(parents=True, exist_ok=True)
    if link.exists():
        link.rename(elsewhere)
    else:
        elsewhere.mkdir()
    link.symlink_to(elsewhere)
    (tmp_path / "machine").mkdir()
    machine = Machine(tmp_path / "machine")
    prefixes = str(bundler.machine.folder / f"prefix-{EXAMPLES}.npy")
    error = machine.run("bundle", "rerun", str(code), prefixes, code=1).stderr
    assert f"{link}: not a regular file" in error.replace("\n", "") and machine.folders() == []


def test_another_round_or_reference_is_noted(bundler: Bundler, draws: Packed, tmp_path: Path) -> None:
    files = files_of(draws.zip)
    renamed = files["code/round.toml"].replace(b'name = "small"', b'name = "other"')
    spec = files["code/spec.json"].replace(b'"reference_model": ""', b'"reference_model": "better"')
    changes = {"code/round.toml": renamed, "code/spec.json": spec, "submission.csv": None}
    verdict = bundler.verify(altered(draws.zip, tmp_path / "x.zip", changes), code=1)
    assert finding(verdict, "round")["sentence"] == "the bundle was made for the round other, not for small"
    assert finding(verdict, "reference")["sentence"] == "the reference model is none, the attack declares better"


def test_a_verdict_notes_code_that_package_does_not_write(bundler: Bundler, draws: Packed, tmp_path: Path) -> None:
    honest = bundler.verify(draws.zip, "--out", str(tmp_path))
    assert not [one for one in honest["findings"] if "harness bundle" in one["sentence"]]
    script = 'printf "%s\\n" "${BASH_SOURCE[0]%/*}" >/dev/null; cp "${BASH_SOURCE[0]%/*}/answers.csv" "$2"'
    copied = {"code/answers.csv": files_of(draws.zip)["submission.csv"], "code/attack/more.py": b""}
    copied["code/run.sh"] = f"#!/usr/bin/env bash\n{script}\n".encode()
    verdict = bundler.verify(altered(draws.zip, tmp_path / "x.zip", copied))
    notes = [one["sentence"] for one in verdict["findings"] if one["holds"] is None and one["name"] == "code"]
    assert verdict["outcome"] == "reproduced" and notes == [
        "run.sh is not the one that harness bundle writes",
        "code/ contains files that harness bundle does not write: answers.csv, attack/more.py",
    ]


def test_no_text_of_a_team_reaches_a_file_or_the_terminal_raw(bundler: Bundler, draws: Packed, tmp_path: Path) -> None:
    """A spreadsheet ignores spaces before a formula, and a terminal obeys control characters."""
    (entries := tmp_path / "entries").mkdir()
    team = b'name = " =cmd|x!A1\\u001b[31m\\u202e\\u0007<script>"\n[[members]]\nname = "A"\n'
    manifest = json.loads(files_of(draws.zip)["MANIFEST.json"])
    run = manifest["run"] | {"hardware": {"processor": "\x1b]0;x\x07" + "long" * 1000, "gpus": ["\u202e"], "cores": {}}}
    marks = [{"check": "\n=1<b>", "sentence": "x"}]
    name = "\ufeff=1\x1b<i>.zip"
    altered(draws.zip, entries / name, {"team.toml": team}, run=run, marks=marks)
    table = bundler.machine.run("bundle", "rank", str(entries), *bundler.round, "--csv", "-").stdout
    assert all(character.isprintable() or character == "\n" for character in table) and len(table) < 2_000
    (row,) = csv.DictReader(io.StringIO(table))
    assert row["bundle"].startswith("'") and row["team"].startswith("'") and row["marks"].startswith("'")
    page = tmp_path / "board.html"
    done = bundler.machine.run("bundle", "rank", str(entries), *bundler.round, "--html", str(page))
    for shown in (done.stdout, done.stderr, page.read_text()):
        assert not set(shown) & set("\x1b\u202e\x07")
    assert not [tag for tag in ("<script>", "<i>", "<b>") if tag in page.read_text()]
