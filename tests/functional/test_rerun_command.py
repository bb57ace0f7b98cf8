"""`harness rerun` and run.sh: the same submission from the code alone, whole or in pieces."""

import csv
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from harness.runs.folder import RunFolder
from tests.functional.machine import (
    EXAMPLES,
    ROOT,
    Machine,
    guess_count,
    homes,
    kill_supervisor,
    processes_that_name,
    wait_until,
)
from tests.functional.workshop import SETTLED, Packed, Workshop, files_of
from tests.tiers import first_is_fast


def _code_of(bundle: Path, folder: Path) -> Path:
    """The folder code/ of a bundle, unpacked into `folder`, with the round's prefixes beside it."""
    for name, content in files_of(bundle).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder / "code"


def _prefixes(workshop: Workshop) -> str:
    return str(workshop.machine.folder / f"prefix-{EXAMPLES}.npy")


def _elsewhere(folder: Path, **environment: str) -> Machine:
    """Another machine, which has nothing of the round."""
    (folder / "elsewhere").mkdir(exist_ok=True)
    return Machine(folder / "elsewhere", environment)


@pytest.mark.parametrize("form", first_is_fast(["npy", "npz", "csv"]))
def test_prefixes_in_each_form_give_the_same_submission(
    workshop: Workshop, drawn: Packed, tmp_path: Path, form: str
) -> None:
    code, there = _code_of(drawn.zip, tmp_path), _elsewhere(tmp_path)
    prefixes = np.load(_prefixes(workshop))
    file = tmp_path / f"p.{form}"
    if form == "csv":
        file.write_text("".join(f'{id_},"{row}"\n' for id_, row in enumerate(prefixes.tolist())))
    else:
        np.save(file, prefixes) if form == "npy" else np.savez(file, prefixes=prefixes.astype(np.int64))
    done = there.run("rerun", str(code), str(file), "--out", str(tmp_path / "out.csv"))
    assert done.stdout.splitlines()[-1] == str(tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_bytes() == files_of(drawn.zip)["submission.csv"]


@pytest.mark.slow
def test_each_row_has_its_score_beside_it(workshop: Workshop, drawn: Packed, tmp_path: Path) -> None:
    code = _code_of(drawn.zip, tmp_path)
    _elsewhere(tmp_path).run("rerun", str(code), _prefixes(workshop), "--out", str(tmp_path / "out.csv"))
    rows, scores = (list(csv.reader((tmp_path / name).open())) for name in ("out.csv", "scores.csv"))
    assert scores[0] == ["Example ID", "Score"] and [row[0] for row in rows[1:]] == [row[0] for row in scores[1:]]
    values = [float(score) for _, score in scores[1:]]
    assert values == sorted(values, reverse=True)


@pytest.mark.slow
def test_fewer_prefixes_give_a_submission_for_these(workshop: Workshop, drawn: Packed, tmp_path: Path) -> None:
    code = _code_of(drawn.zip, tmp_path)
    np.save(tmp_path / "few.npy", np.load(_prefixes(workshop))[:5])
    _elsewhere(tmp_path).run("rerun", str(code), str(tmp_path / "few.npy"), "--out", str(tmp_path / "out.csv"))
    ids = {row[0] for row in list(csv.reader((tmp_path / "out.csv").open()))[1:]}
    assert ids == {"0", "1", "2", "3", "4"}


@pytest.mark.slow
def test_a_title_of_any_characters_does_no_harm(workshop: Workshop, tmp_path: Path) -> None:
    round_ = workshop.machine.folder / "titled.toml"
    title = "Größe 😀 \\u0022 \\u007f \\\\ \\t end"
    round_.write_text((workshop.machine.folder / "round.toml").read_text().replace("A small round", title))
    summary = workshop.machine.attack("draws", *SETTLED, round_="titled.toml")
    workshop.machine.run("package", summary["id"], "--out", str(tmp_path / "x.zip"))
    code = _code_of(tmp_path / "x.zip", tmp_path)
    _elsewhere(tmp_path).run("rerun", str(code), _prefixes(workshop), "--out", str(tmp_path / "out.csv"))
    assert (tmp_path / "out.csv").read_bytes() == files_of(tmp_path / "x.zip")["submission.csv"]


def _run_sh(code: Path, prefixes: str, out: Path, folder: Path) -> "subprocess.Popen[str]":
    """`bash run.sh` as its README has it, with the wheel unpacked in place of an installed one."""
    site = folder / "site"
    if not site.exists():
        (wheel,) = code.glob("*.whl")
        shutil.unpack_archive(wheel, site, "zip")
    (folder / "elsewhere").mkdir(exist_ok=True)
    import sys

    environment = os.environ | homes(folder / "elsewhere") | {"PYTHONPATH": str(site), "PYTHON": sys.executable}
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(["bash", str(code / "run.sh"), prefixes, str(out)], cwd=folder, env=environment, **streams)


@pytest.mark.slow
def test_run_sh_killed_in_the_middle_goes_on_and_writes_the_same_bytes(workshop: Workshop, tmp_path: Path) -> None:
    packed = workshop.packed("draws", "--set", "pause=0.15")
    code, out = _code_of(packed.zip, tmp_path), tmp_path / "out.csv"
    first = _run_sh(code, _prefixes(workshop), out, tmp_path)
    runs = Machine(tmp_path / "elsewhere")
    (folder,) = wait_until(lambda: [one for one in runs.folders() if one.store.exists()])
    wait_until(lambda: guess_count(folder) > 40)
    first.kill()
    kill_supervisor(folder)
    first.communicate()
    assert not out.exists() and not (tmp_path / "scores.csv").exists()
    wait_until(lambda: not processes_that_name(str(folder.scratch)))
    again = _run_sh(code, _prefixes(workshop), out, tmp_path)
    _, told = again.communicate(timeout=120)
    assert again.returncode == 0 and f"continuing run {folder.id}" in told
    assert [one.id for one in runs.folders()] == [folder.id]
    assert out.read_bytes() == files_of(packed.zip)["submission.csv"]


@pytest.mark.slow
def test_a_second_run_sh_on_the_same_prefixes_follows_the_first(workshop: Workshop, tmp_path: Path) -> None:
    packed = workshop.packed("draws", "--set", "pause=0.15")
    code = _code_of(packed.zip, tmp_path)
    runs = Machine(tmp_path / "elsewhere")
    one = _run_sh(code, _prefixes(workshop), tmp_path / "one.csv", tmp_path)
    wait_until(lambda: [run for run in runs.folders() if run.store.exists()])
    other = _run_sh(code, _prefixes(workshop), tmp_path / "other.csv", tmp_path)
    for process in (one, other):
        process.communicate(timeout=120)
        assert process.returncode == 0
    assert len(runs.folders()) == 1
    assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "other.csv").read_bytes()


@pytest.mark.slow
def test_what_was_found_is_written_also_when_the_attack_fails(workshop: Workshop, tmp_path: Path) -> None:
    packed = workshop.packed("misbehaving", "--set", "deed=raises", accept=("ended",), code=1)
    code = _code_of(packed.zip, tmp_path)
    there = _elsewhere(tmp_path)
    there.run("rerun", str(code), _prefixes(workshop), "--out", str(tmp_path / "out.csv"), code=1)
    assert (tmp_path / "out.csv").read_bytes() == files_of(packed.zip)["submission.csv"]
    assert RunFolder(there.folders()[0].path).submission.exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("code/spec.json", b"{}"), "spec.json: attack: Field required"),
        (("code/spec.json", None), "spec.json: no such file"),
        (("code/round.toml", b"prefix_length = 'x'"), "round.toml: not the rules of a round"),
        (("code/round.toml", b"[" * 100_000), "round.toml: not a TOML file"),
        (("code/attack/draws.py", b"x = 1\n"), "draws"),
        (("code/attack/draws.py", None), "draws"),
    ],
)
def test_code_that_is_not_what_its_spec_says_is_refused(
    workshop: Workshop, drawn: Packed, tmp_path: Path, change: tuple[str, bytes | None], words: str
) -> None:
    code = _code_of(drawn.zip, tmp_path)
    name, content = change
    (tmp_path / name).unlink()
    if content is not None:
        (tmp_path / name).write_bytes(content)
    there = _elsewhere(tmp_path)
    told = there.run("rerun", str(code), _prefixes(workshop), "--out", str(tmp_path / "out.csv"), code=1).stderr
    assert words in told and "internal error" not in told
    assert there.folders() == []


@pytest.mark.slow
def test_training_rows_that_cannot_be_read_are_told(workshop: Workshop, tmp_path: Path) -> None:
    code = _code_of(workshop.packed("stages").zip, tmp_path)
    whole = (code / "train.npz").read_bytes()
    for content in (b"", whole[: len(whole) // 2], whole.replace(b"prefixes.npy", b"prefixed.npy"), b"\x93NUMPY"):
        (code / "train.npz").write_bytes(content)
        told = _elsewhere(tmp_path).run("rerun", str(code), _prefixes(workshop), code=1).stderr
        assert "train.npz: " in told and "internal error" not in told


@pytest.mark.parametrize(
    ("out", "words"),
    [
        ("absent/out.csv", "absent: no such directory"),
        ("scores.csv", "scores.csv is the name of the scores. Name the submission differently"),
        ("taken", "taken is a directory"),
    ],
)
def test_a_place_where_nothing_can_be_written_is_told_before_anything_runs(
    workshop: Workshop, drawn: Packed, tmp_path: Path, out: str, words: str
) -> None:
    code, there = _code_of(drawn.zip, tmp_path), _elsewhere(tmp_path)
    (there.folder / "taken").mkdir()
    told = there.run("rerun", str(code), _prefixes(workshop), "--out", out, code=1).stderr
    assert words in told and there.folders() == []


def test_the_checkout_is_not_what_run_sh_runs(drawn: Packed, tmp_path: Path) -> None:
    code = _code_of(drawn.zip, tmp_path)
    assert str(ROOT).encode() not in (code / "run.sh").read_bytes()
