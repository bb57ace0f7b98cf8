"""The comparison as tables: a forest plot, the paired differences, the differing examples and the changed settings."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, combinations

import numpy as np

from harness.analysis.comparison import ComparedRun, Comparison, Trajectory
from harness.analysis.decoded_text import text_of_run
from harness.analysis.parts import Contrast, Part, contrast
from harness.core.arrays import Bools, Ints
from harness.core.examples import load_answers
from harness.core.text import format_interval, format_p_value, format_score, shorten, shorten_middle
from harness.core.times import format_duration
from harness.runs.folder import RunFolder
from harness.runs.status import Status
from harness.tui.columns import GLYPHS, Cell, Column, Row, Span
from harness.tui.plot import curve_colour, marker
from harness.tui.run_list import interval_bar, scale_title
from harness.tui.tables import CellsOf, Table, table_of

SOURCE = "source"
"""The key of the row that says that the sources differ."""
_MAX_VALUE = 28
_HASH_LABELS = {
    "attack.sha256": SOURCE,
    "target.weights_sha256": "weights",
    "reference.weights_sha256": "reference weights",
}
_HASHES = ("sha256.", "target.commit", "reference.commit", *_HASH_LABELS)


@dataclass(frozen=True)
class Compared:
    """A comparison on one part of the round. pairs: the contrasts of runs that are over, by their numbers."""

    comparison: Comparison
    part: Part
    is_not_in_train: bool
    pairs: Mapping[tuple[int, int], Contrast]

    @property
    def trajectories(self) -> list[Trajectory]:
        """The score of each run on the part, and its recall over time."""
        trajectories = [run.not_in_train if self.is_not_in_train else run.whole for run in self.comparison.runs]
        return [trajectory for trajectory in trajectories if trajectory is not None]

    @property
    def solved(self) -> Bools:
        """The examples of the part that each run solves within the cap, [runs, examples]."""
        return np.array([self.part.solved_examples(run.submission) for run in self.comparison.runs])

    @property
    def names(self) -> list[str]:
        """The marker and the short id of each run."""
        return [f"{marker(number)} {_short(run)}" for number, run in enumerate(self.comparison.runs)]


def is_tested(run: ComparedRun) -> bool:
    """Return True if the run is over and has guesses, so that a test means something."""
    return run.status.is_over and run.guesses > 0


def compared_on(comparison: Comparison, *, not_in_train: bool) -> Compared:
    """Return the comparison on the whole round, or on its examples that are not in the training set, if there are any.

    The paired differences leave out runs that are not over or have no guesses.
    """
    part = comparison.not_in_train if not_in_train else None
    examples = comparison.whole if part is None else part
    tested = [number for number, run in enumerate(comparison.runs) if is_tested(run)]
    pairs = {
        (row, column): contrast(comparison.runs[row].submission, comparison.runs[column].submission, examples)
        for row, column in combinations(tested, 2)
    }
    return Compared(comparison, examples, part is not None, pairs)


def tables_of(compared: Compared, answers: Sequence[str], *, is_dark: bool) -> dict[str, Table]:
    """Return every table by its name; `answers` are those of `answer_texts`."""
    return {
        "score": forest_table(compared, is_dark=is_dark),
        "difference": difference_table(compared, is_dark=is_dark),
        "example": example_table(compared, answers),
        "setting": setting_table(compared),
    }


def verdict_of(compared: Compared) -> str:
    """Return in a sentence which run is the best, by how much, and at which price; empty if no two runs are tested."""
    runs, scores = compared.comparison.runs, [trajectory.score for trajectory in compared.trajectories]
    tested = {number for pair in compared.pairs for number in pair}
    if not tested:
        return ""
    best, second = sorted(tested, key=lambda number: -scores[number].recall_at_cap)[:2]
    pair, sign = compared.pairs[min(best, second), max(best, second)], 1 if best < second else -1
    low, high = sorted((sign * pair.difference.interval.low, sign * pair.difference.interval.high))
    names = [f"{_short(runs[number])} {runs[number].attack}" for number in (best, second)]
    difference = f"{format_score(sign * pair.difference.difference)} {format_interval(low, high)}"
    count = len(compared.pairs)
    note = f" (not corrected for {count} pairs)" if count > 1 else ""
    gap = f"{difference}, {format_p_value(pair.mcnemar_p)}{note}"
    verb = f"beats {names[1]} by {gap}" if low > 0 else f"and {names[1]} cannot be told apart: {gap}"
    times = [max(runs[number].elapsed_s, 1.0) for number in (best, second)]
    ratio = times[0] / times[1]
    price = f"{ratio:.2g} times as long" if not 0.8 < ratio < 1.25 else "as long"
    return f"{names[0]} {verb}. It took {price}."


def forest_table(compared: Compared, *, is_dark: bool) -> Table:
    """Return one row per run: its marker, name, recall, and the interval as a line on a common scale."""
    runs, scores = compared.comparison.runs, [trajectory.score for trajectory in compared.trajectories]
    low = min(score.interval.low for score in scores)
    high = max(*(score.interval.high for score in scores), low + 0.01)
    # A run without a guess has no score.
    recalls = [score.recall_at_cap if run.guesses else None for run, score in zip(runs, scores, strict=True)]
    columns: CellsOf[int] = {
        Column("run", min_width=12): lambda number: _name(number, runs[number], is_dark=is_dark),
        Column("attack", min_width=8): lambda number: runs[number].shown_attack,
        Column(f"Recall@{compared.part.cap}", is_right=True): lambda number: [
            (format_score(recalls[number]), "dim" if recalls[number] is None else "bold")
        ],
        Column(scale_title(low, high), fills=True, min_width=10): lambda number: interval_bar(
            recalls[number],
            scores[number].interval[:2],
            scale=(low, high),
            colour=curve_colour(number, is_dark=is_dark),
        ),
        Column("time", is_right=True): lambda number: format_duration(runs[number].elapsed_s),
        Column("precision", is_right=True): lambda number: format_score(
            None if recalls[number] is None else scores[number].precision_at_cap
        ),
    }
    return table_of(columns, {run.id: number for number, run in enumerate(runs)})


def difference_table(compared: Compared, *, is_dark: bool) -> Table:
    """Return the paired difference of two runs with its test, or for more runs the matrix of all differences."""
    runs, pairs = compared.comparison.runs, compared.pairs
    if len(runs) == 2:
        columns = [Column("", min_width=8), Column("", fills=True, min_width=10)]
        return columns, [*_pair_rows(pairs.get((0, 1))), *(_solved_rows(compared, is_dark=is_dark) if pairs else [])]
    columns = [Column("row − column", min_width=10), *(Column(name, min_width=7) for name in compared.names)]
    rows = []
    for row, run in enumerate(runs):
        cells = [_matrix_cell(pairs, row, column) for column in range(len(runs))]
        rows.append(Row(run.id, [_name(row, run, is_dark=is_dark), *cells]))
    return columns, rows


def answer_texts(folder: RunFolder) -> list[str]:
    """Return the answer of each example of a run's round as text. Raises HarnessError if they cannot be read."""
    spec = folder.attack_spec()
    answers = load_answers(spec.round)
    return [] if answers is None else text_of_run(folder, spec).texts(answers)


def example_table(compared: Compared, answers: Sequence[str]) -> Table:
    """Return the examples that some runs solve and others do not, with the text of their answers if it is known.

    Those that split the runs most evenly come first, and of these the ones that the first run does not solve.
    """
    solved = compared.solved
    counts = solved.sum(axis=0)
    differ: Ints = np.flatnonzero((counts > 0) & (counts < len(solved)))
    order = differ[np.lexsort((solved[0, differ], np.abs(counts[differ] - len(solved) / 2)))]
    not_in_train = None if compared.is_not_in_train else compared.comparison.not_in_train
    not_in_train_ids = set() if not_in_train is None else set(not_in_train.ids.tolist())
    columns = [Column("example", is_right=True), *map(Column, compared.names)]
    columns += [Column("answer" if answers else "", fills=True)]
    rows = []
    for position in order.tolist():
        id_ = int(compared.part.ids[position])
        marks: list[Cell] = [[("✓", "good") if is_solved else ("✗", "bad")] for is_solved in solved[:, position]]
        note = "not in training set  " if id_ in not_in_train_ids else ""
        answer = answers[id_] if id_ < len(answers) else ""
        rows.append(Row(str(id_), [[(str(id_), "bold")], *marks, [(note, "dim"), (answer, "")]]))
    return columns, rows


def setting_table(compared: Compared) -> Table:
    """Return the settings that are not the same for all runs; hashes only say that something differs."""
    columns = [Column("setting", min_width=10), *(Column(name, min_width=8) for name in compared.names)]
    rows: list[Row] = []
    differing = compared.comparison.differing
    # What was set for the attack comes first.
    for name in sorted(differing, key=lambda name: not name.startswith("params.")):
        values = differing[name]
        if name.startswith(_HASHES):
            label = _HASH_LABELS.get(name, name.removeprefix("sha256."))
            hint = "differs, Enter shows the difference" if label == SOURCE else "differs"
            cell = [(f"{label:<12} ", "bold"), (hint, "warning")]
            rows.append(Row(label, [cell], spans=True, opens=label == SOURCE))
        else:
            rows.append(Row(name, [[(name.removeprefix("params."), "bold")], *map(_value, values)], opens=False))
    return columns, rows


def _pair_rows(pair: Contrast | None) -> list[Row]:
    if pair is None:
        return [Row("running", [[("no test: a run is not over or has no guesses", "warning")]], spans=True)]
    interval = pair.difference.interval
    bounds = f"  {format_interval(interval.low, interval.high, is_signed=True)} by {interval.unit}"
    facts: list[tuple[str, list[Span]]] = [
        (f"{marker(0)} − {marker(1)}", [_difference(pair, 1), (bounds, "")]),
        ("McNemar", [(format_p_value(pair.mcnemar_p), ""), ("  exact, ignores overlap between examples", "dim")]),
    ]
    return [Row(label, [[(label, "dim")], cell]) for label, cell in facts]


def _solved_rows(compared: Compared, *, is_dark: bool) -> list[Row]:
    """Return the number of examples that two runs solve, both or only one of them, as parts of a bar."""
    first, second = compared.solved
    colours = [curve_colour(number, is_dark=is_dark) for number in (0, 1)]
    parts = [
        ("both", int((first & second).sum()), "dim"),
        (f"only {marker(0)}", int((first & ~second).sum()), colours[0]),
        (f"only {marker(1)}", int((second & ~first).sum()), colours[1]),
    ]
    ends = [0, *accumulate(count for _, count, _ in parts)]

    def draw(width: int) -> list[Span]:
        cells = [round(width * end / max(1, ends[-1])) for end in ends]
        # Different glyphs for a terminal without colours.
        glyphs = ("█" * cells[1], "▓" * (cells[2] - cells[1]), "░" * (cells[3] - cells[2]))
        return [(bar, meaning) for bar, (*_, meaning) in zip(glyphs, parts, strict=True)]

    counts = [(f"{label} {count:,}   ", meaning) for label, count, meaning in parts]
    return [Row("solved by", [[("solved by", "dim")], counts]), Row("bar", ["", draw])]


def _matrix_cell(pairs: Mapping[tuple[int, int], Contrast], row: int, column: int) -> Cell:
    if row == column:
        return [("·", "dim")]
    pair = pairs.get((min(row, column), max(row, column)))
    if pair is None:
        return [("no test", "warning")]
    sign = 1 if row < column else -1
    interval = pair.difference.interval
    low, high = sorted((sign * interval.low, sign * interval.high))
    return [_difference(pair, sign), (f" {format_interval(low, high, is_signed=True)}", "dim")]


def _difference(pair: Contrast, sign: int) -> Span:
    """Return the difference of a pair, in colour if its interval does not contain zero."""
    value, interval, _ = pair.difference
    meaning = "dim" if interval.low <= 0 <= interval.high else "bold good" if sign * value > 0 else "bold bad"
    return format_score(sign * value, is_signed=True), meaning


def _name(number: int, run: ComparedRun, *, is_dark: bool) -> list[Span]:
    glyph, meaning = GLYPHS[run.status]
    is_whole = run.status in (Status.FINISHED, Status.OUT_OF_TIME)
    status = [] if is_whole else [(f" {glyph} {run.status.words}", meaning)]
    colour = curve_colour(number, is_dark=is_dark)
    return [(f"{marker(number)} ", f"bold {colour}"), (_short(run), "bold"), *status]


def _short(run: ComparedRun) -> str:
    return run.id.partition("-")[0]


def _value(value: object) -> str:
    text = "–" if value is None else value if isinstance(value, str) else json.dumps(value, default=str)
    return shorten_middle(shorten(text, 400), _MAX_VALUE)
