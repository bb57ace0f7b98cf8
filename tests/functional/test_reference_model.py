"""A run with a reference model: recorded, shown, packaged, verified, and run again from its bundle."""

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from harness.demo import REFERENCE, ROUND_ARRAYS, SIZES
from harness.runs.folder import RunFolder
from tests.functional.bundler import OWN_ENVIRONMENT, Bundler, Packed, altered, files_of, finding, reason
from tests.functional.machine import Machine

EXAMPLES = 40
ROUND = ("--round", "few.toml")
SETTINGS = ("--set", "ranker=reference_ratio", "--set", "trials=2", "--threads", "1")


@pytest.fixture(scope="module")
def few(bundler: Bundler) -> Bundler:
    """The bundler with a round of few examples of the demo, and its smallest target."""
    text = f'base = "demo"\nname = "few"\ntarget = "demo-tiny"\nanswer_rows = [0, {EXAMPLES}]\n'
    (bundler.machine.folder / "few.toml").write_text(text)
    return bundler


def _packed(few: Bundler, reference: str, folder: Path, *options: str) -> Packed:
    summary = few.machine.json("run", "sampling", *ROUND, *SETTINGS, "--reference", reference, *options)
    assert (summary["status"], summary["target"]) == ("finished", "demo-tiny")
    bundle = folder / "bundle.zip"
    few.machine.run("bundle", "create", summary["id"], "--out", str(bundle))
    return Packed(RunFolder(Path(summary["directory"])), bundle)


@pytest.fixture(scope="module")
def packed(few: Bundler, tmp_path_factory: pytest.TempPathFactory) -> Packed:
    """The bundle of a run with the demo's reference model."""
    return _packed(few, REFERENCE.name, tmp_path_factory.mktemp("built-in"))


@pytest.fixture(scope="module")
def packed_folder(few: Bundler, tmp_path_factory: pytest.TempPathFactory) -> Packed:
    """The bundle of a run whose reference model is a directory."""
    # A worker that takes tests of this module twice sets up its fixtures twice.
    folder = tmp_path_factory.mktemp("directory")
    return _packed(few, str(shutil.copytree(REFERENCE.weights, folder / "models" / "other-text")), folder)


@pytest.mark.slow
def test_a_bundle_with_a_reference_model_is_reproduced(few: Bundler, packed: Packed, tmp_path: Path) -> None:
    shown = few.machine.run("show", packed.run.id).stdout
    assert re.search(r"^reference model +demo-reference, weights ", shown, re.MULTILINE)
    recorded = few.machine.json("show", packed.run.id)
    assert recorded["spec"]["reference"]["id"] == recorded["changed"]["reference"] == "demo-reference"
    assert recorded["reference_as_loaded"]["parameters"] < recorded["target_as_loaded"]["parameters"] * 1.01
    files = files_of(packed.zip)
    assert b"## Reference model\n\n`demo-reference`, weights\n" in files["code/README.md"]
    assert b"\n# HARNESS_REFERENCE: " in files["code/run.sh"]
    verdict = few.machine.json("bundle", "verify", str(packed.zip), *ROUND, *OWN_ENVIRONMENT, "--out", str(tmp_path))
    assert verdict["outcome"] == "reproduced" and verdict["sentence"].endswith("byte for byte")
    assert finding(verdict, "target")["sentence"].startswith("the target is demo-tiny, weights ")
    assert finding(verdict, "reference")["sentence"].startswith("the reference model is demo-reference, weights ")


@pytest.mark.slow
def test_a_bundle_with_other_weights_of_the_reference_is_refused(few: Bundler, packed: Packed, tmp_path: Path) -> None:
    options = (*ROUND, *OWN_ENVIRONMENT, "--out", str(tmp_path))
    verdict = few.machine.json("bundle", "verify", str(packed.zip), *options, "--reference", "demo-small", code=1)
    assert reason(verdict)[0] == "reference" and "the bundle names demo-reference" in reason(verdict)[1]
    (few.machine.folder / "ruled.toml").write_text('base = "few.toml"\nforbidden_models = ["demo-reference"]\n')
    ruled = ("--round", "ruled.toml", *options[2:])
    refused = few.machine.json("bundle", "verify", str(packed.zip), *ruled, code=1)
    assert reason(refused) == ("models", "the round forbids the model demo-reference")
    forged = altered(packed.zip, tmp_path / "forged.zip", {}, reference=None)
    verdict = few.machine.json("bundle", "verify", str(forged), *options, code=1)
    assert reason(verdict)[0] == "archive"


@pytest.mark.long
def test_a_reference_directory_is_named_by_the_verifier(few: Bundler, packed_folder: Packed, tmp_path: Path) -> None:
    options = (*ROUND, *OWN_ENVIRONMENT, "--out", str(tmp_path))
    refused = few.machine.run("bundle", "verify", str(packed_folder.zip), *options, code=1)
    assert "the bundle's reference model is the directory other-text. Name it with --reference." in refused.stderr
    moved = str(shutil.copytree(REFERENCE.weights, tmp_path / "moved"))
    verdict = few.machine.json("bundle", "verify", str(packed_folder.zip), *options, "--reference", moved)
    assert verdict["outcome"] == "reproduced"


@pytest.mark.long
def test_a_bundle_is_run_again_with_its_reference(few: Bundler, packed_folder: Packed, tmp_path: Path) -> None:
    for name, content in files_of(packed_folder.zip).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    prefixes = tmp_path / "few.npy"
    np.save(prefixes, np.load(ROUND_ARRAYS / "prefix.npy")[:EXAMPLES])
    again = ("bundle", "rerun", str(tmp_path / "code"), str(prefixes), "--out", str(tmp_path / "out.csv"))
    (tmp_path / "elsewhere").mkdir()
    machine = Machine(tmp_path / "elsewhere")
    refused = machine.run(*again, code=1)
    assert (
        "the bundle's reference model is the directory other-text. Set HARNESS_REFERENCE to where it is"
        in refused.stderr
    )
    wrong = machine.run(*again, "--reference", str(SIZES[1].weights), code=1)
    assert "Name the right reference model." in wrong.stderr
    machine.run(*again, "--reference", str(REFERENCE.weights))
    assert (tmp_path / "out.csv").read_bytes() == files_of(packed_folder.zip)["submission.csv"]


@pytest.mark.long
def test_a_bundle_of_a_split_target_splits_both_models_again_unless_a_device_is_named(
    few: Bundler, tmp_path: Path
) -> None:
    packed = _packed(few, REFERENCE.name, tmp_path, "--devices", "cpu:2", "--split-target")
    for name, content in files_of(packed.zip).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    assert "It ran on cpu, cpu with 1 threads" in (tmp_path / "code" / "README.md").read_text()
    prefixes = tmp_path / "few.npy"
    np.save(prefixes, np.load(ROUND_ARRAYS / "prefix.npy")[:EXAMPLES])
    again = ("bundle", "rerun", str(tmp_path / "code"), str(prefixes), "--out", str(tmp_path / "out.csv"))
    for name, options, shards in (("same", (), ["cpu", "cpu"]), ("one", ("--device", "cpu"), [])):
        (tmp_path / name).mkdir()
        machine = Machine(tmp_path / name)
        machine.run(*again, *options)
        spec = machine.json("show", "latest")["spec"]
        assert spec["target"]["shards"] == spec["reference"]["shards"] == shards
        assert (tmp_path / "out.csv").read_bytes() == files_of(packed.zip)["submission.csv"]


@pytest.mark.long
def test_a_run_with_a_reference_is_compared_and_repeated(few: Bundler, packed: Packed) -> None:
    other = few.machine.json("run", "--like", packed.run.id, "--reference", "demo-small")
    differing = few.machine.json("compare", packed.run.id, other["id"])["differing"]
    assert differing["reference.id"] == ["demo-reference", "demo-small"]
    planned = few.machine.json("run", "--like", packed.run.id, "--dry-run")
    assert planned["reference_model"] == "demo-reference"


def test_a_reference_that_cannot_be_used_is_refused(machine: Machine) -> None:
    absent = machine.run("run", "greedy", "--round", "demo", "--reference", "./absent", code=1)
    assert absent.stderr.startswith("harness: reference model: no such directory or GGUF file: ./absent.")
    wider = str(shutil.copytree(REFERENCE.weights, machine.folder / "wider"))
    (machine.folder / "wider" / "tokenizer.json").unlink()
    config = machine.folder / "wider" / "config.json"
    config.write_text(config.read_text().replace('"vocab_size": 384', '"vocab_size": 484'))
    refused = machine.run("run", "greedy", "--round", "demo", "--reference", wider, code=1)
    assert "wider predicts 484 tokens and the round has 384, so its tokenizer is another one" in refused.stderr
    (machine.folder / "ruled.toml").write_text('base = "demo"\nforbidden_models = ["demo-*"]\n')
    refused = machine.run("bundle", "code", "greedy", "--round", "ruled.toml", "--reference", "demo-tiny", code=1)
    assert refused.stderr == "harness: demo forbids the model demo-tiny. Use another one, or none.\n"
    planned = machine.run("run", "greedy", "--round", "ruled.toml", "--reference", "demo-tiny", "--dry-run")
    assert planned.stderr == "demo forbids the model demo-tiny: the run cannot be packaged.\n"
    options = ("run", "lookup", "--round", "demo", "--reference", "demo-tiny")
    assert "lookup does not use a target. Remove --reference." in machine.run(*options, code=2).stderr
