"""Audits of targets behind servers: one that nobody here wrote, and one that returns log-probabilities of prompts."""

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from harness.demo import CORPUS, WEIGHTS
from harness.runs.folder import RunFolder
from harness.runs.summary import run_status, run_summary
from tests.functional.machine import Machine, kill_worker, wait_until
from tests.tools.demo_server import DemoModel, serve

RATES = ("--requests-per-minute", "60000")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def transformers_serve(port: int) -> Iterator[subprocess.Popen[bytes]]:
    """Serve the demo target with the server of `transformers`."""
    command = [str(Path(sys.executable).with_name("transformers")), "serve", str(WEIGHTS), "--host", "127.0.0.1"]
    options = ["--port", str(port), "--device", "cpu", "--dtype", "float32"]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen([*command, *options], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        wait_until(lambda: process.poll() is not None or is_healthy(port), seconds=120)
        if process.poll() is not None:
            assert process.stdout is not None
            raise AssertionError(process.stdout.read().decode()[-2_000:])
        yield process
    finally:
        process.kill()
        process.wait()


def is_healthy(port: int) -> bool:
    with contextlib.suppress(httpx.TransportError):
        return httpx.get(f"http://127.0.0.1:{port}/health").status_code == 200
    return False


@pytest.mark.long
def test_a_server_of_transformers_has_the_local_figures_also_if_it_is_restarted(machine: Machine) -> None:
    documents = json.loads(CORPUS.read_bytes())
    long = [text.replace("\n", " ") for text in documents if 30 <= len(text.split()) <= 45][:16]
    (machine.folder / "corpus.txt").write_text("\n\n".join(long))
    measured = ("audit", "sequence", "corpus.txt", "--prompt-length", "15", "--json")
    local = machine.json(*measured[:-1], "--target", "demo")
    port = free_port()
    url = ("--endpoint", f"http://127.0.0.1:{port}/v1", "--endpoint-model", str(WEIGHTS))
    with transformers_serve(port):
        summary = machine.json(*measured[:-1], *url, *RATES, "--retries", "20", "--detach")
        folder = RunFolder(Path(summary["directory"]))
        wait_until(lambda: run_summary(folder).guesses > 2, seconds=120)
    kept = run_summary(folder).guesses
    assert not run_status(folder).is_over
    with transformers_serve(port):
        wait_until(lambda: run_status(folder).is_over, seconds=240)
    assert run_status(folder) == "finished"
    assert run_summary(folder).guesses > kept
    served = machine.json("show", folder.id)["findings"]
    assert served["paragraphs"].pop("completed") == 16 and not any(served["paragraphs"].values())
    measured, expected = (
        [row | {"model": None} for row in audit["measures"] if row["measure"] in ("passed", "too_short", "p_value")]
        for audit in (served, local)
    )
    assert measured == expected
    assert local["measures"][0]["value"] > 0
    refused = machine.run("audit", "leakage", "--round", "demo", "--target", "demo", *url, "--retries", "0", code=1)
    assert "cannot be reached" in refused.stderr


@pytest.fixture(scope="module")
def demo_model() -> DemoModel:
    return DemoModel()


@pytest.mark.slow
def test_a_sandboxed_worker_measures_a_served_target_and_is_resumed(machine: Machine, demo_model: DemoModel) -> None:
    options = ("--limit", "24", "--target", "demo", *RATES, "--concurrency", "2")
    with serve(demo_model.answer) as served:
        url = ("--endpoint", served.url, "--endpoint-model", "demo")
        summary = machine.json("audit", "leakage", "--round", "demo", *options, *url, "--detach")
        folder = RunFolder(Path(summary["directory"]))
        wait_until(lambda: run_status(folder).is_over or run_summary(folder).guesses > 2, seconds=120)
        if not run_status(folder).is_over:
            kill_worker(folder)
            wait_until(lambda: run_status(folder).is_over)
            machine.run("resume", folder.id, "--detach")
            wait_until(lambda: run_status(folder).is_over, seconds=120)
        found = machine.json("show", folder.id)["findings"]
        local = machine.json("audit", "leakage", "--round", "demo", "--limit", "24", "--inexact", "0", "--near", "0")
    assert (found["model"], found["sequences"], found["is_complete"]) == ("demo", 24, True)
    served_rates, local_rates = (
        {row["case"]: row["value"] for row in audit["measures"] if row["measure"] == "mean_esp"}
        for audit in (found, local)
    )
    assert set(served_rates) == {"greedy", "plain", "top-k 10"}
    for scheme, rate in served_rates.items():
        assert rate == pytest.approx(local_rates[scheme], rel=1e-3)
    assert run_summary(folder).network == "endpoint"
    shown = machine.run("show", folder.id).stdout
    assert "tokenizer" in shown


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("--target", "demo", "--target", "demo-tiny"), 2, "an endpoint serves one model"),
        (("--target", "demo", "--schemes", "top_p"), 2, "--schemes: top_p needs the whole distribution"),
        (("--target", "demo", "--top-k", "40"), 1, "likeliest tokens. Set a smaller --top-k"),
        (("--target", "no-tokenizer"), 1, "no tokenizer.json in"),
    ],
)
def test_what_an_endpoint_cannot_do_is_one_sentence(
    machine: Machine, demo_model: DemoModel, arguments: tuple[str, ...], code: int, says: str
) -> None:
    (machine.folder / "no-tokenizer").mkdir()
    with serve(demo_model.answer) as served:
        url: tuple[Any, ...] = ("--endpoint", served.url, "--endpoint-model", "demo")
        done = machine.run("audit", "leakage", "--round", "demo", *arguments, *url, *RATES, code=code)
    assert says in done.stderr
    assert "Traceback" not in done.stderr
