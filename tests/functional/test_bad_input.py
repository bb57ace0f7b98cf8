"""Targets and files that do not fit the round are refused, or end the run with a reason."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import GPTNeoConfig
from transformers.models.auto import AutoModelForCausalLM

from harness.runs.folder import RunFolder
from harness.runs.summary import run_status
from tests.functional.machine import EXAMPLES, VOCABULARY, Machine, guess_count, kill_worker, wait_until

OVERFLOWING_POSITION = 11
UNTAUGHT = 'base = "demo"\nname = "untaught"\ntrain_prefix_file = ""\ntrain_suffix_file = ""\n'


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small random models without tokenizers. Only `fitting` and `padded` fit the round of 8 + 8 tokens."""
    folder = tmp_path_factory.mktemp("models")
    fitting: dict[str, Any] = {
        "vocab_size": VOCABULARY,
        "hidden_size": 16,
        "num_layers": 2,
        "attention_types": [[["global", "local"], 1]],
        "num_heads": 2,
        "max_position_embeddings": 24,
    }
    configurations = {
        "fitting": GPTNeoConfig(**fitting),
        "small": GPTNeoConfig(**fitting | {"vocab_size": 40_000}),
        "large": GPTNeoConfig(**fitting | {"vocab_size": VOCABULARY + 2000}),
        "padded": GPTNeoConfig(**fitting | {"vocab_size": VOCABULARY + 47}),
        "short": GPTNeoConfig(**fitting | {"max_position_embeddings": 15}),
    }
    for name, configuration in configurations.items():
        torch.manual_seed(7)
        AutoModelForCausalLM.from_config(configuration).save_pretrained(folder / name)
    (folder / "overflowing").mkdir()
    (folder / "overflowing" / "config.json").write_bytes((folder / "fitting" / "config.json").read_bytes())
    tensors = load_file(folder / "fitting" / "model.safetensors")
    tensors["transformer.wpe.weight"][OVERFLOWING_POSITION] = 3e38
    save_file(tensors, folder / "overflowing" / "model.safetensors", metadata={"format": "pt"})
    return folder


def _refused(machine: Machine, *arguments: str) -> str:
    """Return the error of a refused run, which leaves no directory."""
    done = machine.run("run", *arguments, *machine.plugin(), code=1)
    assert done.stdout == "" and machine.folders() == []
    (sentence,) = done.stderr.splitlines()
    return sentence


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("small", "predicts 40,000 tokens and the round has 50,257"),
        ("large", "predicts 52,257 tokens and the round has 50,257, so its tokenizer is another one"),
        ("short", "has a context of 15 tokens and the round's prefix and suffix need 16"),
    ],
)
def test_a_target_that_does_not_fit_the_round_is_refused(machine: Machine, models: Path, name: str, words: str) -> None:
    assert words in _refused(machine, "greedy", "--target", str(models / name))


@pytest.mark.slow
def test_a_target_with_a_padded_vocabulary_runs(machine: Machine, models: Path) -> None:
    folder = machine.executed("greedy", "--target", str(models / "padded"))
    assert len(folder.submission.read_text().splitlines()) == 1 + EXAMPLES


@pytest.mark.slow
def test_a_vocabulary_missing_from_the_configuration_ends_the_run(machine: Machine, models: Path) -> None:
    configuration = json.loads((models / "large" / "config.json").read_text())
    del configuration["vocab_size"]
    folder = machine.folder / "quiet"
    folder.mkdir()
    # The default vocabulary of GPT-Neo has 50,257 tokens.
    (folder / "config.json").write_text(json.dumps(configuration))
    (folder / "model.safetensors").write_bytes((models / "fitting" / "model.safetensors").read_bytes())
    write = machine.folder / "round.toml"
    write.write_text(write.read_text() + "vocabulary = 50300\n")
    summary = machine.attack("greedy", "--target", str(folder), code=1)
    assert (summary["status"], summary["guesses"]) == ("crashed", 0)
    assert summary["reason"] == "the model predicts 50257 tokens and the round has 50300. Choose another model."


@pytest.mark.slow
def test_a_target_that_overflows_ends_the_run(machine: Machine, models: Path) -> None:
    summary = machine.attack("greedy", "--target", str(models / "overflowing"), code=1)
    assert (summary["status"], summary["guesses"]) == ("crashed", 0)
    assert summary["reason"].startswith("the target returned NaN") and " in float32. " in summary["reason"]


@pytest.mark.slow
def test_a_target_without_a_tokenizer_is_shown_by_token_ids(machine: Machine, models: Path) -> None:
    options = ["--set", "ranker=zlib", "--set", "trials=2", "--limit", "4"]
    folder = machine.executed("sampling", "--target", str(models / "fitting"), *options)
    answer = np.load(machine.folder / "answer-64.npy")[2]
    shown = machine.run("show", folder.id, "--example", "2").stdout
    assert " ".join(map(str, answer)) in shown


@pytest.mark.slow
def test_too_little_memory_for_a_batch_loses_no_guess(machine: Machine, models: Path) -> None:
    summary = machine.attack("out_of_memory", "--set", "rows=4", "--target", str(models / "fitting"))
    assert (summary["status"], summary["rows"]) == ("finished", EXAMPLES)


@pytest.mark.slow
def test_a_run_that_lacked_memory_and_was_killed_ends_with_the_same_bytes(machine: Machine, models: Path) -> None:
    options = ("--set", "rows=4", "--target", str(models / "fitting"))
    reference = machine.attack("out_of_memory", *options)
    folder = machine.detached("out_of_memory", *options, "--set", "pause=2")
    # The second batch has run out of memory, and the fourth has not begun.
    wait_until(lambda: guess_count(folder) >= 32)
    kill_worker(folder)
    wait_until(lambda: run_status(folder).is_over)
    assert str(run_status(folder)) == "crashed"
    resumed = machine.json("resume", folder.id)
    assert (resumed["status"], resumed["rows"]) == ("finished", EXAMPLES)
    assert folder.submission.read_bytes() == Path(reference["submission"]).read_bytes()


@pytest.mark.slow
def test_too_little_memory_for_one_sequence_keeps_earlier_guesses(machine: Machine, models: Path) -> None:
    summary = machine.attack("out_of_memory", "--set", "rows=0", "--target", str(models / "fitting"), code=1)
    assert (summary["status"], summary["rows"]) == ("crashed", 16)
    assert summary["reason"] == (
        "out of memory on cpu: no room for one sequence at a time. Free memory or use a smaller --dtype than float32."
    )


def test_an_invalid_file_is_named_before_the_run_starts(machine: Machine) -> None:
    prefixes, answers = (machine.folder / f"{part}-{EXAMPLES}.npy" for part in ("prefix", "answer"))
    rows, known = np.load(prefixes), np.load(answers)
    for file, content, words in (
        (prefixes, np.tile(rows, 2), "expected rows of 8 tokens, as in the round, found 16"),
        (prefixes, rows[:0], "round small has no examples"),
        (answers, known[1:], "63 answers for 64 prefixes"),
    ):
        np.save(file, content)
        assert words in _refused(machine, "draws")
        np.save(prefixes, rows)
    np.save(answers, known)
    (machine.folder / f"train_suffix-{EXAMPLES}.npy").unlink()
    assert "no such file: " in (refusal := _refused(machine, "draws")) and f"train_suffix-{EXAMPLES}.npy" in refusal


@pytest.mark.slow
def test_two_step_runs_without_training_examples(machine: Machine) -> None:
    (machine.folder / "untaught.toml").write_text(UNTAUGHT)
    options = ("--set", "width=2", "--target", "demo-tiny", "--limit", "8")
    summary = machine.attack("two_step", *options, round_="untaught.toml")
    assert (summary["status"], summary["rows"]) == ("finished", 16)
    assert "the round has no training examples, so the likelihood orders the candidates." in (
        RunFolder(Path(summary["directory"])).log.read_text()
    )
    assert "8 of 1,000 examples, no training examples" in machine.run("show", summary["id"]).stdout


@pytest.mark.slow
def test_an_attack_that_needs_training_examples_says_so(machine: Machine) -> None:
    (machine.folder / "untaught.toml").write_text(UNTAUGHT)
    refused = machine.attack("ethicist", "--limit", "8", "--target", "demo-tiny", round_="untaught.toml", code=1)
    assert (refused["status"], refused["guesses"]) == ("crashed", 0)
    assert refused["reason"].startswith("the attack needs training examples, and the round has none. Use a")
