"""What a worker is handed: the round's rows sliced into files of its own, none of which is a file of the round."""

from harness.core import job
from harness.core.examples import load_prefixes, load_training
from harness.core.job import TargetOrder, WorkerJob
from harness.core.spec import RunSpec
from harness.runs.folder import RunFolder, remove_tree
from harness.runs.reader import CommittedGuesses, RunReader


def lay_inputs(folder: RunFolder, spec: RunSpec, committed: CommittedGuesses, *, finish_at: float) -> None:
    """Make the run's scratch folder anew, with the worker's job and arrays in it.

    `finish_at` is the soft deadline. Of what was `committed` the worker gets the rows of batches that are done: the
    others are void as soon as their batch is run again.
    """
    with RunReader(folder.store) as reader:
        loaded = reader.last_event("worker_target")
        order = WorkerJob(
            attack_file=folder.code / spec.attack.file,
            params=spec.params,
            seed=spec.seed,
            suffix_length=spec.round.suffix_length,
            vocabulary=spec.round.vocabulary,
            guesses_per_example=spec.attack.guesses_per_example,
            uses_target=spec.attack.uses_target,
            target=_target_order(spec),
            finish_at=finish_at,
            done=reader.done_keys(),
            rows_at_once=None if loaded is None else int(loaded["rows_at_once"]),
            engine_rows=reader.engine_calls(),
        )
        kept = reader.kept()
    remove_tree(folder.scratch)
    job.write_inputs(
        folder.scratch / "inputs",
        order,
        prefixes=load_prefixes(spec.round)[: spec.examples],
        training=load_training(spec.round),
        kept=kept,
        guesses=committed.guesses.part(committed.is_done.nonzero()[0]),
    )


def _target_order(spec: RunSpec) -> TargetOrder | None:
    if spec.target is None:
        return None
    target = spec.target
    return TargetOrder(path=target.path, device=target.device, dtype=target.dtype, threads=target.threads)
