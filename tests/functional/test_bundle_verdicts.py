"""Each row changes a good bundle: `bundle verify` names the fault, and `bundle rank` gives the bundle no place."""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.functional.bundler import Bundler, Packed, altered, altered_files, altered_wheel, files_of, reason
from tests.tools.tiers import first_is_fast

SPEC, RULES, SOURCE, SUBMISSION = "code/spec.json", "code/round.toml", "code/attack/draws.py", "submission.csv"
Files = Mapping[str, bytes | None]
Change = Callable[[Packed], Files]
ENCODINGS = (b"# coding: utf-7", b"# vim: set fileencoding=utf-16 :", b"# coding: no-such-encoding")
RULE_VALUES = {"error_cap": 1000, "row_cap": 5, "vocabulary": 50256}


class Row(NamedTuple):
    """A change of a good bundle, and the check that refuses it with a sentence that contains `words`."""

    change: Change
    check: str
    words: str
    fields: Mapping[str, Any] = {}
    """Replaced fields of the manifest."""


def content(name: str, value: bytes | None) -> Change:
    """Return the change of a whole file. None removes it."""
    return lambda packed: {name: value}


def replaced(name: str, old: bytes, new: bytes) -> Change:
    """Return the change of every match of the pattern `old`, in which `^` is the start of a line."""
    return lambda packed: {name: re.sub(b"(?m)" + old, new, files_of(packed.zip)[name])}


def _keep_files(packed: Packed) -> Files:
    return {}


def _swap_rows(packed: Packed) -> Files:
    header, first, *rows, last = files_of(packed.zip)[SUBMISSION].splitlines(keepends=True)
    return {SUBMISSION: b"".join([header, last, *rows, first])}


def _name_attack(name: str) -> Change:
    def change(packed: Packed) -> Files:
        spec = json.loads(files_of(packed.zip)[SPEC])
        return {SPEC: json.dumps(spec | {"attack": spec["attack"] | {"name": name}}).encode()}

    return change


ROWS = {
    "swapped rows": Row(_swap_rows, "agreement", "the submissions differ from row 1 on: 0 of "),
    "another source": Row(content(SOURCE, b"raise SystemExit\n"), "code", f"{SOURCE} is missing, or is not the source"),
    "no fields in the spec": Row(content(SPEC, b"{}"), "code", f"{SPEC}: attack: is required"),
    "a field that occurs twice": Row(
        replaced(SPEC, b'"seed":', b'"seed": 7, "seed":'), "code", f"{SPEC}: the field 'seed' occurs twice"
    ),
    "an attack named by a path": Row(_name_attack("../x"), "code", f"{SPEC}: '../x' is not the name of an attack"),
    "a field more in the manifest": Row(
        _keep_files, "archive", "MANIFEST.json: attack: unknown field", {"attack": "better"}
    ),
    "other prefixes": Row(_keep_files, "prefixes", "made for other prefixes", {"prefixes_sha256": "0" * 64}),
    "no team": Row(content("team.toml", None), "team", "no such file: team.toml"),
    "no rows": Row(content(SUBMISSION, b"Example ID,Suffix Guess\nx\n"), "submission", f"{SUBMISSION}, line 2: "),
    "a damaged wheel": Row(
        lambda packed: dict.fromkeys(altered_wheel(packed.zip, {}), b"PK"), "environment", "not a valid zip file"
    ),
    "another suffix_length": Row(
        replaced(RULES, b"^suffix_length = .*", b"suffix_length = 7"),
        "rules",
        "rules differ from those of small: suffix",
    ),
    "source in UTF-7": Row(replaced(SOURCE, rb"\A", ENCODINGS[0] + b"\n"), "code", f"{SOURCE}: declares another"),
    # The rows of `make test-long` begin here.
    "a wheel that does not import": Row(
        lambda packed: altered_wheel(packed.zip, {"harness/core/submission.py": b"raise ImportError('changed')\n"}),
        "run",
        "changed",
    ),
    "no run.sh": Row(content("code/run.sh", None), "run", "the code failed"),
    "no submission": Row(content(SUBMISSION, None), "submission", f"{SUBMISSION}: cannot be read"),
    "an id beyond the last": Row(
        content(SUBMISSION, b'Example ID,Suffix Guess\n64,"[1,2,3,4,5,6,7,8]"\n'), "submission", "'64' is not in 0..63"
    ),
    "no rules": Row(content(RULES, None), "code", f"no such file: {RULES}"),
    "invalid rules": Row(content(RULES, b"row_cap = 'many'"), "code", f"{RULES}: not the rules of a round"),
    "a round named by a path": Row(
        replaced(RULES, b'^name = "small"', b'name = "../../etc/passwd"'), "code", f"{RULES}: not the rules of a round"
    ),
    "an attack named by an escape": Row(_name_attack("\x1b[31mdraws"), "code", "is not the name of an attack"),
    **{
        f"another {field}": Row(
            replaced(RULES, f"^{field} = .*".encode(), f"{field} = {value}".encode()), "rules", field
        )
        for field, value in RULE_VALUES.items()
    },
    **{
        line.decode(): Row(replaced(SOURCE, rb"\A", line + b"\n"), "code", f"{SOURCE}: declares another encoding")
        for line in ENCODINGS[1:]
    },
}


@pytest.mark.parametrize("name", first_is_fast(ROWS, fast=12))
def test_a_changed_bundle_is_refused_and_not_ranked(bundler: Bundler, draws: Packed, tmp_path: Path, name: str) -> None:
    row = ROWS[name]
    bundle = altered(draws.zip, tmp_path / "x.zip", row.change(draws), **row.fields)
    verdict = bundler.verify(bundle, code=1)
    check, sentence = reason(verdict)
    assert verdict["outcome"] == "refused" and (check, row.words in sentence) == (row.check, True), sentence
    assert str(tmp_path) not in sentence and len(sentence) < 500 and sentence.isprintable()
    (entry,) = bundler.machine.json("bundle", "rank", str(tmp_path), *bundler.round, code=1)["entries"]
    assert entry["place"] is None and row.words in entry["unranked"]
    assert " /" not in f" {sentence} {entry['unranked']}", "a path on this machine"


def test_a_bundle_that_contradicts_its_manifest_is_refused(bundler: Bundler, draws: Packed, tmp_path: Path) -> None:
    bundle = altered_files(draws.zip, tmp_path / "x.zip", {SUBMISSION: b"Example ID,Suffix Guess\n"})
    check, sentence = reason(bundler.verify(bundle, code=1))
    assert check == "manifest" and sentence.startswith("submission.csv was changed: its SHA-256 is ")
    content = bytearray(draws.zip.read_bytes())
    content[len(content) // 2] ^= 1
    bundle.write_bytes(content)
    assert reason(bundler.verify(bundle, code=1))[0] == "archive"


def test_a_bundle_of_code_only_is_not_ranked(bundler: Bundler, draws: Packed, tmp_path: Path) -> None:
    altered(draws.zip, tmp_path / "x.zip", {}, kind="code")
    (entry,) = bundler.machine.json("bundle", "rank", str(tmp_path), *bundler.round, code=1)["entries"]
    assert entry["place"] is None and "the bundle contains code only" in entry["unranked"]
