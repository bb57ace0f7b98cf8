"""Start runs and compare them, as `harness run` and `harness compare` do."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from harness.analysis import comparison
from harness.analysis import comparison_tables as tables
from harness.core.errors import HarnessError
from harness.core.parameters import Parameter, parameters_in, settings_from
from harness.core.run_request import RunRequest
from harness.core.text import align_columns, sanitize
from harness.notebook.progress import ProgressLine
from harness.notebook.runs import Run, open_run
from harness.notebook.scores import FIGURE_SIZE, html_figure, html_table, html_text
from harness.plugins.discovery import attack_named
from harness.runs.folder import RunFolder
from harness.runs.subcommand import run_subcommand

if TYPE_CHECKING:
    import pandas as pd


def run(
    attack: str,
    *,
    params: Mapping[str, Any] | None = None,
    wait: bool = True,
    progress: bool = True,
    **options: Any,
) -> Run:
    """Run an attack on a round, as `harness run` does.

    The run has a supervisor of its own: it continues if this process ends, and the TUI and every command show it.

    attack: Name of the attack.
    params: Parameters of the attack by name. The others have their defaults.
    wait: Return when the run is over. Otherwise, return when it has started.
    progress: Show a status line on stderr.
    {options}
    Raises HarnessError if something is missing or does not fit (nothing was started then), or, with `wait`, if the run
    crashed. An interrupt ends the wait, and the run continues.
    """
    # An unknown name is an error at once, and cannot be taken for an option.
    attack_named(attack, options.get("attacks") and Path(options["attacks"]))
    values = {name: str(value) if isinstance(value, Path) else value for name, value in (params or {}).items()}
    try:
        settings = tuple(settings_from(values))
    except TypeError as error:
        raise HarnessError(f"params: {error}. Use text, numbers, booleans, None, paths, and lists of them.") from None
    if unknown := options.keys() - _OPTIONS:
        raise HarnessError(f"run() has no option {min(unknown)!r}. It has {', '.join(_OPTIONS)}.")
    texts = {name: str(value) if isinstance(value, Path) else value for name, value in options.items()}
    request = RunRequest.checked(
        settings=settings, **{name: value for name, value in texts.items() if value is not None}
    )
    with ProgressLine(is_shown=progress) as line:
        started = run_subcommand(["run", attack, "--detach", *request.command_words()], on_progress=line.show_briefly)
    assert started is not None
    started_run = Run(Path(started["directory"]))
    return started_run.wait(progress=progress) if wait else started_run


def describe_options(function: Callable[..., Any], options: Mapping[str, Parameter]) -> None:
    """Give a function that passes on `**options` the signature and the documentation of each option."""
    signature = inspect.signature(function)
    parameters = [
        parameter for parameter in signature.parameters.values() if parameter.kind is not parameter.VAR_KEYWORD
    ]
    more, lines = [], []
    for name, option in options.items():
        type_: Any = Literal[option.choices] if option.choices else option.value_type
        default = option.hints.get("default")
        # An option that a function makes has no default in the schema.
        annotation = type_ if default is not None and not option.is_nullable else type_ | None
        more.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation))
        unset = option.hints["unset"]
        lines.append(f"{name}: {option.description}" + (f" The default is {unset}." if unset else ""))
    function.__signature__ = signature.replace(parameters=[*parameters, *more])  # type: ignore[attr-defined]
    documentation = "".join(f"{line}\n    " for line in lines)
    function.__doc__ = (function.__doc__ or "").replace("{options}\n", f"{documentation}\n")


def options_of(request: type[RunRequest]) -> dict[str, Parameter]:
    """Return the options of a run that `run` takes by their own name; `params` are the settings."""
    options = parameters_in(request.model_json_schema())
    return {option.name: option for option in options if option.name not in ("attack", "settings")}


_OPTIONS = options_of(RunRequest)
describe_options(run, _OPTIONS)


@dataclass(frozen=True, repr=False)
class Comparison:
    """Runs of one round side by side. A notebook shows it as tables with the curves of recall vs. errors.

    details: everything that was compared.
    """

    details: comparison.Comparison

    def table(self) -> "pd.DataFrame":
        """Return one row per run; the index `run` is the id.

        Columns: `attack`, `status`, `recall`, `low` and `high` (its 95 % interval), `precision`, `elapsed_s`, `guesses`
        and `suffixes_per_s`.
        """
        import pandas as pd

        rows = []
        for run in self.details.runs:
            score = run.whole.score
            low, high, _ = score.interval
            rows.append(
                {
                    "run": run.id,
                    "attack": run.attack,
                    "status": str(run.status),
                    "recall": score.recall_at_cap,
                    "low": low,
                    "high": high,
                    "precision": score.precision_at_cap,
                    "elapsed_s": run.elapsed_s,
                    "guesses": run.guesses,
                    "suffixes_per_s": run.suffixes_per_s,
                }
            )
        return pd.DataFrame(rows).set_index("run")

    def as_dict(self) -> dict[str, Any]:
        """Return the content of `harness compare --json`, with recall over time and, for two runs, their difference."""
        return self.details.as_json()

    def __repr__(self) -> str:
        texts = [align_columns(tables.scores_and_pace(self.details)), *self._contrast()]
        return "\n".join(sanitize(line) for text in texts for line in text.split("\n"))

    def _repr_html_(self) -> str:
        from harness.figures.curves import recall_panel

        header, *rows = tables.scores_and_pace(self.details)
        differing = tables.differing_settings(self.details)
        parts = [html_table(rows, header=header)]
        parts += [f"<p>{html_text(line)}</p>" for line in self._contrast()]
        scores = [(f"{run.id} ({run.shown_attack})", run.whole.score) for run in self.details.runs]
        parts.append(html_figure(recall_panel(scores, size=FIGURE_SIZE), "Recall vs. errors of the runs"))
        if differing:
            parts.append(html_table(differing[1:], header=differing[0]))
        return "".join(parts)

    def _contrast(self) -> list[str]:
        contrast = self.details.contrast
        lines = None if contrast is None else tables.contrast_lines(self.details, contrast, "all examples")
        return lines or tables.reasons_without_test(self.details)


def compare(*runs: Run | str | Path) -> Comparison:
    """Compare two or more runs of one round, as `harness compare` does.

    runs: Runs, or what `open_run` accepts. Two runs are also compared example by example.

    Raises HarnessError if there are fewer than two runs, they attacked different examples, or their round is blind.
    """
    opened = [run if isinstance(run, Run) else open_run(run) for run in runs]
    return Comparison(comparison.compare_runs([RunFolder(run.directory) for run in opened]))
