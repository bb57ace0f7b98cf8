"""An adapter and its base model are named, hashed, compared, packaged and computed again."""

import json

import numpy as np
import pytest

from harness.analysis.candidates import load_example
from harness.core import paths
from harness.demo import SIZES
from harness.engine.loading import load_target
from harness.runs.folder import RunFolder
from tests.functional.bundler import OWN_ENVIRONMENT
from tests.functional.machine import Machine, write_tiny_demo
from tests.tools.adapters import write_adapter

TINY = SIZES[-1].weights


def test_an_adapter_is_compared_with_its_base(machine: Machine) -> None:
    write_adapter(machine.folder / "tuned", TINY, base_model_name_or_path="somebody/else")
    compared = ("audit", "compare", "--round", "demo", "--target", "demo-tiny", "--target", "tuned", "--limit", "8")
    refused = machine.run(*compared[:4], *compared[6:8], *compared[4:6], code=1)
    assert "tuned contains an adapter" in refused.stderr and "--base" in refused.stderr
    # The base of the second target is the first one.
    machine.run(*compared, "--threads", "1", "--out", "page")
    shared = (machine.folder / "page" / "findings.json").read_text()
    base, tuned = json.loads(shared)["audit"]["models"]
    assert (base["base"], tuned["id"], tuned["base"]) == ("", "tuned", "demo-tiny")
    assert base["weights_sha256"] != tuned["weights_sha256"] and str(machine.folder) not in shared
    said = machine.run("show", "latest").stdout
    assert f"merged into demo-tiny (sha256 {base['weights_sha256']})" in " ".join(said.split())
    assert "tuned says that it is an adapter of somebody/else" in said
    refused = machine.run("audit", "compare", *compared[2:-4], "--target", "demo-small", "--base", "demo", code=2)
    assert "no model of this run is an adapter" in refused.stderr


def test_a_run_of_an_adapter_is_like_another_and_its_code_runs_again(machine: Machine) -> None:
    write_adapter(machine.folder / "tuned", TINY)
    options = ("--round", str(write_tiny_demo(machine.folder)), "--target", "tuned", "--base", "demo-tiny")
    summary = machine.json("run", "greedy", *options, "--limit", "4", "--device", "cpu")
    assert str(machine.folder / "tuned") in summary["in_force"]["readable"]
    folder = RunFolder.of(machine.json("run", "--like", "latest", "--seed", "1")["id"])
    request, target = folder.attack_spec().request, folder.attack_spec().target
    assert request.target == str(machine.folder / "tuned") and request.base == "demo-tiny"
    shown = machine.json("show", folder.id, "--example", "2", "--probabilities")["probabilities"]["answer"]
    example = load_example(folder, 2)
    assert example.answer is not None and target is not None
    merged = load_target(target.path, adapter=target.adapter, device="cpu", threads=1, suffix_length=50)
    logprobs = merged.score(example.prefix[None], example.answer[None]).token_logprobs[0]
    assert shown == pytest.approx(np.exp(logprobs).tolist(), abs=1e-4)
    machine.run("bundle", "code", "greedy", *options, "--device", "cpu", "--out", "code.zip")
    np.save(machine.folder / "prefixes.npy", np.load(paths.BUILT_IN_ROUNDS / "demo" / "prefix.npy")[:4])
    verify = ("bundle", "verify", "code.zip", "--prefixes", "prefixes.npy", *OWN_ENVIRONMENT, "--target", "tuned")
    assert "contains an adapter" in machine.run(*verify, code=1).stderr
    assert machine.json(*verify, "--base", str(TINY))["outcome"] == "ran"
    (machine.folder / "tuned" / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": 4}))
    assert machine.json(*verify, "--base", str(TINY), code=1)["outcome"] == "refused"
