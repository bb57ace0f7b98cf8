"""The batches of a run that several workers share: which worker runs which batch, and who waits for whom.

Every worker runs the whole attack and asks before each batch (`harness.worker.batches`). Loops over batches are
barriers: a loop opens when all batches of the loops before it are done. So rows of the same example arrive in the
order in which one worker would have sent them, and the submission is the same.
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field, ValidationError

from harness.core.faults import first_fault
from harness.core.files import remove_tree
from harness.core.frames import Frame
from harness.core.protocol import LEAD
from harness.supervisor.intake import MAX_NAME, IntakeError


class _Question(BaseModel, frozen=True, strict=True):
    """A question of a worker: enter a loop, claim a batch, agree on a number, or get the stored state."""

    question: Literal["enter", "claim", "agree", "state"]
    key: str = Field(max_length=MAX_NAME)
    number: int = Field(0, ge=0, lt=1 << 40)
    in_order: bool = False


class SharedBatches:
    """Answers the questions of the workers of one execution. A question without an answer yet is asked again later."""

    def __init__(self, done: Iterable[str], write_state: Callable[[int], int]) -> None:
        """`done` are the keys of the batches that earlier executions have done.

        `write_state` writes the stored arrays and guesses for a worker and returns the number of their directory.
        """
        self._done = set(done)
        self._write_state = write_state
        # A claim of None is of a worker that died: somebody must run the batch again.
        self._claims: dict[str, int | None] = {}
        self._loops: set[str] = set()
        self._agreed: dict[str, int] = {}
        self._questions: dict[int, _Question] = {}
        self._is_finishing = False

    def ask(self, worker: int, frame: Frame) -> None:
        """Take the question of a worker. Raises IntakeError for one that no honest worker asks."""
        if worker in self._questions:
            raise IntakeError("a second question")
        try:
            asked = self._questions[worker] = _Question.model_validate(dict(frame.fields))
        except ValidationError as error:
            raise IntakeError(f"an invalid question ({first_fault(error)})") from None
        if asked.question in ("enter", "state"):
            # The worker has left the loop of the batch that it had claimed.
            self.leave(worker)

    def mark_done(self, key: str) -> None:
        """Mark a batch as done."""
        self._done.add(key)
        self._claims.pop(key, None)

    def leave(self, worker: int) -> None:
        """Drop the claims of a worker that does not end its batches."""
        for key in [key for key, holder in self._claims.items() if holder == worker]:
            del self._claims[key]

    def release(self, worker: int) -> None:
        """Free the batches of a worker that died, so that they are run again."""
        self._questions.pop(worker, None)
        for key, holder in self._claims.items():
            if holder == worker:
                self._claims[key] = None

    def finish_soon(self) -> None:
        """Let no worker wait for work that will not be done any more."""
        self._is_finishing = True

    def answers(self) -> Iterator[tuple[int, int]]:
        """Yield the workers whose questions can be answered now, with the answers."""
        while ready := [(worker, self._answer(worker, asked)) for worker, asked in self._questions.items()]:
            answered = [(worker, answer) for worker, answer in ready if answer is not None]
            if not answered:
                return
            for worker, answer in answered:
                del self._questions[worker]
                yield worker, answer

    def _answer(self, worker: int, asked: _Question) -> int | None:
        """Return the answer, or None if the worker has to wait."""
        if asked.question == "agree":
            return self._agreed.setdefault(asked.key, asked.number)
        if asked.question == "claim":
            return self._claim(worker, asked)
        if asked.question == "enter":
            return self._enter(worker, asked.key)
        return None if self._is_work_pending() else self._write_state(worker)

    def _claim(self, worker: int, asked: _Question) -> int | None:
        if asked.key in self._done:
            return 0
        if asked.in_order and worker != LEAD:
            return 0 if self._is_finishing else None
        if self._claims.get(asked.key) is not None:
            return 0
        self._claims[asked.key] = worker
        return 1

    def _enter(self, worker: int, loop: str) -> int | None:
        if loop not in self._loops and not self._is_finishing:
            if worker != LEAD or self._is_work_pending():
                return None
            self._loops.add(loop)
        return 1

    def _is_work_pending(self) -> bool:
        """Return True if a batch of the open loops is not done and will be."""
        return any(holder is not None or not self._is_finishing for holder in self._claims.values())


class SharedState:
    """Numbered directories with the stored arrays and guesses. Workers can read them and cannot write to them."""

    def __init__(self, folder: Path, write: Callable[[Path], None]) -> None:
        """`write` writes the present state into an existing directory. `folder` is emptied."""
        self._folder = folder
        self._write = write
        self._newest = 0
        self._is_current = False
        self._read_by: dict[int, int] = {}
        remove_tree(folder)

    def mark_changed(self) -> None:
        """Note that rows were stored since the last directory was written."""
        self._is_current = False

    def write_for(self, worker: int) -> int:
        """Return the number of a directory with the present state, and remove those that no worker reads."""
        if not self._is_current:
            self._newest += 1
            directory = self._folder / str(self._newest)
            directory.mkdir(parents=True)
            self._write(directory)
            self._is_current = True
        outdated = self._read_by.get(worker)
        self._read_by[worker] = self._newest
        if outdated is not None and outdated not in self._read_by.values():
            remove_tree(self._folder / str(outdated))
        return self._newest
