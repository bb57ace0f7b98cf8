"""Real output has the keys and types that docs/reference/json.md lists."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.audits.registry import AUDITS
from harness.cli.output import SCHEMA_VERSION
from harness.core.rounds import load_round
from tests.records import Recorded, recorded_run
from tests.reference.objects import Section
from tests.reference.printed import SECTIONS, faults_of, section_named
from tests.unit.analysis.swept import make_sweep, record
from tests.unit.cli.command_line import CommandLine
from tests.unit.cli.test_app import commands
from tests.unit.cli.test_run_records import make_tuning


def check(printed: Mapping[str, Any], heading: str) -> None:
    """Assert that an object has the keys and types of a section, and a version."""
    assert printed["schema_version"] == SCHEMA_VERSION
    assert faults_of(printed, section_named(heading)) == []


@pytest.fixture
def runs(home: Path) -> list[Recorded]:
    """Two finished runs of one round."""
    recorded = []
    for id_, solved in (("aaaa-one", 3), ("bbbb-two", 5)):
        run = recorded_run(home, id_=id_)
        batch = run.batch("all/0/0")
        run.guess(batch, [(example, example < solved, -float(example)) for example in range(8)])
        with run.store.transaction():
            run.store.add_point(spent=1.0, guesses=8, rows=8, solved=solved, wrong=8 - solved, recall=solved / 16)
        run.supervised_by(1)
        run.event("phase", phase="finished", reason="")
        run.folder.log.write_text("a line\n")
        recorded.append(run)
    return recorded


def test_every_command_has_a_section() -> None:
    headings = [section.heading for section in SECTIONS]
    names = {path.removeprefix("harness ") for path, _ in commands()}
    missing = {name for name in names if not any(re.match(rf"`harness {name}[ `]", heading) for heading in headings)}
    print_a_run = {"demo", "watch", "stop", "resume", "bundle rerun"}
    assert missing == print_a_run | {"bundle code"} | {f"audit {name}" for name in AUDITS}


def test_the_objects_of_runs(harness: CommandLine, runs: list[Recorded], home: Path) -> None:
    check(harness("watch", "aaaa", "--json").json, "Run")
    check(harness("stop", "aaaa", "--json").json, "Run")
    check(harness("show", "aaaa", "--json").json, "`harness show RUN`")
    check(harness("show", "aaaa", "--example", "1", "--json").json, "`harness show RUN --example ID`")
    check(harness("list", "runs", "--json").json, "`harness list runs`")
    check(harness("list", "audits", "--json").json, "`harness list audits`")
    check(harness("show", "aaaa", "--log", "--json").json, "`harness show RUN --log`")
    check(harness("runs", "note", "aaaa", "text", "--json").json, "`harness runs note`")
    check(harness("runs", "tag", "aaaa", "good", "--json").json, "`harness runs tag`")
    check(harness("list", "queue", "--json").json, "`harness list queue`")
    check(harness("export", "aaaa", "--json").json, "`harness export`")
    check(harness("report", "aaaa", "--json").json, "`harness report`")
    check(harness("score", "aaaa", "--json").json, "`harness score`")
    check(harness("compare", "aaaa", "bbbb", "--json").json, "`harness compare`")
    Path("wrong.csv").write_text("no header\n")
    check(harness("score", "wrong.csv", "--round", "small.toml", "--json").json, "`harness score` without answers")
    check(harness("bundle", "create", "aaaa", "--check", "--json").json, "`harness bundle create --check`")
    check(harness("runs", "rm", "aaaa", "bbbb", "--json").json, "`harness runs rm`")
    check(harness("list", "deleted", "--json").json, "`harness list deleted`")
    check(harness("runs", "restore", "aaaa", "--json").json, "`harness runs restore`")


def test_the_objects_of_attacks_and_tunings(harness: CommandLine, home: Path) -> None:
    shown = harness("show", "sampling", "--json").json
    check(shown, "`harness show ATTACK`")
    check(harness("list", "attacks", "--json").json, "`harness list attacks`")
    check(harness("new", "attack", "mine", "--json").json, "`harness new attack`")
    check(harness("run", "lookup", "--dry-run", "--json").json, "`harness run --dry-run`")
    make_tuning(attack="sampling")
    check(harness("show", "tttt", "--json").json, "`harness tune`")
    check(harness("list", "tunings", "--json").json, "`harness list tunings`")


def test_the_objects_of_sweeps(harness: CommandLine, home: Path) -> None:
    sweep = make_sweep()
    record(home, sweep.runs[0], range(4))
    record(home, sweep.runs[1], range(9))
    shown = harness("show", sweep.id, "--json").json
    check(shown, "`harness show SWEEP`")
    assert shown["rows"] and len(shown["differences"]) == 1
    check(harness("list", "sweeps", "--json").json, "`harness list sweeps`")
    file = home.parent / "sweep.toml"
    file.write_text('attacks = ["lookup"]\nlimit = 5\n')
    check(harness("sweep", str(file), "--dry-run", "--json").json, "`harness sweep --dry-run`")
    check(harness("sweep", str(file), "--ray", "none", "--json").json, "`harness sweep`")


def test_the_objects_of_rounds_and_data(harness: CommandLine, home: Path) -> None:
    recorded_run(home)
    check(harness("list", "rounds", "--json").json, "`harness list rounds`")
    for round_ in ("small.toml", "satml-test"):
        check(harness("show", round_, "--json").json, "`harness show ROUND`")
        check(harness("data", "status", round_, "--json").json, "`harness data status`")
    check(harness("data", "status", "--json").json, "`harness data status` without a round")
    check(harness("data", "overlap", "small.toml", "--json").json, "`harness data overlap`")
    empty = home / "empty"
    empty.mkdir()
    check(harness("data", "fetch", "satml", "--from", str(empty), "--json").json, "`harness data fetch`")
    check(harness("data", "example", "example", "--json").json, "`harness data example`")


def test_the_object_of_doctor(harness: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    from harness.cli import doctor

    monkeypatch.setattr(doctor, "findings", lambda: [doctor.Finding("memory", "much")])
    check(harness("doctor", "--json").json, "`harness doctor`")


def test_the_objects_of_bundles(harness: CommandLine, home: Path) -> None:
    round_ = load_round("demo")
    code = harness("bundle", "code", "lookup", "--round", round_.name, "--json").json
    check(code, "`harness bundle create`")
    zip_ = Path(code["bundle"])
    verified = harness("bundle", "verify", str(zip_), "--frozen", str(zip_), "--json").json
    check(verified, "`harness bundle verify`")
    check(harness("bundle", "rank", str(zip_.parent), "--round", "demo", "--json").json, "`harness bundle rank`")


def test_the_object_of_a_measurement(harness: CommandLine, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from harness.engine import speed

    monkeypatch.setattr(speed, "measure", lambda *_, **__: [speed.Speed(speed.REFERENCE, "auto", (1.0, 2.0))])
    check(
        harness("doctor", "--bench", "--target", "demo-tiny", "--device", "cpu", "--json").json,
        "`harness doctor --bench`",
    )


def test_printed_json_is_valid_and_tells_infinite_from_missing(capsys: pytest.CaptureFixture[str]) -> None:
    from harness.cli.output import print_json

    print_json({"missing": float(np.nan), "impossible": [-np.inf], "most": {"x": np.inf}})
    printed = json.loads(capsys.readouterr().out, parse_constant=lambda name: pytest.fail(name))
    assert (printed["missing"], printed["impossible"], printed["most"]) == (None, ["-Infinity"], {"x": "Infinity"})


def test_an_unlisted_key_a_missing_key_and_another_type_are_faults() -> None:
    note = section_named("`harness runs note`")
    assert faults_of({"run": "aaaa", "note": 3, "text": ""}, note) == [
        "text is not listed",
        "note: 3 is not of type string",
    ]
    assert faults_of({"note": ""}, note) == ["run is missing"]
    queue = section_named("`harness list queue`")
    assert "queue: id is missing" in faults_of({"queue": [{}]}, queue)


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.heading)
def test_every_key_has_a_meaning(section: Section) -> None:
    assert [key.name for key in section.keys if not key.meaning] == []
