"""Write sweeps whose runs solve known examples of a small round."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from harness.core.run_request import RunRequest
from harness.runs.attack_record import write_results
from harness.runs.folder import RunFolder
from harness.sweeps.file import SweepFile, SweptRun, combinations
from harness.sweeps.record import Sweep, begin_sweep
from tests.records import EXAMPLES, recorded_run


def make_sweep(
    baseline: str | None = "some trials=1",
    *,
    seeds: Sequence[int] = (0, 1),
    trials: Sequence[int] = (1, 4, 16),
    rounds: Sequence[str] = ("small.toml",),
    attacks: Sequence[str] = ("some",),
) -> Sweep:
    """Record a sweep over the trials of each attack, none of whose runs has started."""
    file = SweepFile.model_validate(
        {
            "name": "trials",
            "attacks": attacks,
            "rounds": rounds,
            "seeds": seeds,
            "params": {attack: {"trials": list(trials)} for attack in attacks},
        }
    )
    runs = tuple(combinations(file, uses_target=dict.fromkeys(attacks, False)))
    return begin_sweep(
        Sweep(
            id=file.name,
            created_at=0.0,
            baseline=baseline,
            request=RunRequest(round=""),
            runs=runs,
        )
    )


def record(
    home: Path, run: SweptRun, solved: Iterable[int], *, phase: str = "finished", is_blind: bool = False
) -> RunFolder:
    """Record a run of a sweep that solves some examples and then guesses the others wrong."""
    recorded = recorded_run(home, id_=run.run, is_blind=is_blind)
    solved = list(solved)
    batch = recorded.batch("all/0/0")
    wrong = [example for example in range(EXAMPLES) if example not in solved]
    recorded.guess(batch, [(example, True, 2.0) for example in solved] + [(example, False, 1.0) for example in wrong])
    recorded.supervised_by(1)
    recorded.event("phase", phase=phase, reason="")
    if phase in ("finished", "out_of_time"):
        write_results(recorded.folder, recorded.folder.attack_spec())
    return recorded.folder
