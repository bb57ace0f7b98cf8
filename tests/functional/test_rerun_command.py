"""`harness bundle rerun` and run.sh create the same submission from the bundled code, also after a kill."""

import csv
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import psutil
import pytest

from harness.runs.folder import RunFolder
from tests.functional.bundler import FAST, Bundler, Packed, files_of, unpacked
from tests.functional.machine import (
    EXAMPLES,
    Machine,
    guess_count,
    homes,
    kill_supervisor,
    last_event,
    processes_that_name,
    wait_until,
)


def _prefixes(bundler: Bundler) -> str:
    return str(bundler.machine.folder / f"prefix-{EXAMPLES}.npy")


def _rerun(
    bundler: Bundler, folder: Path, *options: str, prefixes: Path | None = None, code: int = 0
) -> tuple[Machine, "subprocess.CompletedProcess[str]"]:
    """Run `folder`/code on another machine, which has no file of the round. `code` is the expected exit code."""
    (folder / "elsewhere").mkdir(exist_ok=True)
    other = Machine(folder / "elsewhere")
    file = _prefixes(bundler) if prefixes is None else str(prefixes)
    options = options or ("--out", str(folder / "out.csv"))
    return other, other.run("bundle", "rerun", str(folder / "code"), file, *options, code=code)


def test_a_bundle_is_run_again_on_a_file_of_prefixes(bundler: Bundler, draws: Packed, tmp_path: Path) -> None:
    unpacked(draws.zip, tmp_path)
    np.savez(tmp_path / "p.npz", prefixes=np.load(_prefixes(bundler)))
    other, done = _rerun(bundler, tmp_path, prefixes=tmp_path / "p.npz")
    assert done.stdout.splitlines()[-1] == str(tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_bytes() == files_of(draws.zip)["submission.csv"]
    rows, scores = (list(csv.reader((tmp_path / name).open())) for name in ("out.csv", "scores.csv"))
    assert scores[0] == ["Example ID", "Score"] and [row[0] for row in rows[1:]] == [row[0] for row in scores[1:]]
    values = [float(score) for _, score in scores[1:]]
    assert values == sorted(values, reverse=True)
    (run,) = other.folders()
    again = other.json("run", "--like", run.id, "--dry-run")["spec"]
    recorded = run.spec().model_dump(mode="json")
    assert {name for name in recorded if again[name] != recorded[name]} <= {"id", "created_at", "changed", "request"}


@pytest.mark.long
def test_a_subset_of_prefixes_can_be_attacked(bundler: Bundler, draws: Packed, tmp_path: Path) -> None:
    unpacked(draws.zip, tmp_path)
    np.save(tmp_path / "few.npy", np.load(_prefixes(bundler))[:5])
    _rerun(bundler, tmp_path, prefixes=tmp_path / "few.npy")
    ids = {row[0] for row in list(csv.reader((tmp_path / "out.csv").open()))[1:]}
    assert ids == {"0", "1", "2", "3", "4"}


@pytest.mark.long
def test_a_title_may_contain_any_character_and_a_run_its_own_number_of_guesses(
    bundler: Bundler, tmp_path: Path
) -> None:
    round_ = bundler.machine.folder / "titled.toml"
    title = "Größe 😀 \\u0022 \\u007f \\\\ \\t end"
    round_.write_text((bundler.machine.folder / "round.toml").read_text().replace("A small round", title))
    summary = bundler.machine.attack("draws", *FAST, "--guesses-per-example", "5", round_="titled.toml")
    bundler.machine.run("bundle", "create", summary["id"], "--out", str(tmp_path / "x.zip"))
    unpacked(tmp_path / "x.zip", tmp_path)
    _rerun(bundler, tmp_path)
    assert (tmp_path / "out.csv").read_bytes() == files_of(tmp_path / "x.zip")["submission.csv"]


def _run_sh(code: Path, prefixes: str, out: Path, folder: Path) -> "subprocess.Popen[str]":
    """Start `bash run.sh` as in its README, with an unpacked wheel instead of an installed one."""
    site = folder / "site"
    if not site.exists():
        (wheel,) = code.glob("*.whl")
        shutil.unpack_archive(wheel, site, "zip")
    (folder / "elsewhere").mkdir(exist_ok=True)
    environment = os.environ | homes(folder / "elsewhere") | {"PYTHONPATH": str(site), "PYTHON": sys.executable}
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(["bash", str(code / "run.sh"), prefixes, str(out)], cwd=folder, env=environment, **streams)


@pytest.mark.slow
def test_a_killed_run_sh_resumes_to_the_same_bytes(bundler: Bundler, tmp_path: Path) -> None:
    packed = bundler.package("draws", "--set", "pause=0.15")
    code, out = unpacked(packed.zip, tmp_path), tmp_path / "out.csv"
    first = _run_sh(code, _prefixes(bundler), out, tmp_path)
    runs = Machine(tmp_path / "elsewhere")
    (folder,) = wait_until(lambda: [one for one in runs.folders() if one.store.exists()])
    wait_until(lambda: guess_count(folder) > 40)
    first.kill()
    kill_supervisor(folder)
    first.communicate()
    assert not out.exists() and not (tmp_path / "scores.csv").exists()
    wait_until(lambda: not processes_that_name(str(folder.scratch)))
    again = _run_sh(code, _prefixes(bundler), out, tmp_path)
    _, error = again.communicate(timeout=120)
    assert again.returncode == 0 and f"continuing run {folder.id}" in error
    assert [one.id for one in runs.folders()] == [folder.id]
    assert out.read_bytes() == files_of(packed.zip)["submission.csv"]


@pytest.mark.slow
def test_a_second_run_sh_waits_for_the_first(bundler: Bundler, tmp_path: Path) -> None:
    packed = bundler.package("draws", "--set", "pause=0.15")
    code = unpacked(packed.zip, tmp_path)
    runs = Machine(tmp_path / "elsewhere")
    one = _run_sh(code, _prefixes(bundler), tmp_path / "one.csv", tmp_path)
    (folder,) = wait_until(
        lambda: [run for run in runs.folders() if run.store.exists() and last_event(run, "supervisor")]
    )
    # On a busy machine, the first run would end before the second command has read its input.
    supervisor = psutil.Process(int((last_event(folder, "supervisor") or {})["pid"]))
    supervisor.suspend()
    try:
        other = _run_sh(code, _prefixes(bundler), tmp_path / "other.csv", tmp_path)
        assert other.stderr is not None
        assert f"run {folder.id} is already running" in other.stderr.readline()
    finally:
        supervisor.resume()
    for process in (one, other):
        process.communicate(timeout=120)
        assert process.returncode == 0
    assert len(runs.folders()) == 1
    assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "other.csv").read_bytes()


@pytest.mark.slow
def test_the_guesses_of_a_failed_attack_are_written(bundler: Bundler, tmp_path: Path) -> None:
    packed = bundler.package("misbehaving", "--set", "action=raises", accept=("ended",), code=1)
    unpacked(packed.zip, tmp_path)
    other, _ = _rerun(bundler, tmp_path, code=1)
    assert (tmp_path / "out.csv").read_bytes() == files_of(packed.zip)["submission.csv"]
    assert RunFolder(other.folders()[0].path).submission.exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("code/spec.json", b"{}"), "spec.json: attack: is required"),
        (("code/attack/draws.py", b"x = 1\n"), "draws"),
        (("code/attack/draws.py", None), "draws"),
    ],
)
def test_code_that_contradicts_its_spec_is_refused(
    bundler: Bundler, draws: Packed, tmp_path: Path, change: tuple[str, bytes | None], words: str
) -> None:
    unpacked(draws.zip, tmp_path)
    name, content = change
    (tmp_path / name).unlink()
    if content is not None:
        (tmp_path / name).write_bytes(content)
    other, done = _rerun(bundler, tmp_path, code=1)
    assert words in done.stderr and "internal error" not in done.stderr
    assert other.folders() == []


@pytest.mark.slow
def test_invalid_training_rows_are_refused(bundler: Bundler, tmp_path: Path) -> None:
    code = unpacked(bundler.package("stages").zip, tmp_path)
    content = (code / "train.npz").read_bytes()
    for damaged in (b"", content[: len(content) // 2], content.replace(b"prefixes.npy", b"prefixed.npy"), b"\x93NUMPY"):
        (code / "train.npz").write_bytes(damaged)
        error = _rerun(bundler, tmp_path, code=1)[1].stderr
        assert "train.npz: " in error and "internal error" not in error


@pytest.mark.parametrize(
    ("out", "words"),
    [
        ("absent/out.csv", "no such directory: absent"),
        ("scores.csv", "scores.csv is the name of the scores. Name the submission differently"),
        ("taken", "taken is a directory"),
    ],
)
def test_an_invalid_output_path_is_refused_before_the_run(
    bundler: Bundler, draws: Packed, tmp_path: Path, out: str, words: str
) -> None:
    unpacked(draws.zip, tmp_path)
    (tmp_path / "elsewhere" / "taken").mkdir(parents=True)
    other, done = _rerun(bundler, tmp_path, "--out", out, code=1)
    assert words in done.stderr and other.folders() == []
