"""`show --probabilities`: the probability of each token under the target of a run."""

import numpy as np
import pytest

from harness.analysis.candidates import load_example
from harness.engine.loading import load_target
from harness.runs.folder import RunFolder
from tests.functional.machine import Machine

TINY = ("greedy", "--round", "demo", "--target", "demo-tiny", "--limit", "4", "--budget", "5m", "--device", "cpu")


@pytest.mark.slow
def test_tokens_have_the_probabilities_of_the_target(machine: Machine) -> None:
    folder = RunFolder.of(machine.json("run", *TINY)["id"])
    answer = machine.json("show", folder.id, "--example", "2", "--probabilities")
    example, spec = load_example(folder, 2), folder.attack_spec()
    assert example.answer is not None
    target = load_target(spec.targets[0].path, device="cpu", dtype="float32", threads=1, suffix_length=50)
    logprobs = target.score(example.prefix[None], example.answer[None]).token_logprobs[0]
    assert answer["probabilities"]["answer"] == pytest.approx(np.exp(logprobs).tolist(), abs=1e-4)
    assert len(answer["probabilities"]["candidates"]) == len(example.candidates) == 1
    assert "mean probability" in machine.run("show", folder.id, "--example", "2", "--probabilities").stdout


def test_a_run_without_a_target_has_no_probabilities(machine: Machine) -> None:
    folder = machine.replayed("replay", range(4))
    error = machine.run("show", folder.id, "--example", "1", "--probabilities", code=1).stderr
    assert "replay does not use a target" in error
    assert "--example" in machine.run("show", folder.id, "--probabilities", code=2).stderr
