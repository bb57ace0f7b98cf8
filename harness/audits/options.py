"""The options and the inputs of an audit, and audits that were recorded before."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from harness.core.audit import Inputs, RowsOf
from harness.core.errors import UsageError
from harness.core.options import Options, shown_name
from harness.core.spec import TargetRecord


class AuditParams(Options):
    """Base class of every audit's parameters, which are recorded with its run."""

    heading: ClassVar[str] = "Measurement"


@dataclass(frozen=True)
class StoredAudit:
    """An audit that was run before, which another audit reads."""

    id: str
    audit: str
    """The name of the audit, such as `leakage`."""
    params: Mapping[str, Any]
    models: Sequence[str]
    """The id of each model."""
    path: Path
    """The directory of the run."""
    inputs: Inputs
    rows: RowsOf
    """Returns the rows of a table."""


@dataclass(frozen=True)
class Preparation:
    """The seed, the models and the recorded audits that a subject reads its inputs with."""

    seed: int
    revision: str
    """Revision of hub models."""
    say: Callable[[str], None]
    """Tells the user something in one sentence."""
    find_models: Callable[..., tuple[TargetRecord, ...]]
    """Returns the models with the given ids as they are on this machine. `revision` is an option; with
    `is_first_served`, the first model is behind an endpoint, and only its tokenizer is needed.
    """
    open_audit: Callable[[str], StoredAudit]
    """Opens a recorded audit by its id."""


@dataclass(frozen=True)
class Reading:
    """The inputs of an audit after its subject has read them."""

    params: AuditParams
    inputs: Inputs
    name: str
    """The name of the source, for the id of the run."""
    files: Mapping[str, Path]
    """The files and directories that the user named, by option."""
    models: Sequence[TargetRecord]


class Subject(Options):
    """Base class of the options that say what an audit measures. Its docstring is the help of the command."""

    heading: ClassVar[str] = "Input"
    NEEDS: ClassVar[tuple[tuple[str, ...], ...]] = ()
    """Groups of options, of which each needs a value for one. Some of them can be options of the parameters."""

    def require_needs(self, params: Options) -> None:
        """Raise UsageError, which names the options, unless each group of `NEEDS` has a value."""
        for group in self.NEEDS:
            if not any(getattr(self, name, None) or getattr(params, name, None) for name in group):
                choices = [shown_name(type(self), name) for name in group]
                listed = " or ".join(filter(None, (", ".join(choices[:-1]), choices[-1])))
                raise UsageError(f"missing {group[0].replace('_', '-')}. Give {listed}.")

    @abstractmethod
    def read(self, params: Any, preparation: Preparation) -> Reading:
        """Read and check the inputs, before the budget of the audit starts. Raises HarnessError if that fails."""
