"""The ranking of bundles, and its page."""

import csv
import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.core.arrays import tokens_sha256
from harness.core.errors import HarnessError
from harness.core.rounds import Round
from harness.core.submission import submission_bytes, write_submission
from harness.core.times import parse_moment
from harness.submit.archive import archive_bytes
from harness.submit.judging import JudgingData
from harness.submit.leaderboard import Arrival, Entry, OrganizerRecords, leaderboard, leaderboard_csv, read_arrivals
from harness.submit.manifest import MANIFEST, Manifest, hashes_of
from tests.unit.submit.ended import run_record

PREFIXES = np.arange(40, dtype=np.uint16).reshape(20, 2)
ANSWERS = PREFIXES + 1
ROUND = Round(
    name="r",
    title="",
    prefix_file=Path("prefixes.npy"),
    prefix_length=2,
    suffix_length=2,
    vocabulary=100,
    error_cap=3,
    row_cap=100,
    target="none",
)
VERDICT = {"bundle": "b", "kind": "submission", "attack": "a", "round": "r", "findings": []}
SPEC = {
    "attack": {
        "name": "a",
        "origin": "bundle",
        "file": "a.py",
        "sha256": "0",
        "summary": "",
        "reference": "",
        "control": False,
        "uses_target": False,
        "reference_model": "",
        "guesses_per_example": 1,
        "requires": [],
        "models": [],
    },
    "params": {},
    "paths": {},
    "seed": 0,
    "budget": 60.0,
    "target": None,
    "reference": None,
    "trains": False,
    "versions": {"python": "3.11.7"},
}
HERE = {"processor": "this", "cores": 2, "gpus": []}


def _judging(answers: Any = ANSWERS) -> JudgingData:
    return JudgingData(ROUND, PREFIXES, answers, None)


def _code(spec: Mapping[str, Any] = SPEC, **files: bytes) -> dict[str, bytes]:
    code = {"spec.json": json.dumps(spec).encode(), "round.toml": b'name = "r"\ntitle = "t"\n', **files}
    return {f"code/{name}": content for name, content in code.items()}


def _bundle(
    folder: Path,
    name: str,
    solved: int,
    *,
    hardware: dict[str, Any] = HERE,
    seconds: float = 10,
    code: Mapping[str, bytes] | None = None,
    batch_sizes: Mapping[str, int] | None = None,
) -> Path:
    suffixes = ANSWERS.copy()
    suffixes[solved:] = 0
    files = {
        "submission.csv": submission_bytes(np.arange(20), suffixes),
        "team.toml": f'[[members]]\nname = "{name}"\n'.encode(),
    }
    files |= _code() if code is None else code
    manifest = Manifest(
        kind="submission",
        harness="1",
        data_sha256={},
        code_bundle_sha256=None,
        marks=[],
        run=run_record(spent_s=seconds, hardware=hardware, batch_sizes=batch_sizes or {}),
        prefixes_sha256=tokens_sha256(PREFIXES, 100),
        files=hashes_of(files),
    )
    (path := folder / f"{name}.zip").write_bytes(archive_bytes(files | {MANIFEST: manifest.json_bytes()}))
    return path


def _ranked(
    bundles: list[Path], judging: JudgingData | None = None, records: OrganizerRecords | None = None
) -> list[Entry]:
    return leaderboard(bundles, judging or _judging(), lambda name, number, of: None, records or OrganizerRecords())


@given(st.lists(st.integers(0, 20), min_size=1, max_size=5))
@settings(deadline=None, max_examples=8)
def test_places_follow_recall_and_equal_recall_shares_a_place(tmp_path_factory, solved: list[int]) -> None:
    folder = tmp_path_factory.mktemp("bundles")
    entries = _ranked([_bundle(folder, f"b{number}", count) for number, count in enumerate(solved)])
    recalls = [entry.recall_at_cap for entry in entries]
    assert recalls == sorted((count / 20 for count in solved), reverse=True)
    assert [entry.place for entry in entries] == [1 + sum(other > one for other in recalls) for one in recalls]
    assert all(entry.ties for entry in entries[1:] if entry.recall_at_cap == entries[0].recall_at_cap)
    assert entries[0].difference is None


def test_times_are_relative_to_the_leader_on_equal_hardware(tmp_path: Path) -> None:
    first = _bundle(tmp_path, "first", 20, seconds=10)
    same = _bundle(tmp_path, "same", 10, seconds=25)
    other = _bundle(tmp_path, "other", 5, seconds=5, hardware=HERE | {"gpus": ["H200"]})
    entries = {entry.bundle: entry for entry in _ranked([first, same, other])}
    assert entries["same.zip"].time_of_leader == 2.5 and entries["first.zip"].time_of_leader is None
    assert entries["other.zip"].time_of_leader is None and entries["other.zip"].hardware == "this, 2 cores, H200"


def test_verified_time_and_hardware_replace_the_team_s(tmp_path: Path) -> None:
    bundle = _bundle(tmp_path, "one", 3, seconds=10)
    verdict = {"outcome": "reproduced", "sentence": "x", "elapsed_s": 99.0, "hardware": HERE | {"processor": "judge's"}}
    sha256 = hashlib.sha256(bundle.read_bytes()).hexdigest()
    (tmp_path / "one.verdict.json").write_text(json.dumps(VERDICT | verdict | {"bundle_sha256": sha256}))
    (entry,) = _ranked([bundle])
    assert (entry.elapsed_s, entry.hardware, entry.verified) == (99.0, "judge's, 2 cores, no GPU", "reproduced")


def _write_verdict(bundle: Path, outcome: str, produced: int | None = None) -> None:
    """Write a verdict, and optionally a produced submission that solves `produced` examples."""
    verdict: dict[str, Any] = {"outcome": outcome, "sentence": "a reason", "elapsed_s": 1.0, "hardware": HERE}
    verdict["bundle_sha256"] = hashlib.sha256(bundle.read_bytes()).hexdigest()
    if produced is not None:
        suffixes = ANSWERS.copy()
        suffixes[produced:] = 0
        path = bundle.with_name(f"{bundle.stem}.produced.csv")
        write_submission(path, np.arange(20), suffixes)
        verdict["produced_sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
        verdict["scores"] = {"submitted": {"recall_at_cap": 1.0}}
    bundle.with_name(f"{bundle.stem}.verdict.json").write_text(json.dumps(VERDICT | verdict))


@pytest.mark.parametrize("outcome", ["measured", "reproduced_up_to_ties"])
def test_the_produced_submission_is_ranked(tmp_path: Path, outcome: str) -> None:
    claims_all, honest = _bundle(tmp_path, "claims", 20), _bundle(tmp_path, "honest", 10)
    _write_verdict(claims_all, outcome, produced=4)
    first, second = _ranked([claims_all, honest])
    assert (first.bundle, first.recall_at_cap) == ("honest.zip", 0.5)
    assert (second.bundle, second.recall_at_cap) == ("claims.zip", 0.2)
    assert second.verified == ("measured, 1.000 submitted" if outcome == "measured" else "reproduced up to ties")


def test_refused_bundles_and_changed_results_are_not_ranked(tmp_path: Path) -> None:
    refused, altered = _bundle(tmp_path, "refused", 20), _bundle(tmp_path, "altered", 20)
    _write_verdict(refused, "refused")
    _write_verdict(altered, "measured", produced=4)
    (tmp_path / "altered.produced.csv").write_bytes(b"Example ID,Suffix Guess\n")
    first, second = _ranked([refused, altered])
    assert first.unranked.startswith("altered.produced.csv, which its code produced, is missing or was changed")
    assert second.unranked == "verification refused a bundle in the name of refused: a reason"


def test_a_verdict_for_other_bytes_is_ignored_and_a_damaged_one_is_named(tmp_path: Path) -> None:
    changed, damaged = _bundle(tmp_path, "changed", 3), _bundle(tmp_path, "damaged", 2)
    _write_verdict(changed, "refused")
    _bundle(tmp_path, "changed", 4)
    (tmp_path / "damaged.verdict.json").write_text("{")
    first, second = _ranked([changed, damaged])
    assert (first.place, first.verified) == (1, "not verified") and "not a verdict" in second.unranked


def test_a_blind_round_has_no_places(tmp_path: Path) -> None:
    (entry,) = _ranked([_bundle(tmp_path, "one", 3)], _judging(None))
    assert (entry.place, entry.recall_at_cap, entry.unranked) == (
        None,
        None,
        "the round is blind: its answers are not known yet",
    )


def test_unreadable_bundles_come_last(tmp_path: Path) -> None:
    (bad := tmp_path / "a-bad.zip").write_bytes(b"PK")
    entries = _ranked([bad, _bundle(tmp_path, "none", 0)])
    assert [entry.place for entry in entries] == [1, None] and "not a valid zip" in entries[1].unranked


def test_each_number_has_a_csv_cell_of_its_own(tmp_path: Path) -> None:
    """Negative differences are numbers, without the apostrophe of a text that could be a formula."""
    bundles = [_bundle(tmp_path, name, solved) for name, solved in (("best", 9), ("worse", 3), ("none", 0))]
    entries = _ranked([*bundles, tmp_path / "absent.zip"])
    assert not entries[2].ties and entries[2].difference_interval is not None and entries[2].difference_interval[1] < 0
    rows = list(csv.DictReader(io.StringIO(leaderboard_csv(entries))))
    assert min(float(row["difference"] or 0) for row in rows) < 0
    for entry, row in zip(entries, rows, strict=True):
        cells = iter(row.values())
        for field in fields(Entry):
            if field.name in ("checks", "curve"):
                continue
            value = getattr(entry, field.name)
            if field.name.endswith("_interval"):
                assert [next(cells), next(cells)] == (["", ""] if value is None else [str(bound) for bound in value])
            else:
                cell = next(cells)
                assert not isinstance(value, int | float) or isinstance(value, bool) or float(cell) == value
        assert next(cells, None) is None and None not in row
        assert entry.curve is None or entry.curve.recall.max() >= (entry.recall_at_cap or 0.0)
        assert row["recall_interval_low"] <= row["recall_at_cap"] <= row["recall_interval_high"]


PATCH = b"--- a/run.sh\n+++ b/run.sh\n@@ -1 +1 @@\n-exit 0\n+exit 1\n"


def test_only_frozen_code_is_ranked_with_its_approved_patch(tmp_path: Path) -> None:
    (frozen := tmp_path / "frozen").mkdir()
    before, after = (_code(**{"run.sh": script}) for script in (b"exit 0\n", b"exit 1\n"))
    names = {"same": before, "changed": after, "patched": after, "absent": before, "added": {**before, "code/x": b""}}
    bundles = [_bundle(tmp_path, name, 4, code=code) for name, code in names.items()]
    for name in names.keys() - {"absent"}:
        (frozen / f"{name}.zip").write_bytes(archive_bytes(before))
    (frozen / "patched.patch").write_bytes(PATCH)
    _write_verdict(bundles[1], "reproduced")  # A verdict from before the comparison does not help.
    entries = {entry.bundle: entry for entry in _ranked(bundles, records=OrganizerRecords(frozen))}
    assert [name for name, entry in entries.items() if entry.place] == ["patched.zip", "same.zip"]
    assert entries["same.zip"].patch == ""
    assert entries["patched.zip"].patch == f"1 file, 1 line added, 1 removed, {len(PATCH)} bytes"
    assert entries["changed.zip"].unranked == "1 file differs from the frozen code: run.sh"
    assert entries["added.zip"].unranked == "1 file differs from the frozen code: x"
    assert entries["absent.zip"].unranked == f"no such file: {frozen / 'absent.zip'}. Check the path"
    (frozen / "same.patch").write_bytes(b"nothing")
    (frozen / "patched.patch").write_bytes(PATCH * 2)
    entries = {entry.bundle: entry for entry in _ranked(bundles, records=OrganizerRecords(frozen))}
    assert entries["same.zip"].place == 1 and "patched.patch, line 7: a second" in entries["patched.zip"].unranked


def test_answers_among_the_batch_sizes_of_frozen_code_are_not_ranked(tmp_path: Path) -> None:
    (frozen := tmp_path / "frozen").mkdir()
    smuggled = {f"{token}": 1 for token in range(900)}
    bundle = _bundle(tmp_path, "smuggler", 20, batch_sizes=smuggled)
    honest = _bundle(tmp_path, "honest", 4, batch_sizes={"guess/0": 40, "guess/1": 80})
    for path in (bundle, honest):
        (frozen / path.name).write_bytes(archive_bytes(_code()))
    ranked, refused = _ranked([bundle, honest], records=OrganizerRecords(frozen))
    assert ranked.bundle == "honest.zip" and "bytes of batch sizes to the frozen code" in refused.unranked


@pytest.mark.parametrize("named", ["models", "reference", "parameter", "list"])
def test_a_bundle_that_names_a_forbidden_model_is_not_ranked(tmp_path: Path, named: str) -> None:
    model = "Owner/Big-1b"
    reference = {"id": model, "revision": "main", "commit": None, "weights_sha256": "0", "is_folder": False}
    reference |= {"device": "cpu", "shards": [], "dtype": "auto", "threads": 1}
    changes = {
        "models": {"attack": SPEC["attack"] | {"models": ["other", model]}},  # type: ignore[operator]
        "reference": {"reference": reference},
        "parameter": {"params": {"helper": f" {model}", "rate": 0.5}},
        "list": {"params": {"helpers": ["gpt2", model]}},
    }
    bundle = _bundle(tmp_path, "one", 4, code=_code(SPEC | changes[named]))
    (entry,) = _ranked([bundle])
    assert entry.place == 1
    judging = replace(_judging(), round=ROUND.model_copy(update={"forbidden_models": ("owner/big-*",)}))
    (entry,) = _ranked([bundle], judging)
    assert entry.place is None and entry.unranked.startswith("the round forbids the model ")


def test_late_bundles_and_late_code_are_not_ranked(tmp_path: Path) -> None:
    (frozen := tmp_path / "frozen").mkdir()
    at = [datetime(2023, 1, day, 12, tzinfo=UTC) for day in (20, 21, 22, 27, 28, 29)]
    arrivals = {
        "in-time.zip": Arrival(at[4].replace(hour=11, minute=59, second=59), at[0]),
        "late.zip": Arrival(at[4], at[0]),
        "late-code.zip": Arrival(at[3], at[1]),
        "no-code.zip": Arrival(at[3], None),
    }
    bundles = [_bundle(tmp_path, name.removesuffix(".zip"), 4) for name in (*arrivals, "unlisted.zip")]
    for bundle in bundles:
        (frozen / bundle.name).write_bytes(archive_bytes(_code()))
    rules = {"code_deadline": parse_moment("2023-01-20"), "closes": parse_moment("2023-01-27")}
    judging = replace(_judging(), round=ROUND.model_copy(update=rules))
    entries = {entry.bundle: entry for entry in _ranked(bundles, judging, OrganizerRecords(frozen, arrivals))}
    assert {name: entry.unranked for name, entry in entries.items()} == {
        "in-time.zip": "",
        "late-code.zip": "not in time: its frozen code arrived at 2023-01-21 12:00:00 UTC, due by 2023-01-20 AoE",
        "late.zip": "not in time: the bundle arrived at 2023-01-28 12:00:00 UTC, due by 2023-01-27 AoE",
        "no-code.zip": "not in time: its frozen code arrived at an unknown time, due by 2023-01-20 AoE",
        "unlisted.zip": "the file of --received does not list this bundle. Add a line for it",
    }
    without_code = _ranked(bundles, judging, OrganizerRecords(None, arrivals))
    assert {entry.bundle for entry in without_code if entry.place} == {"in-time.zip", "late-code.zip", "no-code.zip"}


def test_a_list_of_arrivals_is_read(tmp_path: Path) -> None:
    path = tmp_path / "arrivals.csv"
    path.write_text(
        "\ufeffbundle,received,code_received\n a.zip , 2023-01-20T18:00Z,2023-01-01 00:00+01:00\n"
        '"b, c.zip",2023-01-20T18:00-12:00,\n\n'
    )
    six = datetime(2023, 1, 20, 18, tzinfo=UTC)
    assert read_arrivals(path) == {
        "a.zip": Arrival(six, datetime(2022, 12, 31, 23, tzinfo=UTC)),
        "b, c.zip": Arrival(six.replace(day=21, hour=6), None),
    }


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "no column bundle"),
        ("bundle;received\na.zip;2023-01-20T18:00Z\n", "line 1: no column bundle"),
        ("bundle,at\n", "line 1: no column received. The columns are bundle, received and code_received"),
        ("bundle,received\na.zip,2023-01-20\n", "line 2: '2023-01-20' is not a date with time and offset"),
        ("bundle,received\na.zip,2023-01-20T18:00\n", "line 2: '2023-01-20T18:00' is not"),
        ("bundle,received\na.zip\n", "line 2: '' is not a date"),
        ("bundle,received\na.zip,2023-01-20T18:00Z\n a.zip,2023-01-20T18:00Z\n", "line 3: a.zip occurs twice"),
        ("bundle,received\n" + "a" * 200_000 + ",x\n", "not valid CSV (field larger"),
        ("bundle,received\n" + "a" * (1 << 20), "larger than 1,048,576 bytes"),
    ],
)
def test_a_faulty_list_of_arrivals_is_refused_with_its_line(tmp_path: Path, text: str, fault: str) -> None:
    (path := tmp_path / "arrivals.csv").write_text(text)
    with pytest.raises(HarnessError) as refused:
        read_arrivals(path)
    assert str(refused.value).startswith(str(path)) and fault in str(refused.value)
