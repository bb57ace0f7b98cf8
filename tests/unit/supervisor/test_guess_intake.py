"""The supervisor checks and scores the frames that an attack's worker sends."""

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from harness.core.errors import HarnessError
from harness.core.frames import Frame, FrameReader, encode_frame
from harness.core.guesses import Guesses
from harness.core.requests import read_kept, write_state
from harness.runs.attack_record import submission_of
from harness.runs.guess_reader import GuessReader
from harness.runs.reserve import Reserve
from harness.supervisor.attack_job import AttackJob
from harness.supervisor.execution import Execution
from harness.supervisor.intake import Intake, IntakeError
from harness.supervisor.ledger import Budget
from harness.supervisor.worker_process import WorkerSlot
from harness.worker.attack_job import AttackContext
from tests.records import Recorded, recorded_run

MEBIBYTE = 1 << 20
LONG = "x" * 60_000


@pytest.fixture
def run(home: Path) -> Recorded:
    return recorded_run(home)


@pytest.fixture
def job(run: Recorded) -> AttackJob:
    return AttackJob(run.folder, run.folder.attack_spec())


@pytest.fixture
def intake(run: Recorded, job: AttackJob) -> Intake:
    return job.intake(run.store)


def kept(name: str, value: float) -> Frame:
    return Frame(
        "kept", 8, {"data": np.array([float(value)]).view(np.uint8)}, {"name": name, "shape": "1", "dtype": "<f8"}
    )


def begin(key: str) -> Frame:
    return Frame("begin", fields={"key": key, "weight": 1.0})


def guess(run: Recorded, rows: list[tuple[int, bool, float]], key: str = "a") -> Frame:
    """Return a frame of guesses: example, whether it is correct, score."""
    ids = np.array([example for example, _, _ in rows])
    suffixes = run.answers[ids].astype(np.uint16)
    suffixes[[not is_correct for _, is_correct, _ in rows], 0] ^= 1
    scores = np.array([score for _, _, score in rows], np.float64)
    return Frame("guess", len(ids), Guesses(ids, suffixes, scores).columns(), {"key": key})


def submitted(run: Recorded) -> tuple[int, list[int]]:
    """Return the number of solved examples and the example ids of the current submission."""
    spec = run.folder.attack_spec()
    with GuessReader.of_run(run.folder, spec) as reader:
        submission, point = submission_of(spec, reader), reader.points()[-1]
    assert point.rows == len(submission.ids)
    return int(point.solved or 0), submission.ids.tolist()


def test_an_array_that_is_kept_repeatedly_counts_once(run: Recorded, intake: Intake) -> None:
    for step in range(300):
        with run.store.transaction():
            intake.take(kept("tuning", step), size=5 * MEBIBYTE)
    with GuessReader.of_run(run.folder, run.folder.attack_spec()) as reader:
        assert {name: array.tolist() for name, array in reader.kept_arrays().items()} == {"tuning": [299.0]}


def test_keeping_too_much_is_refused(run: Recorded, intake: Intake) -> None:
    with run.store.transaction():
        for number in range(4):
            intake.take(kept(f"part {number}", number), size=256 * MEBIBYTE)
        with pytest.raises(IntakeError, match="more than 1024 MiB of kept"):
            intake.take(kept("part 4", 4), size=MEBIBYTE)


def test_the_recorded_score_follows_a_repeated_batch(run: Recorded, job: AttackJob, intake: Intake) -> None:
    with run.store.transaction():
        intake.take(begin("a"), 10)
        intake.take(guess(run, [(0, True, 1.0), (1, True, 0.5)]), 10)
    job.record_score(run.store, at=0.0, spent=1.0)
    assert submitted(run) == (2, [0, 1])
    with run.store.transaction():
        intake.take(begin("a"), 10)
        intake.take(guess(run, [(2, True, 0.5)]), 10)
    job.record_score(run.store, at=1000.0, spent=2.0)
    assert submitted(run) == (1, [2])


def test_the_recorded_score_follows_a_lowered_guess(run: Recorded, job: AttackJob, intake: Intake) -> None:
    with run.store.transaction():
        intake.take(begin("a"), 10)
        intake.take(guess(run, [(0, False, 2.0), (0, True, 1.0)]), 10)
    job.record_score(run.store, at=0.0, spent=1.0)
    assert submitted(run) == (0, [0])
    with run.store.transaction():
        intake.take(guess(run, [(0, False, 0.5)]), 10)
    job.record_score(run.store, at=1000.0, spent=2.0)
    assert submitted(run) == (1, [0])


def test_the_recorded_score_follows_a_final_order(run: Recorded, job: AttackJob, intake: Intake) -> None:
    final = Frame("final", 2, {"example": np.array([3, 4]), "suffix": run.answers[[3, 4]].astype(np.uint16)})
    with run.store.transaction():
        intake.take(begin("a"), 10)
        intake.take(guess(run, [(0, True, 1.0)]), 10)
        intake.take(final, 10)
        intake.take(guess(run, [(1, True, 1.0)]), 10)
    job.record_score(run.store, at=0.0, spent=1.0)
    assert submitted(run) == (2, [3, 4])
    # A resumed run uses the final order too.
    resumed = AttackJob(run.folder, run.folder.attack_spec())
    resumed.intake(run.store)
    resumed.record_score(run.store, at=0.0, spent=3.0, is_last=True)
    assert submitted(run) == (2, [3, 4])


def test_a_worker_is_told_the_same_after_a_right_and_after_a_wrong_guess(home: Path) -> None:
    told, solved = [], []
    for is_right in (True, False):
        run = recorded_run(home, id_=f"{'right' if is_right else 'wrong'}-run")
        job = AttackJob(run.folder, run.folder.attack_spec())
        execution = Execution(job, run.store, Budget(60.0), Reserve(run.folder.reserve), [()])
        frames_in, frames_out = os.pipe()
        for sequence, frame in enumerate([begin("a"), guess(run, [(0, is_right, 1.0)])]):
            os.write(frames_out, encode_frame(frame, sequence))
        sent: list[tuple[Any, ...]] = []
        process = SimpleNamespace(frames=frames_in, send=lambda *words, sent=sent: sent.append(words))
        assert execution._take_frames(WorkerSlot(0, run.folder.scratch_of(0), (), cast(Any, process)))
        os.close(frames_in)
        os.close(frames_out)
        job.record_score(run.store, at=0.0, spent=1.0)
        told.append(sent)
        solved.append(submitted(run)[0])
    assert solved == [1, 0] and told == [[("ack", 1)], [("ack", 1)]]


def test_a_score_is_recorded_only_when_it_is_due(run: Recorded, job: AttackJob, intake: Intake) -> None:
    with GuessReader.of_run(run.folder, run.folder.attack_spec()) as reader:
        job.record_score(run.store, at=0.0, spent=0.0)
        assert reader.points() == []
        for at, expected in ((0.0, 1), (0.1, 1), (1000.0, 2)):
            with run.store.transaction():
                intake.take(begin(f"{at}"), 10)
                intake.take(guess(run, [(0, True, at)], key=f"{at}"), 10)
            job.record_score(run.store, at=at, spent=at)
            assert len(reader.points()) == expected


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"example": np.array([99])}, r"example id 99, but the round has the ids 0\.\.15"),
        ({"example": np.array([1 << 63], np.uint64)}, "column example is uint64"),
        ({"suffix": np.full((1, 4), 65_000, np.uint16)}, r"token 65000, but the vocabulary is 0\.\."),
        ({"suffix": np.full((1, 4), -1)}, "token -1, but the vocabulary"),
        ({"suffix": np.zeros((1, 5), np.uint16)}, "suffixes of 5 tokens, but the round has suffixes of 4"),
        ({"score": np.array([np.nan])}, "a score that is NaN, for example id 0"),
        ({"trial": np.array([-1])}, "trial -1"),
        ({"example": np.array([0.5])}, "column example is float64"),
        ({"more": np.array([1])}, "not those of the table"),
    ],
)
def test_guesses_that_do_not_fit_the_round_are_refused(
    run: Recorded, intake: Intake, columns: dict[str, np.ndarray], message: str
) -> None:
    frame = guess(run, [(0, True, 1.0)])
    forged = Frame("guess", 1, {**frame.columns, **columns}, frame.fields)
    with run.store.transaction(), pytest.raises(IntakeError, match=message):
        intake.take(begin("a"), 10)
        intake.take(forged, 10)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (Frame("ledger", fields={"entry": "end", "spent": 0.0}), "a frame for the unknown table 'ledger'"),
        (Frame("plan", fields={"stage": LONG, "weight": 1.0}), "plan whose stage is not a text of at most 200 char"),
        (Frame("done", fields={"key": LONG}), "a frame for done whose key is not a text of at most 200 characters"),
        (Frame("guess", 1, {LONG: np.zeros(1)}), "an invalid frame for guess"),
        (
            Frame("guess", 1, Guesses([0], np.zeros((1, 4), np.int64), [0.0]).columns(), {"key": "never begun"}),
            r"an invalid frame for guess \(KeyError\('never begun'\)\)",
        ),
    ],
)
def test_a_frame_that_no_honest_worker_sends_is_refused(
    run: Recorded, intake: Intake, frame: Frame, message: str
) -> None:
    with run.store.transaction(), pytest.raises(IntakeError, match=message) as refusal:
        intake.take(frame, 10)
    assert len(str(refusal.value)) < 250


@pytest.mark.parametrize(
    ("frame_of", "message"),
    [
        (lambda number: Frame("event", fields={"name": "started"}), "more than 10,000 events"),
        (lambda number: kept(f"{number}", 0.0), "more than 10,000 kept arrays"),
    ],
)
def test_too_many_frames_are_refused(
    run: Recorded, intake: Intake, frame_of: Callable[[int], Frame], message: str
) -> None:
    with run.store.transaction():
        for number in range(10_000):
            intake.take(frame_of(number), 10)
        with pytest.raises(IntakeError, match=message):
            intake.take(frame_of(10_000), 10)


ARRAYS = [
    *(np.arange(6).reshape(2, 3).astype(dtype) for dtype in "?bhilqBHILQefdgFDG"),
    np.array([True, False, True]),
    np.array(["", "añ"]),
    np.array([b"a", b"bc"]),
    np.array(["2020-01-01"], "M8[D]"),
    np.array(3.5),
    np.zeros((0, 4), np.float16),
    np.arange(6).reshape(2, 3).T,
    np.arange(4, dtype=">i4"),
]


def context_of(folder: Path, sent: list[Frame]) -> AttackContext:
    """Return a context whose channel appends frames to `sent`, after they were bytes."""

    def send(table: str, columns: dict[str, Any] | None = None, **fields: Any) -> None:
        rows = len(next(iter((columns or {"": ()}).values())))
        sent.extend(
            frame for _, _, frame in FrameReader().feed(encode_frame(Frame(table, rows, columns or {}, fields), 0))
        )

    np.save(folder / "prefixes.npy", np.zeros((4, 2), np.uint16))
    request = SimpleNamespace(suffix_length=2, vocabulary=9, seed=0, done=(), batch_sizes={}, workers=1)
    return AttackContext(cast(Any, request), folder, cast(Any, SimpleNamespace(send=send)))


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: f"{array.dtype.str}{list(array.shape)}")
def test_a_kept_array_returns_with_its_dtype(run: Recorded, tmp_path: Path, array: np.ndarray) -> None:
    sent: list[Frame] = []
    context = context_of(tmp_path, sent)
    context.keep("name", array)
    with run.store.transaction():
        AttackJob(run.folder, run.folder.attack_spec()).intake(run.store).take(sent[-1], size=1)
    with GuessReader.of_run(run.folder, run.folder.attack_spec()) as reader:
        stored = reader.kept_arrays()
    write_state(tmp_path, kept=stored, guesses=Guesses([], np.empty((0, 2), np.int64), []))
    for found in (context.kept("name"), read_kept(tmp_path)["name"]):
        assert found is not None and (found.dtype, found.shape) == (array.dtype, array.shape)
        assert found.tobytes() == array.tobytes()


@pytest.mark.parametrize("array", [np.array([object()]), np.zeros(2, [("a", int)])], ids=["object", "record"])
def test_an_array_that_cannot_be_stored_is_refused(tmp_path: Path, array: np.ndarray) -> None:
    with pytest.raises(HarnessError, match="cannot be stored"):
        context_of(tmp_path, []).keep("name", array)


@pytest.mark.parametrize("dtype", ["O", "<f4", "", "i4,f8", "x" * 99, "<U0"])
def test_a_kept_array_of_a_wrong_dtype_is_refused(run: Recorded, intake: Intake, dtype: str) -> None:
    frame = kept("name", 1.0)
    with pytest.raises(IntakeError, match="a kept array"):
        intake.take(Frame(frame.table, frame.rows, frame.columns, {**frame.fields, "dtype": dtype}), size=1)
