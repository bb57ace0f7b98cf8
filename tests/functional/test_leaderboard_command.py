"""`harness bundle rank`: the order of bundles, and reasons why one is not ranked."""

import csv
import io
import json
import re
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pytest

from tests.functional.bundler import OWN_ENVIRONMENT, Bundler, altered, files_of
from tests.functional.machine import EXAMPLES, Machine, write_round

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def entered(tmp_path_factory: pytest.TempPathFactory) -> Bundler:
    """A machine with four bundles in entries/: two equal ones solve half of the examples, one a quarter, one none."""
    machine = Machine(tmp_path_factory.mktemp("entered"))
    folder = machine.folder
    write_round(folder)
    (folder / "round.toml").write_text((folder / "round.toml").read_text() + "error_cap = 5\n")
    (folder / "description.md").write_text("# What is new\n\nNothing.\n")
    np.save(folder / "few.npy", np.load(folder / f"answer-{EXAMPLES}.npy")[:9])
    (folder / "entries").mkdir()
    for name, solved in (("half", 32), ("quarter", 16), ("none", 0)):
        run = machine.replayed(name, range(solved))
        (folder / "team.toml").write_text(f'name = "team {name}"\n[[members]]\nname = "A"\n')
        machine.run("bundle", "create", run.id, "--out", str(folder / "entries" / f"{name}.zip"))
    team = files_of(folder / "entries" / "half.zip")["team.toml"].replace(b"half", b"also half")
    altered(folder / "entries" / "half.zip", folder / "entries" / "also.zip", {"team.toml": team})
    return Bundler(machine)


def _ranked(bundler: Bundler, *options: str, folder: str = "entries") -> dict[str, dict[str, Any]]:
    result = bundler.machine.json("bundle", "rank", folder, *bundler.round, *options)
    return {entry["bundle"]: entry for entry in result["entries"]}


def _copy(bundler: Bundler, folder: Path) -> Path:
    """Return a copy of the four bundles."""
    return Path(shutil.copytree(bundler.machine.folder / "entries", folder / "entries"))


def test_csv_table_and_page_agree(entered: Bundler, tmp_path: Path) -> None:
    page = tmp_path / "board.html"
    output = entered.machine.run("bundle", "rank", "entries", *entered.round, "--csv", "-", "--html", str(page)).stdout
    rows = list(csv.DictReader(io.StringIO(output)))
    assert [row["team"] for row in rows] == ["team also half", "team half", "team quarter", "team none"]
    assert all(f'<td class="first">{row["team"]}</td>' in page.read_text() for row in rows)
    assert "<h1>2 bundles share the first place with Recall@5 0.500</h1>" in page.read_text()
    shown = entered.machine.run("bundle", "rank", "entries", *entered.round).stdout
    assert [line.split("team ")[1].split("  ")[0] for line in shown.splitlines()[1:]] == [
        *("also half", "half", "quarter", "none")
    ]


def test_the_page_links_the_verdicts(entered: Bundler, tmp_path: Path) -> None:
    folder, page = _copy(entered, tmp_path), tmp_path / "site" / "board.html"
    page.parent.mkdir()
    (folder / "quarter.zip").rename(folder / "javascript:x.zip")
    (folder / "late.zip").write_text("no zip")
    for name in ("half", "javascript:x", "late"):
        (folder / f"{name}.verdict.html").write_text("a verdict")
    entered.machine.run("bundle", "rank", str(folder), *entered.round, "--html", str(page))
    addresses = re.findall('href="([^"]*verdict[^"]*)"', page.read_text())
    assert len(addresses) == 3 and all(address.startswith("./") and ":" not in address for address in addresses)
    assert all((page.parent / unquote(address)).read_text() == "a verdict" for address in addresses)


def test_frozen_code_and_arrivals_decide_who_is_ranked(entered: Bundler, tmp_path: Path) -> None:
    folder, frozen = _copy(entered, tmp_path), tmp_path / "frozen"
    shutil.copytree(folder, frozen)
    altered(folder / "quarter.zip", folder / "quarter.zip", {"code/run.sh": b"exit 1\n"})
    (tmp_path / "arrivals.csv").write_text(
        "bundle,received,code_received\n"
        "half.zip,2023-01-28T11:00Z,2023-01-20T18:00+01:00\nnone.zip,2023-01-28T13:00Z,2023-01-20T18:00Z\n"
        "quarter.zip,2023-01-27T00:00Z,2023-01-20T18:00Z\ngone.zip,2023-01-27T00:00Z,2023-01-20T18:00Z\n"
    )
    ruled = entered.machine.folder / "ruled.toml"
    ruled.write_text(f'base = "{entered.round[1]}"\ncode_deadline = 2023-01-20\ncloses = 2023-01-27\n')
    command = ("bundle", "rank", str(folder), "--round", str(ruled))
    unchecked = entered.machine.run(*command).stderr
    assert "not checked without --frozen" in unchecked and "not checked without --received" in unchecked
    done = entered.machine.run(*command, "--frozen", str(frozen), "--received", str(tmp_path / "arrivals.csv"))
    assert "gone.zip: in the list of arrivals, but not in the directory" in done.stderr
    assert "not checked" not in done.stderr
    assert done.stdout.splitlines()[1].split()[:3] == ["1", "team", "half"]
    assert done.stdout.splitlines()[2:] == [
        "also.zip: not ranked: the file of --received does not list this bundle. Add a line for it",
        "none.zip: not ranked: not in time: the bundle arrived at 2023-01-28 13:00:00 UTC, due by 2023-01-27 AoE",
        "quarter.zip: not ranked: 1 file differs from the frozen code: run.sh",
    ]
    undated = ("bundle", "rank", str(folder), *entered.round, "--received", str(tmp_path / "arrivals.csv"))
    assert "small has no deadline" in entered.machine.run(*undated, code=2).stderr


def test_a_blind_round_is_scored_with_given_answers(entered: Bundler) -> None:
    folder = entered.machine.folder
    blind = (folder / "round.toml").read_text().replace(f'answer_file = "answer-{EXAMPLES}.npy"\n', "")
    (folder / "blind.toml").write_text(blind)
    on = ("--round", str(folder / "blind.toml"))
    answers = str(folder / f"answer-{EXAMPLES}.npy")
    after = entered.machine.json("bundle", "rank", "entries", *on, "--answers", answers)["entries"]
    assert after == list(_ranked(entered).values())


def test_verify_checks_bundles_without_a_verdict_and_continues_after_errors(entered: Bundler, tmp_path: Path) -> None:
    folder = _copy(entered, tmp_path)
    for name in ("also", "none"):
        (folder / f"{name}.zip").unlink()
    target = {"id": "elsewhere", "revision": "main", "commit": None, "weights_sha256": "0" * 64, "is_folder": True}
    spec = json.loads(files_of(folder / "half.zip")["code/spec.json"])
    spec["target"] = target | {"device": "cpu", "dtype": "auto", "threads": 1}
    astray = {"code/spec.json": json.dumps(spec).encode()}
    altered(folder / "half.zip", folder / "astray.zip", astray)
    entries = _ranked(entered, "--verify", *OWN_ENVIRONMENT, folder=str(folder))
    assert entries["half.zip"]["verified"] == entries["quarter.zip"]["verified"] == "reproduced"
    assert entries["half.zip"]["elapsed_s"] > 0 and entries["astray.zip"]["verified"] in ("not verified", "")
    verdict = folder / "half.verdict.json"
    at = verdict.stat().st_mtime_ns
    again = _ranked(entered, "--verify", *OWN_ENVIRONMENT, folder=str(folder))
    assert again == entries and verdict.stat().st_mtime_ns == at


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("absent",), 1, "no such directory: absent."),
        (("state",), 1, "state contains no bundles"),
        (("entries", "--html", "absent/board.html"), 1, "no such directory: absent"),
        (("entries", "--answers", "absent.npy"), 1, "no such file: absent.npy"),
        (("entries", "--answers", "few.npy"), 1, "9 answers for 64 prefixes"),
        (("entries", "--frozen", "absent"), 1, "no such directory: absent"),
        (("entries", "--received", "absent.csv"), 1, "no such file: absent.csv"),
        (("entries", "--verify"), 2, "no source to install the bundle's environment from"),
    ],
)
def test_invalid_arguments_are_refused(entered: Bundler, options: tuple[str, ...], code: int, words: str) -> None:
    error = entered.machine.run("bundle", "rank", *options, *entered.round, code=code).stderr
    assert words in " ".join(error.replace("│", " ").split()) and "internal error" not in error
