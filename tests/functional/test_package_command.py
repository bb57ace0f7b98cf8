"""`harness bundle create`: the content of a bundle, reproducibility, and failed checks."""

import hashlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.submit.manifest import MANIFEST
from tests.functional.bundler import DESCRIPTION, FAST, TEAM, Bundler, Packed, files_of
from tests.functional.machine import EXAMPLES, Machine
from tests.tools.tiers import first_is_fast

ENVIRONMENT = {"TZ": "Pacific/Kiritimati", "PYTHONHASHSEED": "5", "LANG": "C", "LC_ALL": "C"}
ENVIRONMENT |= {"SOURCE_DATE_EPOCH": "1700000000", "REPRO_ZIPFILE_FILE_MODE": "600"}
CODE_FILES = {"Dockerfile", "README.md", "environment.yml", "requirements.txt", "round.toml", "run.sh", "spec.json"}


@pytest.fixture
def team(machine: Machine) -> Machine:
    """A machine with a team and a description."""
    (machine.folder / "team.toml").write_text(TEAM)
    (machine.folder / "description.md").write_text(DESCRIPTION)
    return machine


def _manifest(bundle: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(files_of(bundle)[MANIFEST])
    return value


def test_a_bundle_contains_all_files(bundler: Bundler, draws: Packed) -> None:
    files = files_of(draws.zip)
    code = {name.removeprefix("code/") for name in files if name.startswith("code/")}
    assert code - {"extraction_harness-0.1.0-py3-none-any.whl"} == CODE_FILES | {"attack/draws.py"}
    rest = {name for name in files if not name.startswith(("code/", "description/"))}
    assert rest == {"submission.csv", "description.pdf", "team.toml", "scorecard.json", MANIFEST}
    assert files["submission.csv"] == draws.run.submission.read_bytes()
    assert files["code/attack/draws.py"] == (draws.run.code / "draws.py").read_bytes()
    assert files["team.toml"].decode() == TEAM and files["description.pdf"].startswith(b"%PDF-")
    run = _manifest(draws.zip)["run"]
    assert (run["id"], run["status"]) == (draws.run.id, "finished")


def test_packaging_does_not_depend_on_the_environment(bundler: Bundler, draws: Packed, tmp_path: Path) -> None:
    machine = Machine(bundler.machine.folder, ENVIRONMENT)
    machine.run_process("bundle", "create", draws.run.id, "--out", str(tmp_path / "again.zip"))
    assert files_of(tmp_path / "again.zip") == files_of(draws.zip)
    assert (tmp_path / "again.zip").read_bytes() == draws.zip.read_bytes()


@pytest.mark.slow
def test_a_bundle_contains_no_local_path(bundler: Bundler) -> None:
    packed = bundler.package("draws", *FAST, "--set", "file=team.toml")
    files = files_of(packed.zip)
    assert files["code/paths/file/file/team.toml"].decode() == TEAM
    named = [
        name
        for name, content in files.items()
        if str(bundler.machine.folder).encode() in content and not name.endswith((".pdf", ".whl"))
    ]
    assert named == []


def test_a_bundle_contains_no_answers_or_attacked_prefixes(bundler: Bundler, draws: Packed) -> None:
    folder = bundler.machine.folder
    packed = bundler.package("stages")
    answers, prefixes = (np.load(folder / f"{part}-{EXAMPLES}.npy") for part in ("answer", "prefix"))
    with np.load(io.BytesIO(files_of(packed.zip)["code/train.npz"])) as train:
        assert train["prefixes"].tolist() == np.load(folder / f"train_prefix-{EXAMPLES}.npy").tolist()
        assert sorted(train.files) == ["prefixes", "suffixes"]
    hidden = [rows[0].tobytes() for rows in (answers, prefixes)]
    hidden += [",".join(map(str, rows[0].tolist())).encode() for rows in (answers, prefixes)]
    for bundle in (packed.zip, draws.zip):
        for name, content in files_of(bundle).items():
            assert not any(part in content for part in hidden), name


def test_run_sh_without_arguments_prints_its_usage(draws: Packed, tmp_path: Path, bundler: Bundler) -> None:
    import subprocess

    (tmp_path / "run.sh").write_bytes(files_of(draws.zip)["code/run.sh"])
    done = subprocess.run(["bash", str(tmp_path / "run.sh")], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (2, "usage: bash run.sh PREFIXES [OUT.csv]\n")


@pytest.mark.parametrize(
    ("attack", "options", "code", "check", "words"),
    first_is_fast(
        [
            ("draws", (*FAST, "--limit", "9"), 0, "partial", "--limit left out 55 of 64 examples"),
            ("misbehaving", ("--set", "action=raises"), 1, "ended", "the run crashed"),
        ]
    ),
)
def test_a_failed_check_is_refused_or_marked_if_accepted(
    bundler: Bundler, tmp_path: Path, attack: str, options: tuple[str, ...], code: int, check: str, words: str
) -> None:
    run = bundler.machine.attack(attack, *options, code=code)["id"]
    out = ("--out", str(tmp_path / "x.zip"))
    refused = bundler.machine.run("bundle", "create", run, *out, code=1)
    assert refused.stderr.startswith(f"harness: {check}: {words}") and f"with --accept {check}." in refused.stderr
    assert not (tmp_path / "x.zip").exists()
    bundler.machine.run("bundle", "create", run, *out, "--accept", check)
    (mark,) = _manifest(tmp_path / "x.zip")["marks"]
    assert mark["check"] == check and mark["sentence"].startswith(words)


def test_a_control_cannot_be_accepted(team: Machine) -> None:
    run = team.json("run", "lookup", "--round", str(team.folder / "round.toml"))["id"]
    assert team.run("bundle", "create", run, code=1).stderr.startswith("harness: control: lookup")
    error = team.run("bundle", "create", run, "--accept", "control", code=1).stderr
    assert error.startswith("harness: --accept control is not possible: ")


MISSING = [
    ("team.toml", None, "team: no team file. Write team.toml"),
    ("team.toml", "members = []", "team: team.toml: members: must have at least 1 item"),
    ("description.md", None, "description: no description. Describe"),
    ("description.md", " \n", "description: description.md: the file is empty"),
    ("prefix-64.npy", "rubbish", "inputs: changed since the run started: the round's file"),
]


def test_missing_or_changed_files_are_named(team: Machine) -> None:
    run = team.attack("draws", *FAST)["id"]
    for name, content, words in MISSING:
        before = (team.folder / name).read_bytes()
        (team.folder / name).unlink()
        if content is not None:
            (team.folder / name).write_text(content)
        assert team.run("bundle", "create", run, code=1).stderr.startswith(f"harness: {words}")
        (team.folder / name).write_bytes(before)


def test_the_checklist_shows_every_check_and_its_remedy(team: Machine) -> None:
    run = team.attack("draws", *FAST, "--limit", "9")["id"]
    (team.folder / "team.toml").unlink()
    with (team.folder / "round.toml").open("a") as file:
        file.write("code_deadline = 2023-01-20\ncloses = 2023-01-27T18:00:00Z\n")
    output = team.run("bundle", "create", run, "--check", code=1).stdout
    assert (
        "✗ partial" in output
        and "→ run the attack without --limit; or --accept partial" in output
        and "✗ team" in output
    )
    assert "✓ round        the round is small, code by 2023-01-20 AoE, closes 2023-01-27 18:00:00 UTC\n" in output
    assert "· description  the description has 6 words outside tables and examples; two to five pages" in output
    (line,) = team.run("bundle", "create", run, "--check", "--json", "--accept", "partial", code=1).stdout.splitlines()
    checks = json.loads(line)["checks"]
    unmet = {check["name"]: check["is_accepted"] for check in checks if not check["is_met"]}
    assert unmet == {"partial": True, "team": False}


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("create", "absent-run"), 2, "absent-run"),
        (("create", "latest", "--accept", "nonsense"), 2, "unknown check 'nonsense'"),
        (("create", "latest", "--round", "round.toml"), 2, "unknown option '--round'"),
        (("code", "draws"), 2, "--round: is required"),
        (("code", "nonsense", "--round", "round.toml"), 2, "unknown attack 'nonsense'"),
        (("create", "latest", "--team", "absent.toml"), 1, "team: no such file: absent.toml"),
        (("create", "latest", "--out", "team.toml/x.zip"), 1, "team.toml: cannot be created (File exists)"),
        (("create", "latest", "--out", "there.zip"), 1, "there.zip exists. --force replaces it"),
        (("create", "latest", "--out", "folder.zip", "--force"), 1, "folder.zip is a directory. Name a file."),
    ],
)
def test_invalid_arguments_are_refused(
    bundler: Bundler, draws: Packed, options: tuple[str, ...], code: int, words: str
) -> None:
    (bundler.machine.folder / "there.zip").write_bytes(b"")
    (bundler.machine.folder / "folder.zip").mkdir(exist_ok=True)
    options = tuple(draws.run.id if option == "latest" else option for option in options)
    assert words in " ".join(bundler.machine.run("bundle", *options, code=code).stderr.replace("│", " ").split())


@pytest.mark.slow
def test_out_may_be_a_directory_and_force_replaces(bundler: Bundler, draws: Packed, tmp_path: Path) -> None:
    result = bundler.machine.json("bundle", "create", draws.run.id, "--out", str(tmp_path / "new" / "folder"))
    assert result["bundle"] == str(tmp_path / "new" / "folder" / f"{draws.run.id}.zip")
    assert result["sha256"] == hashlib.sha256(draws.zip.read_bytes()).hexdigest()
    Path(result["bundle"]).write_bytes(b"old")
    bundler.machine.run("bundle", "create", draws.run.id, "--out", result["bundle"], "--force")
    assert Path(result["bundle"]).read_bytes() == draws.zip.read_bytes()


def _code_only(machine: Machine, *options: str, code: int = 0) -> Path:
    out = machine.folder / "frozen.zip"
    machine.run("bundle", "code", "draws", *machine.plugin(), *FAST, *options, "--out", str(out), code=code)
    return out


@pytest.mark.slow
def test_a_bundle_names_earlier_packaged_code(team: Machine) -> None:
    aside = team.folder / "aside"
    aside.mkdir()
    hidden = [team.folder / f"{part}-{EXAMPLES}.npy" for part in ("prefix", "answer")]
    for file in hidden:
        file.rename(aside / file.name)
    frozen = _code_only(team)
    for file in hidden:
        (aside / file.name).rename(file)
    run = team.attack("draws", *FAST)["id"]
    result = team.json("bundle", "create", run)
    assert result["code_bundle_sha256"] == hashlib.sha256(frozen.read_bytes()).hexdigest()
    before, after = files_of(frozen), files_of(team.folder / result["bundle"])
    changed = [name for name in before if name != MANIFEST and before[name] != after[name]]
    assert changed == ["code/README.md"]


@pytest.mark.slow
def test_a_code_bundle_names_no_prefixes(team: Machine) -> None:
    result = team.json("bundle", "code", "draws", *team.plugin(), *FAST)
    bundle = team.folder / result["bundle"]
    assert bundle == team.folder / "submissions" / "draws-small-code.zip"
    assert result["sha256"] == result["code_bundle_sha256"] == hashlib.sha256(bundle.read_bytes()).hexdigest()
    manifest = _manifest(bundle)
    assert (manifest["kind"], manifest["prefixes_sha256"], manifest["run"]) == ("code", None, None)
    assert set(manifest["data_sha256"]) == {"train_prefix_file", "train_suffix_file"}


@pytest.mark.slow
def test_the_bundle_of_a_blind_round_does_not_depend_on_answers(team: Machine) -> None:
    answers = team.folder / f"answer-{EXAMPLES}.npy"
    answers.rename(team.folder / "later.npy")
    run = team.attack("draws", *FAST)["id"]
    before = team.folder / team.json("bundle", "create", run, "--out", "before")["bundle"]
    assert "scorecard.json" not in files_of(before)
    (team.folder / "later.npy").rename(answers)
    after = team.folder / team.json("bundle", "create", run, "--out", "after")["bundle"]
    assert after.read_bytes() == before.read_bytes()
    (entry,) = team.json("bundle", "rank", "after", "--round", "round.toml")["entries"]
    assert (entry["place"], entry["recall_at_cap"]) == (1, 0.0)
