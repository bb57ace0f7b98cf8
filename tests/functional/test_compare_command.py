"""`harness compare` on real runs: pairs, several runs, and errors."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from harness.runs.folder import RunFolder
from tests.functional.machine import EXAMPLES, Machine, leak_examples, wait_until, write_round

REACHABLE = 16
CAP = 8
ESCAPES = "\x1b[31m\u202e"


class Runs(NamedTuple):
    """A machine with runs, and their ids by name."""

    machine: Machine
    ids: dict[str, str]

    def named(self, words: str) -> list[str]:
        return [self.ids[word] for word in words.split()]

    def compared(self, words: str) -> dict[str, Any]:
        return self.machine.json("compare", *self.named(words))

    def printed(self, words: str) -> str:
        return self.machine.run("compare", *self.named(words)).stdout


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Runs on a round of 64 examples, 16 of which are in its training rows. Its error cap is 8."""
    folder = tmp_path_factory.mktemp("compare")
    machine = Machine(folder)
    write_round(folder)
    leak_examples(folder, REACHABLE)
    rules = (folder / "round.toml").read_text() + f"error_cap = {CAP}\n"
    (folder / "round.toml").write_text(rules)
    without_training = "\n".join(line for line in rules.splitlines() if not line.startswith("train_"))
    (folder / "untrained.toml").write_text(without_training.replace('"small"', '"untrained"'))
    (folder / "changed.toml").write_text(rules.replace("answer-", "changed-").replace("cap = 8", "cap = 9"))
    np.save(folder / f"changed-{EXAMPLES}.npy", np.load(folder / f"answer-{EXAMPLES}.npy")[::-1])
    return Runs(
        machine,
        {
            "better": machine.executed("replay", *machine.replaying("better", range(40))).id,
            "worse": machine.executed("replay", *machine.replaying(f"worse{ESCAPES}", range(20, 44)), "--seed", "1").id,
            "draws": machine.executed("draws", "--set", "pause=0.01").id,
            "limited": machine.executed("draws", "--set", "pause=0", "--limit", "32").id,
            "changed": machine.executed("draws", "--set", "pause=0", round_="changed.toml").id,
            "untrained": machine.executed("draws", "--set", "pause=0", round_="untrained.toml").id,
            "untrained-too": machine.executed("draws", "--set", "pause=0", round_="untrained.toml").id,
        },
    )


@pytest.mark.slow
def test_not_in_train_recall_is_given_over_time(runs: Runs) -> None:
    for run in runs.compared("better worse draws")["runs"]:
        in_time, at_budget = run["not_in_train_over_time"], run["not_in_train_at_budget"]
        assert [point["share"] for point in at_budget] == [0.01, 0.1, 1.0]
        assert at_budget[-1]["recall"] == in_time[-1]["recall"] == run["not_in_train_score"]["recall_at_cap"]
        assert [point["spent"] for point in in_time] == sorted(point["spent"] for point in in_time)
    (untrained, _) = runs.compared("untrained untrained-too")["runs"]
    assert untrained["not_in_train_over_time"] is untrained["not_in_train_at_budget"] is None


def test_compare_and_score_agree(runs: Runs) -> None:
    for run in runs.compared("better worse")["runs"]:
        curve = run["score"].pop("curve")
        assert run["score"].items() <= runs.machine.json("score", run["id"]).items()
        assert curve["recall"][curve["errors"].index(CAP)] == run["score"]["recall_at_cap"]


def test_a_pair_is_compared_by_example(runs: Runs) -> None:
    pair = runs.compared("better worse")["contrast"]
    assert (pair["difference"], pair["difference_interval_unit"]) == (0.25, "example")
    low, high = pair["difference_interval"]
    assert low < 0.25 < high
    assert (pair["only_first"], pair["only_second"]) == ([*range(20)], [40, 41, 42, 43])
    assert pair["mcnemar_p"] == pytest.approx(0.0015, abs=1e-4)
    assert pair["mcnemar_caveat"] == "ignores overlap between examples"


def test_not_in_train_examples_are_compared_separately(runs: Runs) -> None:
    found = runs.compared("better worse")
    assert (found["not_in_train_examples"], found["not_in_train_error_cap"]) == (EXAMPLES - REACHABLE, 6)
    assert [run["not_in_train_score"]["recall_at_cap"] for run in found["runs"]] == [0.5, 0.5]
    pair = found["not_in_train_contrast"]
    assert (pair["difference"], pair["mcnemar_p"]) == (0, 1)
    assert (pair["only_first"], pair["only_second"]) == ([16, 17, 18, 19], [40, 41, 42, 43])


def test_a_round_without_training_rows_has_no_not_in_train_part(runs: Runs) -> None:
    found = runs.compared("untrained untrained-too")
    assert (
        found["not_in_train_absent_because"]
        == "round untrained has no training rows to overlap with. Choose another round."
    )
    assert found["not_in_train_examples"] is found["not_in_train_contrast"] is None
    assert found["runs"][0]["not_in_train_score"] is None
    assert "no training rows" in runs.printed("untrained untrained-too")


def test_different_settings_are_listed_by_run(runs: Runs) -> None:
    differing = runs.compared("better draws worse")["differing"]
    assert differing["seed"] == [0, 0, 1]
    assert differing["attack.name"] == ["replay", "draws", "replay"]
    assert differing["params.pause"] == [None, 0.01, None]
    assert {"params.source", "sha256.source", "attack.sha256"} <= set(differing)
    assert not {name.split(".")[0] for name in differing} & {"versions", "hardware", "target", "budget_s"}
    assert runs.compared("untrained untrained-too")["differing"] == {}


def test_rate_and_recall_by_budget_come_from_the_record(runs: Runs) -> None:
    (draws, replayed) = runs.compared("draws better")["runs"]
    shown = runs.machine.json("show", draws["id"])
    assert (draws["elapsed_s"], draws["guesses"]) == (shown["elapsed_s"], shown["guesses"])
    # Three draws per example, and one in the second stage.
    assert draws["suffixes_per_s"] == pytest.approx(EXAMPLES * 4 / draws["elapsed_s"], rel=0.01)
    assert [at["share"] for at in replayed["recall_at_budget"]] == [0.01, 0.1, 1.0]
    assert replayed["recall_at_budget"][-1]["recall"] == replayed["recall_over_time"][-1]["recall"] == 0.625
    assert replayed["recall_over_time"][0] == {"spent": 0, "recall": 0}


@pytest.mark.slow
def test_a_running_run_has_no_recall_at_the_end_of_its_budget(machine: Machine) -> None:
    running = [machine.detached("patient", "--seed", seed, "--budget", "200s") for seed in ("0", "1")]

    def is_running(folder: RunFolder) -> bool:
        summary = machine.summary(folder)
        return summary["elapsed_s"] > 2.1 and summary["status"] == "running"

    wait_until(lambda: all(map(is_running, running)))
    found = machine.json("compare", *(folder.id for folder in running))
    for run in found["runs"]:
        assert [at["recall"] for at in run["recall_at_budget"]] == [0, None, None]
        assert run["status"] == "running"
    # What a run has not attacked yet is no miss of its attack.
    assert found["contrast"] is None and len(found["not_tested_because"]) == 2
    printed = machine.run("compare", *(folder.id for folder in running)).stdout
    assert "McNemar" not in printed and all(f"{folder.id} is running and has" in printed for folder in running)


def test_runs_of_a_blind_round_can_be_compared_once_it_has_answers(machine: Machine) -> None:
    hidden = (machine.folder / f"answer-{EXAMPLES}.npy").rename(machine.folder / "elsewhere.npy")
    ids = [machine.executed("draws", "--set", "pause=0", "--seed", seed).id for seed in ("0", "1")]
    refused = machine.run("compare", *ids, code=1)
    assert refused.stderr == "harness: round small is blind. Score each run: `harness score RUN --answers NPY`.\n"
    # A file that is not next to its round is searched in the data directory.
    (machine.folder / "data").mkdir(exist_ok=True)
    hidden.rename(machine.folder / "data" / f"answer-{EXAMPLES}.npy")
    (run, _) = machine.json("compare", *ids)["runs"]
    assert {point["recall"] for point in run["recall_over_time"]} == {0}
    assert run["recall_at_budget"][-1]["recall"] == 0


def test_a_pair_is_printed_without_control_characters(runs: Runs) -> None:
    text = runs.printed("better worse")
    better, worse = runs.named("better worse")
    for line in (
        "round small, 64 examples",
        "48 examples that are not in the training rows",
        "Recall@8 after a share of the budget, and Recall@6 on the 48 examples not in the training rows",
        f"{better} − {worse}, on all examples",
        f"solved within the error cap only by {better}: 20 (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, …)",
        f"solved within the error cap only by {worse}: 4 (40, 41, 42, 43)",
    ):
        assert line in text.splitlines()
    assert "difference +0.250 [" in text and "(ignores overlap between examples)" in text
    assert "worse�[31m�.csv" in text
    assert not {"\x1b", "\u202e"} & set(text)


def test_more_than_two_runs_have_no_pairwise_comparison(runs: Runs) -> None:
    found = runs.compared("better worse draws")
    assert found["contrast"] is found["not_in_train_contrast"] is None
    assert [run["id"] for run in found["runs"]] == runs.named("better worse draws")
    assert "McNemar" not in runs.printed("better worse draws")


def test_curves_are_written_to_a_file(runs: Runs) -> None:
    file = runs.machine.folder / "curves.svg"
    runs.machine.run("compare", *runs.named("better worse draws"), "--plot", str(file))
    assert "<svg" in file.read_text()
    refused = runs.machine.run("compare", *runs.named("better worse"), "--plot", "curves.pdf", code=2)
    assert "unknown figure format. Use .svg or .png" in refused.stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("better", "a comparison needs at least two runs. `harness list runs` lists them."),
        ("better better", "{0} is given twice. Compare different runs."),
        ("better draws better", "{0} is given twice. Compare different runs."),
        (
            "draws untrained",
            "{0} attacked round small and {1} round untrained. Compare runs of one round.",
        ),
        (
            "draws changed",
            "{0} and {1} attacked rounds named small that differ in answer_file, error_cap. Compare runs of one round.",
        ),
        (
            "draws limited",
            "{0} attacked 64 examples and {1} 32. Compare runs with the same --limit.",
        ),
    ],
)
def test_runs_that_cannot_be_compared_are_refused(runs: Runs, words: str, sentence: str) -> None:
    is_usage = "twice" in sentence or "at least two" in sentence
    refused = runs.machine.run("compare", *runs.named(words), code=2 if is_usage else 1)
    assert refused.stdout == ""
    assert refused.stderr == f"harness: {sentence.format(*runs.named(words))}\n"


def test_an_unknown_run_is_named(runs: Runs) -> None:
    refused = runs.machine.run("compare", *runs.named("better"), "absent", code=2)
    assert "unknown run 'absent'" in refused.stderr


def test_a_run_without_a_store_is_refused(runs: Runs) -> None:
    gone = Path(runs.machine.attack("draws", "--set", "pause=0")["directory"])
    (gone / "run.db").unlink()
    refused = runs.machine.run("compare", *runs.named("better"), gone.name, code=1)
    assert (
        refused.stderr == f"harness: {gone / 'run.db'}: the run has no store. Restore the file, or start a new run.\n"
    )
