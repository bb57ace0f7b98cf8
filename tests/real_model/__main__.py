"""Run the audits and attacks on two real models and write the page about it: `python -m tests.real_model`.

It downloads about 340 MB of models and a package of Debian, and takes ten to thirty minutes on two cores. `--folder`
keeps models, texts and runs, so that a command that was interrupted goes on. `--write` writes the page of the
documentation. With `llama-cpp-python[server]` installed, one audit runs once more through its server.
"""

import argparse
import contextlib
import importlib.util
import json
import os
import shlex
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from harness.core.times import format_duration
from harness.runs.reader import RunReader
from tests.functional.bundler import DESCRIPTION, TEAM
from tests.functional.machine import ROOT
from tests.real_model.models import GEMMA, SMOLLM2, fetch, write_plain_copy
from tests.real_model.page import Step, written_page
from tests.real_model.texts import founding_documents, licence, paragraphs_of

PAGE = ROOT / "docs" / "explanation" / "real-models.md"
_LICENCES = ("Apache-2.0", "Artistic", "BSD", "GPL-2", "GPL-3", "LGPL-2.1", "MPL-2.0")
_EXAMPLES, _PORT = 24, 8123


class Inputs(NamedTuple):
    """The files of the commands.

    texts: public texts by name.
    """

    folder: Path
    gemma: Path
    smollm2: Path
    texts: dict[str, Path]


class Session:
    """Runs commands of the harness in a folder, each once: a command that was interrupted goes on after the last."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._environment = os.environ | {"HARNESS_HOME": str(folder / "home"), "PYTHONPATH": str(ROOT)}
        self._file = folder / "steps.json"
        self._steps: dict[str, list[Any]] = json.loads(self._file.read_text()) if self._file.exists() else {}

    def run(self, title: str, *words: str | Path, module: str = "harness") -> Step:
        """Run a command, of the harness with `--json`, and return its step. Raises SystemExit if the command fails."""
        is_harness, texts = module == "harness", [str(word) for word in words]
        program = ["harness"] if is_harness else ["python", "-m", module]
        typed = shlex.join([*program, *(text.removeprefix(f"{self._folder}/") for text in texts)])
        if typed not in self._steps:
            print(f"  {typed}", file=sys.stderr, flush=True)
            began_at, at = time.monotonic(), time.time()
            command = [sys.executable, "-m", module, *texts, *["--json"] * is_harness]
            done = subprocess.run(
                command, cwd=self._folder, env=self._environment, stdout=subprocess.PIPE, text=True, check=False
            )
            if done.returncode:
                raise SystemExit(f"`{typed}` ended with {done.returncode}.")
            seconds = time.monotonic() - began_at
            self._steps[typed] = [title, typed, seconds, self._memory_since(at), json.loads(done.stdout or "{}")]
            self._file.write_text(json.dumps(self._steps))
            print(f"  {format_duration(seconds)}", file=sys.stderr, flush=True)
        return Step(*self._steps[typed])

    def _memory_since(self, at: float) -> int:
        """Return the largest memory of the processes of runs since `at`, in bytes; 0 if it was not sampled."""
        memory = [0]
        for store in self._folder.glob("home/runs/*/run.db"):
            with RunReader(store) as reader:
                query = "SELECT MAX(json_extract(sample, '$.memory')) FROM telemetry WHERE at >= ?"
                memory += [int(largest or 0) for (largest,) in reader.query(query, at)]
        return max(memory)


def write_texts(folder: Path) -> dict[str, Path]:
    """Write the public texts, each paragraph in one line, and return their files by name."""
    texts = founding_documents(folder) | {name: licence(name) for name in _LICENCES}
    files = {}
    for name, text in texts.items():
        files[name] = folder / f"{name}.txt"
        files[name].write_text("\n\n".join(paragraphs_of(text)) + "\n", encoding="utf-8")
    return files


def audit_public_texts(session: Session, model: Path, texts: dict[str, Path]) -> list[Step]:
    """Run three audits on public texts."""
    target = ("--target", model)
    short = ("--near", "0", "--inexact", "0")
    return [
        session.run("sequence", "audit", "sequence", texts["declaration"], *target),
        session.run("leakage", "audit", "leakage", texts["constitution"], *target, "--limit", "64", *short),
        session.run(
            "book", "audit", "book", texts["BSD"], texts["Apache-2.0"], *target, "--stride", "100", "--near", "0"
        ),
    ]


def audit_through_server(session: Session, inputs: Inputs) -> list[Step]:
    """Audit Gemma once more through the server of llama-cpp-python, if that is installed."""
    if importlib.util.find_spec("llama_cpp") is None:
        print("  llama-cpp-python is not installed: no audit through its server.", file=sys.stderr)
        return []
    address, options = f"127.0.0.1:{_PORT}", ("--host", "127.0.0.1", "--port", str(_PORT), "--logits_all", "true")
    command = [sys.executable, "-m", "llama_cpp.server", "--model", str(inputs.gemma), "--n_ctx", "1024", *options]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            _wait_for(server)
            served = ("--endpoint", f"http://{address}/v1", "--endpoint-model", inputs.gemma.name)
            limits = ("--requests-per-minute", "600", "--timeout", "300")
            text = inputs.texts["declaration"]
            return [session.run("sequence, served", "audit", "sequence", text, *served, *limits)]
        finally:
            server.terminate()


def _wait_for(server: subprocess.Popen[bytes]) -> None:
    """Return when the server accepts connections. Raises SystemExit if it ends."""
    while server.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", _PORT), timeout=1):
            return
        time.sleep(0.2)
    raise SystemExit("the server of llama-cpp-python does not start.")


def attack_boilerplate(session: Session, inputs: Inputs) -> list[Step]:
    """Make a round from texts that are copied everywhere, run three attacks on it, package one run and verify it."""
    folder = inputs.folder
    corpus = folder / "boilerplate"
    corpus.mkdir(exist_ok=True)
    for name in _LICENCES:
        (corpus / f"{name}.txt").write_bytes(inputs.texts[name].read_bytes())
    (folder / "team.toml").write_text(TEAM)
    (folder / "description.md").write_text(DESCRIPTION)
    sizes = ("--train", "200", "--val", "20", "--test", "40")
    made = session.run("new round", "new", "round", corpus, "--target", inputs.gemma, "-o", folder / "round", *sizes)
    options = ("--round", folder / "round" / "round-test.toml", "--limit", str(_EXAMPLES))
    attacks = [
        session.run("greedy", "run", "greedy", *options),
        session.run("baseline", "run", "baseline", "--set", "trials=4", *options),
        session.run("two_step", "run", "two_step", "--set", "width=2", "--set", "examples=24", *options),
    ]
    package = ("--accept", "partial", "--out", folder / "bundle.zip", "--force")
    verify = ("--own-environment", "--round", folder / "round" / "round-test.toml", "--target", inputs.gemma)
    return [
        made,
        *attacks,
        session.run("bundle create", "bundle", "create", attacks[0].result["id"], *package),
        session.run("bundle verify", "bundle", "verify", folder / "bundle.zip", *verify),
    ]


def compare_with_copy(session: Session, inputs: Inputs) -> Step:
    """Compare a GGUF file with a float32 copy that `transformers` makes of it, which should not differ."""
    copy = inputs.folder / "smollm2-float32"
    write_plain_copy(inputs.smollm2, copy)
    options = ("--limit", "32", "--target", copy, "--target", inputs.smollm2)
    return session.run("compare with a float32 copy", "audit", "compare", inputs.texts["constitution"], *options)


def audit_trained_adapter(session: Session, inputs: Inputs) -> list[Step]:
    """Train an adapter on texts with several numbers of copies, and show which of them it has learned by heart."""
    folder = inputs.folder
    base, tuned = folder / "smollm2-float32", folder / "tuned"
    model = ("--target", tuned / "adapter", "--base", base)
    return [
        session.run("training", base, tuned, "--learning-rate", "0.002", module="tests.real_model.train_lora"),
        session.run(
            "sequence",
            *("audit", "sequence", tuned / "trained", *model, "--control", tuned / "untrained.txt"),
            *("--out", folder / "learned"),
        ),
        session.run("leakage", "audit", "leakage", tuned / "trained.jsonl", *model, "--near", "0", "--inexact", "0"),
        session.run(
            "compare",
            *("audit", "compare", tuned / "trained.jsonl", "--target", base, *model),
            *("--control", tuned / "untrained.jsonl", "--copies", tuned / "copies.npy"),
        ),
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run everything and print the page, or write it."""
    parser = argparse.ArgumentParser(prog="python -m tests.real_model", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folder", type=Path, help="directory of models, texts and runs; by default a temporary one")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    options = parser.parse_args(arguments)
    print("The models are downloaded under these terms:", file=sys.stderr)
    for model in (GEMMA, SMOLLM2):
        print(f"  {model.terms}", file=sys.stderr)
    with tempfile.TemporaryDirectory() as temporary:
        folder = (options.folder or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        session = Session(folder)
        inputs = Inputs(folder, fetch(GEMMA, folder), fetch(SMOLLM2, folder), write_texts(folder))
        parts = {
            "Gemma 3 270M, base model, Q4_K_M": [
                *audit_public_texts(session, inputs.gemma, inputs.texts),
                *audit_through_server(session, inputs),
                *attack_boilerplate(session, inputs),
            ],
            "SmolLM2 135M Instruct, Q4_1": [
                *audit_public_texts(session, inputs.smollm2, inputs.texts),
                compare_with_copy(session, inputs),
            ],
        }
        page = written_page(parts, audit_trained_adapter(session, inputs), folder / "learned")
    if options.write:
        PAGE.write_text(page, encoding="utf-8")
    else:
        print(page)


if __name__ == "__main__":
    main()
