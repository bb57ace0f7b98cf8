"""An attack as a job: its round's rows go in, its guesses come out, and a submission is what they come to."""

import time
from pathlib import Path

from harness.core import requests
from harness.core.examples import load_answers, load_prefixes, load_training
from harness.core.files import remove_tree
from harness.jobs.attack.request import AttackRequest
from harness.jobs.attack.spec import AttackSpec
from harness.runs.folder import RunFolder
from harness.runs.reader import RunReader
from harness.runs.store import RunStore
from harness.supervisor.guess_intake import GuessIntake
from harness.supervisor.intake import Intake
from harness.supervisor.job import Job, target_config
from harness.supervisor.running_curve import RunningCurve


class AttackJob(Job[AttackSpec]):
    """One attack on one round."""

    noun = "attack"
    row_noun = "guess"

    def __init__(self, folder: RunFolder, spec: AttackSpec) -> None:
        super().__init__(folder, spec)
        self.hidden = tuple(spec.round.files)
        answers = load_answers(spec.round)
        self._curve = RunningCurve(
            None if answers is None else answers[: spec.examples],
            examples=spec.examples,
            error_cap=spec.error_cap,
            row_cap=spec.round.row_cap,
            per_example=spec.attack.guesses_per_example,
        )
        with RunReader(folder.store) as reader:
            self._committed = reader.committed(suffix_length=spec.round.suffix_length, vocabulary=spec.round.vocabulary)
            self._guesses_before = reader.guess_count()
        self._curve.add(self._committed.batches, self._committed.guesses)
        self._intake: Intake | None = None

    @property
    def readable(self) -> tuple[Path, ...]:
        return (self.folder.code,)

    @property
    def most_result_bytes(self) -> int:
        rules, per_example = self.spec.round, self.spec.attack.guesses_per_example
        rows = min(rules.row_cap, self.spec.examples * per_example) if per_example else rules.row_cap
        return rows * (16 + rules.suffix_length * (1 + len(str(rules.vocabulary))))

    def intake(self, store: RunStore) -> Intake:
        self._intake = GuessIntake(store, self.spec, self._curve, guesses=self._guesses_before)
        return self._intake

    def lay_inputs(self, *, finish_at: float) -> None:
        spec = self.spec
        with RunReader(self.folder.store) as reader:
            loaded = reader.last_event("worker_target")
            order = AttackRequest(
                attack_file=self.folder.code / spec.attack.file,
                params=spec.params,
                seed=spec.seed,
                suffix_length=spec.round.suffix_length,
                vocabulary=spec.round.vocabulary,
                guesses_per_example=spec.attack.guesses_per_example,
                uses_target=spec.attack.uses_target,
                target=None if spec.target is None else target_config(spec.target),
                finish_at=finish_at,
                done=reader.done_keys(),
                rows_at_once=None if loaded is None else int(loaded["rows_at_once"]),
                engine_rows=reader.engine_calls(),
            )
            kept = reader.kept()
        remove_tree(self.folder.scratch)
        # Of what was committed the worker gets the rows of batches that are done: the others are void as soon as their
        # batch is run again. None of these files is one of the round's.
        requests.write_inputs(
            self.folder.scratch / "inputs",
            order,
            prefixes=load_prefixes(spec.round)[: spec.examples],
            training=load_training(spec.round),
            kept=kept,
            guesses=self._committed.guesses.part(self._committed.is_done.nonzero()[0]),
        )

    def look(self, store: RunStore, *, at: float, spent: float, is_last: bool = False) -> None:
        if not is_last and not self._curve.is_due(at):
            return
        # Ranking millions of guesses takes seconds, and the ledger's own connection must not wait for it.
        before = time.thread_time()
        standing = self._curve.standing()
        self._curve.postpone(at, time.thread_time() - before)
        with store.transaction():
            store.add_point(
                spent=spent,
                guesses=0 if self._intake is None else self._intake.rows,
                rows=standing.rows,
                solved=standing.solved,
                wrong=standing.wrong,
                recall=standing.recall,
            )
