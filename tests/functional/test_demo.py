"""The recall on the demo is moderate, and grows with repetitions and trials."""

from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from transformers.models.auto import AutoModelForCausalLM

from harness.cli import run as run_commands
from harness.cli.resolving import resolve_run
from harness.core.arrays import Bools
from harness.core.examples import load_answers
from harness.core.rounds import load_round
from harness.core.scoring import correct_rows
from harness.core.submission_reader import SubmissionRules, read_submission
from harness.demo import ROUND_ARRAYS
from harness.runs.folder import RunFolder
from harness.tui.pages.runs import FIRST_CONTINUATION, FIRST_PREFIX
from tests.functional.machine import ROOT, Machine

EXAMPLES = 200
TRIALS = load_round("demo").presets["baseline"]["trials"]
BANDS = ((1, 5), (8, 33), (33, 65))  # repetitions, half-open


def exact_examples(submission: Path) -> Bools:
    """Return which examples of the demo have a correct suffix, [examples]."""
    round_ = load_round("demo")
    answers = load_answers(round_)
    assert answers is not None
    rows = read_submission(submission, SubmissionRules(len(answers), round_.suffix_length, round_.vocabulary))
    exact = np.zeros(len(answers), np.bool_)
    exact[rows.ids] = correct_rows(rows.ids, rows.suffixes, answers)
    return exact


@pytest.mark.slow
def test_demo_recall_is_in_range_and_grows_with_repetitions_and_trials(machine: Machine) -> None:
    one, summary = (
        machine.json("run", "baseline", "--round", "demo", "--set", f"trials={trials}", "--limit", str(EXAMPLES))
        for trials in (1, TRIALS)
    )
    assert one["recall_at_cap"] + 0.05 < summary["recall_at_cap"]
    assert 0.20 <= summary["recall_at_cap"] <= 0.50
    machine.run("export", summary["id"], "--trials", str(machine.folder / "trials"))
    files = {f"guess{trials}.csv": Path(run["submission"]) for trials, run in ((1, one), (TRIALS, summary))}
    assert all((machine.folder / "trials" / name).read_bytes() == file.read_bytes() for name, file in files.items())
    exact = exact_examples(Path(summary["submission"]))[:EXAMPLES]
    repetitions = np.load(ROUND_ARRAYS / "repetitions.npy")[:EXAMPLES]
    low_band, middle_band, high_band = (
        exact[(low <= repetitions) & (repetitions < high)].mean() for low, high in BANDS
    )
    assert low_band < 0.1 < middle_band < 0.8 < high_band


def test_the_demo_command_attacks_the_bundled_target(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_commands, "resolve_run", lambda request: resolve_run(request.changed(limit=8)))
    summary = machine.json("demo", "--seed", "3")
    spec = RunFolder(Path(summary["directory"])).attack_spec()
    assert (summary["status"], summary["rows"]) == ("finished", 8)
    assert (spec.attack.name, spec.round.name, spec.seed, spec.params["trials"]) == ("baseline", "demo", 3, TRIALS)


def test_the_example_of_the_first_screen_is_what_the_bundled_model_does() -> None:
    weights = ROOT / "harness" / "demo" / "weights"
    tokenizer = Tokenizer.from_file(str(weights / "tokenizer.json"))
    prefix, answer = (np.load(ROUND_ARRAYS / f"{part}.npy")[995].astype(np.int64) for part in ("prefix", "suffix"))
    model = AutoModelForCausalLM.from_pretrained(weights)
    usual = {"do_sample": False, "pad_token_id": 0}
    completion = model.generate(torch.from_numpy(prefix)[None], max_new_tokens=len(answer), **usual)[0, len(prefix) :]
    assert tokenizer.decode(prefix.tolist()).endswith(FIRST_PREFIX)
    assert tokenizer.decode(completion.tolist()) == tokenizer.decode(answer.tolist()) == FIRST_CONTINUATION
