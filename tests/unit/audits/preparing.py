"""The preparation with which an audit reads its inputs, for tests that start no run."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.audits.options import Preparation
from harness.core.spec import TargetRecord

_UNUSED: dict[str, Any] = {"revision": "main", "commit": None, "weights_sha256": "", "bytes": 0}


def _find_models(ids: Sequence[str], **options: Any) -> tuple[TargetRecord, ...]:
    place: dict[str, Any] = {"device": "cpu", "dtype": "float32", "threads": 1}
    return tuple(TargetRecord(id=id_, path=Path(id_), **place, **_UNUSED) for id_ in ids)


def preparation() -> Preparation:
    """Return a preparation whose models are the directories that are named."""
    return Preparation(0, "main", print, _find_models, lambda run: pytest.fail(f"{run} is opened"))
