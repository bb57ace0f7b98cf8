"""Recorded runs, as objects that a notebook shows."""

import json
import time
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from harness.analysis.submissions import submission_of_run
from harness.core.errors import HarnessError
from harness.core.files import read_start
from harness.core.spec import JobSpec
from harness.core.text import sanitize
from harness.notebook.progress import ProgressLine, say
from harness.notebook.scores import FIGURE_SIZE, Score, html_figure, html_table
from harness.runs.columns import COLUMNS
from harness.runs.facts import facts_about
from harness.runs.folder import RunFolder, run_folder
from harness.runs.launch import stop_run
from harness.runs.specs import AttackSpec
from harness.runs.status import Status
from harness.runs.status_line import failure_text, status_line
from harness.runs.subcommand import run_subcommand
from harness.runs.summary import RunSummary, matching_summaries, run_status, run_summary

if TYPE_CHECKING:
    import pandas as pd

_REFRESH_SECONDS = 0.25
_FACTS = ("run", "status", "attack", "parameters", "round", "time", "guesses", "recall")


class Run:
    """A recorded run, which may still be running. `harness.open_run` and `harness.run` return it.

    Every attribute and every method reads the record as it is at that moment. A notebook shows the run as a table with
    the curve of recall vs. errors.
    """

    def __init__(self, directory: Path) -> None:
        """Take the run in this directory. `harness.open_run` finds it by its id."""
        self._folder = RunFolder(directory)

    @property
    def id(self) -> str:
        """The id."""
        return self._folder.id

    @property
    def directory(self) -> Path:
        """The directory of the record. `worker.log` in it is the output of the attack."""
        return self._folder.path

    @property
    def status(self) -> Status:
        """The status now, as text: `queued`, `starting`, `running`, `finishing`, `finished`, `out_of_time`, `stopped`,
        `crashed` or `lost`. Its `is_over` is True for the last five.
        """
        return run_status(self._folder)

    @property
    def spec(self) -> JobSpec:
        """The content of spec.json: everything that was resolved before the run began."""
        return self._folder.spec()

    @property
    def params(self) -> dict[str, Any]:
        """The parameters of the attack, defaults included."""
        return self.spec.params

    @property
    def summary(self) -> RunSummary:
        """The figures that `harness show --json` prints, such as `guesses`, `elapsed_s` and `recall_at_cap`."""
        return run_summary(self._folder)

    @property
    def scorecard(self) -> dict[str, Any]:
        """The content of scorecard.json. Raises HarnessError before the run is over."""
        try:
            content: dict[str, Any] = json.loads(read_start(self._folder.scorecard))
        except FileNotFoundError:
            raise HarnessError(
                f"{self.id} has no scorecard: it is {self.status.words}. A run gets one when it is over."
            ) from None
        except (OSError, ValueError):
            raise HarnessError(f"{self._folder.scorecard}: cannot be read. Use score() instead.") from None
        return content

    def score(self) -> Score:
        """Return the score of the current submission. Raises HarnessError in a blind round, and for an audit."""
        return Score(self.id, submission_of_run(self._folder).score())

    def guesses(self) -> "pd.DataFrame":
        """Return all guesses, in the order of their arrival.

        Columns: `example` (id), `score` (the last one that the attack gave), `seconds` (of the budget spent when the
        guess was stored, to about one second), `correct` (missing in a blind round), `suffix` (list of token ids) and
        `text` (None without a tokenizer). An (example, suffix) that was guessed several times is one row.
        """
        from harness.notebook.tables import guess_table

        return guess_table(self._folder)

    def submission(self) -> "pd.DataFrame":
        """Return the rows that are submitted, the most confident first; the index `row` counts from 1.

        The columns are those of `guesses` without `seconds`. If the attack gave a final order, `score` is minus the
        place of the row.
        """
        from harness.notebook.tables import submission_table

        return submission_table(self._folder)

    def examples(self) -> "pd.DataFrame":
        """Return the attacked examples; the index `example` is their id.

        Columns: `solved` (within the error cap; missing in a blind round), `prefix` and `answer` (lists of token ids),
        `prefix_text` and `answer_text`. What is not known is None.
        """
        from harness.notebook.tables import example_table

        return example_table(self._folder)

    def curve(self) -> "pd.DataFrame":
        """Return recall vs. errors of the current submission: columns `errors` and `recall`.

        Raises HarnessError if the round is blind.
        """
        from harness.notebook.tables import curve_of_run

        return curve_of_run(self._folder)

    def history(self) -> "pd.DataFrame":
        """Return the course of the run: `seconds` of the budget spent, `guesses`, `rows` of the submission, `recall`.

        `recall` is at the error cap, and missing in a blind round.
        """
        from harness.notebook.tables import history_table

        return history_table(self._folder)

    def wait(self, *, progress: bool = True) -> "Run":
        """Wait until the run is over, and return it.

        progress: Show a status line on stderr.

        Raises HarnessError if the run crashed or its supervisor died. An interrupt ends the wait; the run continues.
        """
        try:
            with ProgressLine(is_shown=progress) as line:
                while not (summary := self.summary).status.is_over:
                    line.show(sanitize(status_line(summary)))
                    time.sleep(_REFRESH_SECONDS)
                line.show(sanitize(status_line(summary)))
        except KeyboardInterrupt:
            say(f'{self.id} continues. harness.open_run("{self.id}") opens it, and its stop() stops it.')
            raise
        if summary.status in (Status.CRASHED, Status.LOST):
            raise HarnessError(failure_text(summary))
        return self

    def stop(self) -> "Run":
        """Stop the run, and return it. Its guesses are kept, and `resume` continues it.

        A run that is over stays as it is. Raises HarnessError if it does not end.
        """
        stop_run(self._folder)
        return self

    def resume(self, *, wait: bool = True, progress: bool = True) -> "Run":
        """Continue a run that was stopped, crashed or lost, within what is left of its budget, and return it.

        wait: Return when the run is over, as `wait()` does. Otherwise, return when it has started.
        progress: Show a status line on stderr.

        Raises HarnessError if there is nothing to continue, an input has changed, or, with `wait`, the run crashed.
        """
        with ProgressLine(is_shown=progress) as line:
            run_subcommand(
                ["resume", "--detach", f"--home={self.directory.parent.parent}", self.id], on_progress=line.show_briefly
            )
        return self.wait(progress=progress) if wait else self

    def __eq__(self, value: object) -> bool:
        return isinstance(value, Run) and self._folder == value._folder

    def __hash__(self) -> int:
        return hash(self._folder)

    def __repr__(self) -> str:
        return sanitize(status_line(self.summary))

    def _repr_html_(self) -> str:
        summary = self.summary
        rows = [(fact.label, fact.text) for fact in facts_about(summary, _FACTS)]
        return html_table(rows) + self._figure(summary)

    def _figure(self, summary: RunSummary) -> str:
        """Return the curve, if there is one."""
        if summary.known_recall is None or not isinstance(self.spec, AttackSpec):
            return ""
        from harness.figures.curves import recall_panel

        svg = recall_panel([("", self.score().details)], size=FIGURE_SIZE)
        return html_figure(svg, f"Recall vs. errors of {summary.id}")


class RunList(Sequence[Run]):
    """Recorded runs, newest first. A notebook shows them as a table."""

    def __init__(self, summaries: Sequence[RunSummary]) -> None:
        self._summaries = tuple(summaries)

    @overload
    def __getitem__(self, place: int) -> Run: ...
    @overload
    def __getitem__(self, place: slice) -> "RunList": ...
    def __getitem__(self, place: int | slice) -> "Run | RunList":
        """Return the run at this place, or the runs of a slice."""
        if isinstance(place, slice):
            return RunList(self._summaries[place])
        return Run(Path(self._summaries[place].directory))

    def __len__(self) -> int:
        return len(self._summaries)

    def __iter__(self) -> Iterator[Run]:
        return (self[place] for place in range(len(self)))

    def table(self) -> "pd.DataFrame":
        """Return the runs as they were when they were listed, one row each; the index `run` is the id.

        Columns: `attack`, `status`, `round`, `recall` at the error cap (missing without a score), `elapsed_s`,
        `guesses`, `created_at` (in UTC), `tags` and `note`.
        """
        import pandas as pd

        frame = pd.DataFrame(
            {column.name or column.title: [column.value(summary) for summary in self._summaries] for column in COLUMNS}
        )
        return frame.set_index("run")

    def __repr__(self) -> str:
        return "\n".join(sanitize(status_line(summary)) for summary in self._summaries) or "no runs"

    def _repr_html_(self) -> str:
        rows = [tuple(column.text(summary) for column in COLUMNS) for summary in self._summaries]
        return html_table(rows, header=tuple(column.title for column in COLUMNS))


def open_run(run: str | Path = "latest") -> Run:
    """Open a recorded run.

    run: The id, an unambiguous beginning of it, `latest`, or the directory of a run.

    Raises HarnessError if there is no such run, or more than one.
    """
    if isinstance(run, Path) or "/" in run:
        directory = Path(run)
        if not RunFolder(directory).spec_file.is_file():
            raise HarnessError(f"{directory}: not the directory of a run. harness.list_runs() lists them.")
        return Run(directory.resolve())
    return Run(run_folder(run).path)


def list_runs(
    *,
    status: str | Collection[str] | None = None,
    attack: str | None = None,
    round: str | None = None,
    tags: Collection[str] = (),
    group: str | None = None,
    limit: int | None = None,
) -> RunList:
    """List the recorded runs that meet every given condition, newest first.

    status: One status, or several of which one has to match.
    attack: Name of the attack.
    round: Name of the round.
    tags: Tags that a run must have.
    group: Name of a group, or the id of a tuning or a sweep.
    limit: The most runs to list.

    A run that cannot be read is left out, and a message on stderr says why.
    """
    matching = matching_summaries(
        on_error=say,
        statuses=[status] if isinstance(status, str) else status,
        attack=attack,
        round_=round,
        tags=tags,
        parent=group,
    )
    return RunList(list(islice(matching, limit)))
