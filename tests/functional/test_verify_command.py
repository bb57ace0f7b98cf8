"""`harness bundle verify`: a bundle reproduces its submission, or is refused with the correct reason."""

import difflib
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from harness.core.submission import write_submission
from harness.runs.attack_record import submission_now
from tests.functional.bundler import (
    FAST,
    OWN_ENVIRONMENT,
    Bundler,
    Packed,
    altered,
    files_of,
    finding,
    reason,
)
from tests.functional.machine import EXAMPLES, Machine, write_tiny_demo
from tests.tools.tiers import first_is_fast


def test_a_bundle_reproduces_its_submission_byte_for_byte(each_sandbox: Bundler, draws: Packed, tmp_path: Path) -> None:
    verdict = each_sandbox.verify(draws.zip, "--out", str(tmp_path))
    assert verdict["outcome"] == "reproduced" and verdict["sentence"].endswith("byte for byte")
    assert verdict["agreement"]["likeness"] == "identical"
    assert verdict["scores"]["submitted"] == verdict["scores"]["produced"]
    assert not [one for one in verdict["findings"] if one["holds"] is False]
    written = json.loads((tmp_path / f"{draws.zip.stem}.verdict.json").read_text())
    assert written.items() <= verdict.items()
    page = (tmp_path / f"{draws.zip.stem}.verdict.html").read_text()
    assert '<strong class="good">reproduced</strong>' in page and "http" not in page.replace("http-equiv", "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("attack", "options"),
    first_is_fast([("stages", ()), ("draws", (*FAST, "--set", "file=team.toml")), ("draws", (*FAST, "--seed", "5"))]),
    ids=["training rows and order", "path", "seed"],
)
def test_a_bundle_contains_all_inputs_of_the_attack(bundler: Bundler, attack: str, options: tuple[str, ...]) -> None:
    packed = bundler.package(attack, *options)
    assert bundler.verify(packed.zip)["outcome"] == "reproduced"


@pytest.mark.slow
def test_the_verdict_is_printed_with_every_check(bundler: Bundler, draws: Packed) -> None:
    done = bundler.machine.run("bundle", "verify", str(draws.zip), *bundler.round, *OWN_ENVIRONMENT)
    assert done.stdout.endswith("reproduced: the code produces the submission, byte for byte\n")
    names = {line[2:].split("  ")[0].strip() for line in done.stdout.splitlines() if line[:1] in "✓·"}
    assert {"manifest", "code", "rules", "prefixes", "submission", "sandbox", "environment", "budget"} <= names


@pytest.mark.slow
def test_prefixes_and_answers_may_be_files(bundler: Bundler, draws: Packed, tmp_path: Path) -> None:
    folder = bundler.machine.folder
    np.savez(tmp_path / "prefixes.npz", np.load(folder / f"prefix-{EXAMPLES}.npy").astype(np.int64))
    given = ("--prefixes", str(tmp_path / "prefixes.npz"), "--out", str(tmp_path))
    blind = bundler.machine.json("bundle", "verify", str(draws.zip), *given, *OWN_ENVIRONMENT)
    assert blind["outcome"] == "reproduced" and blind["scores"] == {}
    assert finding(blind, "rules")["sentence"].endswith("caps from the challenge: 100 errors, 100,000 rows")
    result = bundler.machine.json(
        "bundle",
        "verify",
        str(draws.zip),
        *given,
        "--answers",
        str(folder / f"answer-{EXAMPLES}.npy"),
        *OWN_ENVIRONMENT,
    )
    assert result["scores"]["produced"]["examples"] == EXAMPLES


@pytest.mark.slow
def test_reordered_rows_of_equal_score_are_accepted(bundler: Bundler, draws: Packed, tmp_path: Path) -> None:
    submission = submission_now(draws.run)
    scores = submission.guesses.score
    first = int(np.flatnonzero(scores[1:] == scores[:-1])[0])
    order = np.arange(len(scores))
    order[[first, first + 1]] = order[[first + 1, first]]
    write_submission(tmp_path / "moved.csv", submission.ids[order], submission.suffixes[order])
    bundle = altered(draws.zip, tmp_path / "x.zip", {"submission.csv": (tmp_path / "moved.csv").read_bytes()})
    verdict = bundler.verify(bundle)
    assert verdict["outcome"] == "reproduced_up_to_ties" and verdict["agreement"]["elsewhere"] == 2


@pytest.mark.slow
def test_a_result_without_reproducibility_promise_is_measured(bundler: Bundler) -> None:
    packed = bundler.package("nondeterministic", "--set", "reads_clock=true")
    verdict = bundler.verify(packed.zip, code=3)
    assert verdict["outcome"] == "measured" and "; recall 0.000 submitted, 0.000 produced" in verdict["sentence"]
    assert (
        finding(verdict, "promise")["sentence"] == "a byte-identical result was not promised: the attack read the clock"
    )


@pytest.mark.slow
def test_the_budget_comes_from_the_round_of_the_organizers(bundler: Bundler, draws: Packed, tmp_path: Path) -> None:
    rules = files_of(draws.zip)["code/round.toml"].replace(b"budget = 60.0", b"budget = 86400.0")
    bundle = altered(draws.zip, tmp_path / "x.zip", {"code/round.toml": rules})
    assert bundler.verify(bundle)["budget_s"] == 60.0


@pytest.mark.slow
@pytest.mark.parametrize("is_caught", first_is_fast(["true", "false"]))
def test_verification_denies_the_network(each_sandbox: Bundler, is_caught: str) -> None:
    unsandboxed = Bundler(Machine(each_sandbox.machine.folder, {"HARNESS_SANDBOX": "none"}), each_sandbox.bundles)
    packed = unsandboxed.package("networking", "--set", f"is_caught={is_caught}", accept=("sandbox",))
    if is_caught == "true":
        # The attack continues without the socket, and its result does not depend on it.
        assert each_sandbox.verify(packed.zip)["outcome"] == "reproduced"
    else:
        assert "PermissionError" in reason(each_sandbox.verify(packed.zip, code=1))[1]


def test_a_target_with_other_weights_is_refused(bundler: Bundler, draws: Packed, tmp_path: Path) -> None:
    files = files_of(draws.zip)
    target = {"id": "demo", "revision": "main", "commit": None, "weights_sha256": "0" * 64, "is_folder": False}
    spec = json.loads(files["code/spec.json"]) | {
        "target": target | {"device": "cpu", "shards": [], "dtype": "auto", "threads": 1}
    }
    bundle = altered(draws.zip, tmp_path / "x.zip", {"code/spec.json": json.dumps(spec).encode()})
    name, sentence = reason(bundler.verify(bundle, "--target", "demo", code=1))
    assert name == "target" and sentence.startswith(
        "the bundle names demo, weights 000000000000…, but the weights here"
    )


@pytest.mark.slow
def test_earlier_packaged_code_runs_on_new_prefixes(bundler: Bundler, draws: Packed, tmp_path: Path) -> None:
    frozen = _package_code(bundler, tmp_path)
    verdict = bundler.verify(frozen)
    assert (verdict["outcome"], verdict["kind"]) == ("ran", "code")
    assert verdict["scores"]["produced"]["rows"] == 128


def _package_code(bundler: Bundler, folder: Path, *options: str) -> Path:
    out = folder / "code.zip"
    settings = options or FAST
    bundler.machine.run("bundle", "code", "draws", *bundler.machine.plugin(), *settings, "--out", str(out))
    return out


def test_a_bundle_of_the_frozen_code_is_the_same_code(bundler: Bundler, draws: Packed, tmp_path: Path) -> None:
    frozen = _package_code(bundler, tmp_path)
    verdict = bundler.machine.json("bundle", "verify", str(draws.zip), "--frozen", str(frozen), "--out", str(tmp_path))
    assert verdict["outcome"] == "same_code"
    assert verdict["sentence"] == "the code is the frozen code, and the manifest contains its hash"


@pytest.mark.slow
def test_other_code_than_the_frozen_code_is_refused_without_running(
    bundler: Bundler, draws: Packed, tmp_path: Path
) -> None:
    frozen = _package_code(bundler, tmp_path, "--set", "trials=2")
    given = ("--frozen", str(frozen), "--out", str(tmp_path))
    refused = bundler.verify(draws.zip, *given, code=1)
    assert reason(refused) == ("frozen", "1 file differs from the frozen code: spec.json")
    assert refused["elapsed_s"] is None and refused["patch"] is None
    done = bundler.machine.run("bundle", "verify", str(draws.zip), *given, code=3)
    stored = json.loads((tmp_path / f"{draws.zip.stem}.verdict.json").read_bytes())
    assert stored["outcome"] == "refused"
    assert "other code: 1 file differs from the frozen code: spec.json" in done.stdout
    assert '-    "trials": 2,' in done.stdout and '+    "trials": 1,' in done.stdout


@pytest.mark.slow
def test_frozen_code_with_an_approved_patch_is_verified(bundler: Bundler, draws: Packed, tmp_path: Path) -> None:
    frozen, patch = _package_code(bundler, tmp_path, "--set", "trials=2"), tmp_path / "fix.patch"
    sides = [files_of(zip_)["code/spec.json"].splitlines(keepends=True) for zip_ in (frozen, draws.zip)]
    names = (b"frozen/code/spec.json", b"bundle/code/spec.json")
    patch.write_bytes(b"".join(difflib.diff_bytes(difflib.unified_diff, *sides, *names)))
    given = ("--frozen", str(frozen), "--patch", str(patch), "--out", str(tmp_path))
    verdict = bundler.verify(draws.zip, *given)
    size = f"1 file, 2 lines added, 2 removed, {patch.stat().st_size:,} bytes"
    assert verdict["outcome"] == "reproduced"
    assert verdict["sentence"].endswith(f"; the code is the frozen code with a patch of {size}")
    assert (verdict["patch"]["files"], verdict["patch"]["lines_removed"]) == (1, 2)
    assert size in (tmp_path / f"{draws.zip.stem}.verdict.html").read_text()
    static = bundler.machine.json("bundle", "verify", str(draws.zip), *given)
    assert static["outcome"] == "same_code" and static["patch"] == verdict["patch"]
    patch.write_bytes(patch.read_bytes().replace(b'+    "trials": 1', b'+    "trials": 3'))
    refused = bundler.verify(draws.zip, *given, code=1)
    assert reason(refused) == ("frozen", "1 file differs from the frozen code with the patch: spec.json")


def test_rules_that_nobody_can_check_and_a_short_description_are_noted(
    bundler: Bundler, draws: Packed, tmp_path: Path
) -> None:
    (bundler.machine.folder / "ruled.toml").write_text(
        f'base = "{bundler.round[1]}"\ncode_deadline = 2023-01-20\nforbidden_models = ["x/*"]\n'
        'training_data_search = "forbidden"\n'
    )
    # The prefixes are checked after the notes, and nothing runs.
    added = {"code/paths/data/file/pile.txt": b"text", "code/paths/help/folder/model.GGUF": b"weights"}
    bundle = altered(draws.zip, tmp_path / "x.zip", added, prefixes_sha256="0" * 64)
    options = ("--round", "ruled.toml", *OWN_ENVIRONMENT, "--out", str(tmp_path))
    verdict = bundler.machine.json("bundle", "verify", str(bundle), *options, code=1)
    assert reason(verdict)[0] == "prefixes"
    notes = {one["name"]: one["sentence"] for one in verdict["findings"] if one["holds"] is None}
    assert notes["frozen"] == "code was due by 2023-01-20 AoE, but no frozen code was given to compare with"
    assert notes["paths"] == "the attack reads 11 bytes in code/paths, which must not be searched training data"
    assert notes["models"].endswith("one that the round forbids: code/paths/help/folder/model.GGUF")
    assert notes["description"].startswith("the description has 6 words outside tables and examples; two to five")
    without = altered(draws.zip, tmp_path / "y.zip", {"description/method.md": None}, prefixes_sha256="0" * 64)
    verdict = bundler.machine.json("bundle", "verify", str(without), *options, code=1)
    assert finding(verdict, "description")["sentence"].endswith(
        "counted: no such file: description/method.md. Check the path"
    )


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        ((), 2, "Use --prefixes FILE or --round ROUND"),
        (("--prefixes", "p.npy", "--round", "r.toml"), 2, "use either --prefixes or --round, not both"),
        (("--round", "round.toml", "--answers", "a.npy"), 2, "--answers"),
        (("--round", "absent.toml", "--own-environment"), 1, "absent.toml"),
        (("--prefixes", "absent.npy", "--own-environment"), 1, "no such file: absent.npy"),
        (("--round", "round.toml", "--own-environment", "--frozen", "absent.zip"), 1, "no such file: absent.zip"),
        (("--round", "round.toml", "--own-environment", "--device", "gpu"), 2, "unknown device 'gpu'"),
        (("--round", "round.toml", "--wheels", "absent"), 1, "no such directory: absent"),
        (("--round", "round.toml"), 2, "no source to install the bundle's environment from"),
        (("--round", "round.toml", "--own-environment", "--patch", "team.toml"), 2, "needs --frozen"),
        (("--frozen", "team.toml", "--patch", "absent.patch"), 1, "no such file: absent.patch"),
        (("--frozen", "team.toml"), 1, "team.toml: not a valid zip file"),
        (("--round", "round.toml", "--own-environment", "--budget", "soon"), 2, "'soon' is not a duration"),
        (("--round", "round.toml", "--work", ".", "--own-environment"), 1, "is not empty"),
        (("--round", "round.toml", "--work", "team.toml", "--own-environment"), 1, "team.toml"),
        (("--round", "round.toml", "--out", "team.toml", "--own-environment"), 1, "team.toml"),
    ],
)
def test_invalid_arguments_write_no_verdict(
    bundler: Bundler, draws: Packed, tmp_path: Path, options: tuple[str, ...], code: int, words: str
) -> None:
    bundle = Path(shutil.copy(draws.zip, tmp_path / "mine.zip"))
    done = bundler.machine.run("bundle", "verify", str(bundle), *options, code=code)
    assert words in " ".join(done.stderr.replace("│", " ").split()) and "internal error" not in done.stderr
    assert not bundle.with_name("mine.verdict.json").exists()


@pytest.mark.parametrize(("name", "installed"), [("numpy", np.__version__), ("absent-package", "not installed")])
def test_other_package_versions_write_no_verdict(
    bundler: Bundler, draws: Packed, tmp_path: Path, name: str, installed: str
) -> None:
    pin = f"{name}==1.0 --hash=sha256:{'0' * 64}\n".encode()
    bundle = altered(draws.zip, tmp_path / "mine.zip", {"code/requirements.txt": pin})
    done = bundler.machine.run("bundle", "verify", str(bundle), *bundler.round, *OWN_ENVIRONMENT, code=1)
    assert f"this environment differs from the bundle's lock: {name} is {installed}, the lock has 1.0" in done.stderr
    assert not bundle.with_name("mine.verdict.json").exists()


@pytest.mark.slow
def test_a_missing_sandbox_writes_no_verdict(bundler: Bundler, draws: Packed, tmp_path: Path) -> None:
    bundle = Path(shutil.copy(draws.zip, tmp_path / "mine.zip"))
    bare = Machine(bundler.machine.folder, {"HARNESS_SANDBOX": "none"})
    done = bare.run("bundle", "verify", str(bundle), *bundler.round, *OWN_ENVIRONMENT, code=1)
    assert "--unsafe runs the code" in done.stderr and not bundle.with_name("mine.verdict.json").exists()
    unsafe = bare.json("bundle", "verify", str(bundle), *bundler.round, *OWN_ENVIRONMENT, "--unsafe")
    assert unsafe["outcome"] == "reproduced" and finding(unsafe, "sandbox")["holds"] is None


@pytest.mark.slow
def test_a_bundle_with_the_demo_target_is_reproduced(bundler: Bundler, tmp_path: Path) -> None:
    write_tiny_demo(bundler.machine.folder)
    run = bundler.machine.json("run", "greedy", "--round", "tiny.toml", "--threads", "1")["id"]
    bundle = tmp_path / "greedy-tiny.zip"
    bundler.machine.run("bundle", "create", run, "--out", str(bundle))
    options = ("--round", "tiny.toml", *OWN_ENVIRONMENT)
    verdict = bundler.machine.json("bundle", "verify", str(bundle), *options)
    assert verdict["outcome"] == "reproduced" and verdict["sentence"].endswith("byte for byte")
    assert finding(verdict, "target")["sentence"].startswith("the target is demo-tiny, weights ")
    assert verdict["scores"]["produced"] == verdict["scores"]["submitted"]
    board = bundler.machine.json("bundle", "rank", str(tmp_path), "--round", "tiny.toml")["entries"]
    assert [(one["bundle"], one["place"]) for one in board if one["place"]] == [(bundle.name, 1)]


@pytest.mark.slow
def test_the_environment_is_installed_from_the_lock_of_the_bundle(
    bundler: Bundler, draws: Packed, tmp_path: Path
) -> None:
    wheels = os.environ.get("HARNESS_WHEELS")
    if not wheels:
        needed = "HARNESS_WHEELS is not set. Set it to the directory of `pip download -r requirements.lock`."
        if os.environ.get("HARNESS_REQUIRE_TOOLS") == "1":
            pytest.fail(needed)
        pytest.skip(needed)
    out = ("--wheels", wheels, "--out", str(tmp_path))
    verdict = bundler.machine.json("bundle", "verify", str(draws.zip), *bundler.round, *out)
    assert verdict["outcome"] == "reproduced"
    assert finding(verdict, "environment")["sentence"].startswith("a new environment from the bundle's lock, Python ")


def test_a_partial_run_is_verified_on_the_examples_that_it_attacked(bundler: Bundler, tmp_path: Path) -> None:
    packed = bundler.package("draws", *FAST, "--limit", "9", accept=("partial",))
    verdict = bundler.verify(packed.zip)
    assert verdict["outcome"] == "reproduced" and verdict["sentence"].endswith("; partial, 9 of 64")
    (score, again) = verdict["scores"].values()
    assert score == again and score["examples"] == 64
    shutil.copy(packed.zip, tmp_path)
    (entry,) = bundler.machine.json("bundle", "rank", str(tmp_path), *bundler.round)["entries"]
    assert entry["marks"] == ["partial, 9 of 64"]
