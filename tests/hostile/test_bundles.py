"""Bundles of strangers: what they contain leads nowhere, and one of them does not end the work on others."""

import csv
import io
import json
import os
import shutil
from pathlib import Path

import pytest

from harness.runs.folder import RunFolder
from tests.functional.bundler import (
    FAST,
    OWN_ENVIRONMENT,
    Bundler,
    Packed,
    altered,
    altered_wheel,
    files_of,
    finding,
    reason,
)
from tests.functional.machine import EXAMPLES, Machine
from tests.tools.tiers import first_is_fast

PLUGINS = Path(__file__).parent / "plugins"
DEEP = """exec "$PYTHON" -c "
import os
for _ in range(3000):
    os.mkdir('x')
    os.chdir('x')
" """
SECRET = "the secret of the organizer"


@pytest.fixture
def packed(bundler: Bundler) -> Packed:
    return bundler.package("draws", *FAST)


def _with_run_sh(packed: Packed, out: Path, script: str) -> Path:
    return altered(packed.zip, out, {"code/run.sh": f"#!/usr/bin/env bash\n{script}\n".encode()})


def test_a_run_that_nests_directories_is_finished_continued_and_deleted(sandboxed_machine: Machine) -> None:
    options = ("--attacks", str(PLUGINS), "--round", str(sandboxed_machine.folder / "round.toml"))
    summary = sandboxed_machine.json("run", "deep", *options)
    folder = RunFolder(Path(summary["directory"]))
    assert summary["status"] == "finished" and folder.submission.is_file() and not folder.scratch.exists()
    sandboxed_machine.run("runs", "rm", summary["id"], "--yes")
    assert sandboxed_machine.folders() == []


def test_no_bundle_ends_the_leaderboard_of_the_others(
    each_sandbox: Bundler, packed: Packed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (entries := tmp_path / "entries").mkdir()
    (temporary := tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    _with_run_sh(packed, entries / "a-deep.zip", DEEP)
    (entries / "b-directory.zip").mkdir()
    (entries / "c-dangling.zip").symlink_to("nowhere")
    os.mkfifo(entries / "d-pipe.zip")
    shutil.copy(packed.zip, entries / "z-good.zip")
    command = ("bundle", "rank", str(entries), *each_sandbox.round, "--verify", *OWN_ENVIRONMENT)
    board = {entry["bundle"]: entry for entry in each_sandbox.machine.json(*command)["entries"]}
    assert board.pop("z-good.zip")["verified"] == "reproduced"
    assert "the code did not write a valid submission" in board["a-deep.zip"]["unranked"]
    assert len(board) == 4 and all(entry["unranked"] for entry in board.values())
    assert os.listdir(temporary) == []


def _unpacked(packed: Packed, folder: Path) -> Path:
    for name, content in files_of(packed.zip).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder / "code"


@pytest.mark.parametrize(
    "place",
    first_is_fast(
        ["paths/file/file/team.toml", "paths/file", "attack/draws.py", "round.toml", "spec.json", "more/inside"]
    ),
)
def test_code_with_a_link_is_not_run_again(bundler: Bundler, tmp_path: Path, place: str) -> None:
    packed = bundler.package("draws", *FAST, "--set", "file=team.toml")
    code = _unpacked(packed, tmp_path / "bundle")
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


@pytest.mark.parametrize("name", first_is_fast(["../../../secret", "/etc", "a/b", "", "a b"]))
def test_a_parameter_cannot_be_a_path(bundler: Bundler, packed: Packed, tmp_path: Path, name: str) -> None:
    code = _unpacked(packed, tmp_path / "bundle")
    spec = json.loads((code / "spec.json").read_text()) | {"paths": {name: "0" * 64}}
    (code / "spec.json").write_text(json.dumps(spec))
    (folder := tmp_path / "secret" / "folder").mkdir(parents=True)
    (folder / "id").write_text(SECRET)
    machine = Machine(tmp_path / "machine")
    machine.folder.mkdir()
    prefixes = str(bundler.machine.folder / f"prefix-{EXAMPLES}.npy")
    error = machine.run("bundle", "rerun", str(code), prefixes, code=1).stderr
    assert "is not the name of an attack or a parameter" in error and machine.folders() == []


@pytest.mark.parametrize(
    ("file", "name", "words"),
    first_is_fast(
        [
            ("code/spec.json", "../x", "code/spec.json: '../x' is not the name of an attack"),
            ("code/spec.json", "\x1b[31mdraws", "is not the name of an attack"),
            ("code/round.toml", "../../etc/passwd", "code/round.toml: not the rules of a round"),
        ],
    ),
)
def test_the_names_that_people_see_are_valid(
    bundler: Bundler, packed: Packed, tmp_path: Path, file: str, name: str, words: str
) -> None:
    content = files_of(packed.zip)[file].decode()
    if file == "code/spec.json":
        spec = json.loads(content)
        content = json.dumps(spec | {"attack": spec["attack"] | {"name": name}})
    else:
        content = content.replace('name = "small"', f'name = "{name}"')
    bundle = altered(packed.zip, tmp_path / "x.zip", {file: content.encode()})
    assert words in reason(bundler.verify(bundle, code=1))[1]
    bundle.with_suffix(".verdict.json").unlink()
    (entry,) = bundler.machine.json("bundle", "rank", str(tmp_path), *bundler.round)["entries"]
    assert words in entry["unranked"] and entry["place"] is None


def test_a_manifest_cannot_name_another_attack(bundler: Bundler, packed: Packed, tmp_path: Path) -> None:
    bundle = altered(packed.zip, tmp_path / "x.zip", {}, attack="better")
    assert reason(bundler.verify(bundle, code=1)) == ("archive", "MANIFEST.json: attack: unknown field")


def test_another_round_or_reference_is_noted_and_another_source_refused(
    bundler: Bundler, packed: Packed, tmp_path: Path
) -> None:
    files = files_of(packed.zip)
    renamed = files["code/round.toml"].replace(b'name = "small"', b'name = "other"')
    spec = files["code/spec.json"].replace(b'"reference_model": ""', b'"reference_model": "better"')
    changes = {"code/round.toml": renamed, "code/spec.json": spec, "submission.csv": None}
    verdict = bundler.verify(altered(packed.zip, tmp_path / "x.zip", changes), code=1)
    assert finding(verdict, "round")["sentence"] == "the bundle was made for the round other, not for small"
    assert finding(verdict, "reference")["sentence"] == "the reference model is none, the attack declares better"
    bundle = altered(packed.zip, tmp_path / "y.zip", {"code/attack/draws.py": files["code/attack/draws.py"] + b"#"})
    sentence = "code/attack/draws.py is missing, or is not the source that spec.json names"
    assert reason(bundler.verify(bundle, code=1)) == ("code", sentence)


def test_a_field_that_occurs_twice_is_refused(bundler: Bundler, packed: Packed, tmp_path: Path) -> None:
    spec = files_of(packed.zip)["code/spec.json"].replace(b'"seed":', b'"seed": 7, "seed":')
    bundle = altered(packed.zip, tmp_path / "x.zip", {"code/spec.json": spec})
    assert reason(bundler.verify(bundle, code=1)) == ("code", "code/spec.json: the field 'seed' occurs twice")


@pytest.mark.parametrize(
    "line", first_is_fast(["# coding: utf-7", "# vim: set fileencoding=utf-16 :", "# coding: no-such-encoding"])
)
def test_source_in_another_encoding_is_refused(bundler: Bundler, packed: Packed, tmp_path: Path, line: str) -> None:
    source = files_of(packed.zip)["code/attack/draws.py"]
    bundle = altered(packed.zip, tmp_path / "x.zip", {"code/attack/draws.py": line.encode() + b"\n" + source})
    found = reason(bundler.verify(bundle, code=1))
    assert found == ("code", "code/attack/draws.py: declares another encoding than UTF-8")


def test_a_verdict_notes_code_that_package_does_not_write(bundler: Bundler, packed: Packed, tmp_path: Path) -> None:
    honest = bundler.verify(packed.zip, "--out", str(tmp_path))
    assert not [one for one in honest["findings"] if "harness bundle" in one["sentence"]]
    script = 'printf "%s\\n" "${BASH_SOURCE[0]%/*}" >/dev/null; cp "${BASH_SOURCE[0]%/*}/answers.csv" "$2"'
    copied = {"code/answers.csv": files_of(packed.zip)["submission.csv"], "code/attack/more.py": b""}
    copied["code/run.sh"] = f"#!/usr/bin/env bash\n{script}\n".encode()
    verdict = bundler.verify(altered(packed.zip, tmp_path / "x.zip", copied))
    notes = [one["sentence"] for one in verdict["findings"] if one["holds"] is None and one["name"] == "code"]
    assert verdict["outcome"] == "reproduced" and notes == [
        "run.sh is not the one that harness bundle writes",
        "code/ contains files that harness bundle does not write: answers.csv, attack/more.py",
    ]


def test_a_damaged_wheel_is_refused(bundler: Bundler, packed: Packed, tmp_path: Path) -> None:
    (name,) = altered_wheel(packed.zip, {})
    verdict = bundler.verify(altered(packed.zip, tmp_path / "x.zip", {name: b"PK"}), code=1)
    assert reason(verdict)[0] == "environment" and "not a valid zip file" in reason(verdict)[1]


def test_no_text_of_a_team_reaches_a_csv_file_raw(bundler: Bundler, packed: Packed, tmp_path: Path) -> None:
    """A spreadsheet ignores spaces before a formula, and a terminal obeys control characters."""
    (entries := tmp_path / "entries").mkdir()
    team = b'name = " =cmd|x!A1\\u001b[31m\\u202e\\u0007"\n[[members]]\nname = "A"\n'
    manifest = json.loads(files_of(packed.zip)["MANIFEST.json"])
    run = manifest["run"] | {"hardware": {"processor": "\x1b]0;x\x07" + "long" * 1000, "gpus": ["\u202e"], "cores": {}}}
    marks = [{"check": "\n=1", "sentence": "x"}]
    name = "\ufeff=1\x1b.zip"
    altered(packed.zip, entries / name, {"team.toml": team}, run=run, marks=marks)
    table = bundler.machine.run("bundle", "rank", str(entries), *bundler.round, "--csv", "-").stdout
    assert all(character.isprintable() or character == "\n" for character in table) and len(table) < 2_000
    (row,) = csv.DictReader(io.StringIO(table))
    assert row["bundle"].startswith("'") and row["team"].startswith("'") and row["marks"].startswith("'")
