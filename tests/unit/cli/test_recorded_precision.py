"""The precision of an audit's models where the user asked for `auto`."""

import pytest

from harness.cli.audit_findings import with_precision
from tests.unit.submit.audit_header import HEADER, MODEL


@pytest.mark.parametrize(
    ("device", "dtype", "models", "shown"),
    [
        ("cpu", "auto", 2, "float32"),
        ("cuda", "auto", 1, "bfloat16"),
        ("cuda", "auto", 2, "auto"),
        ("cuda", "float16", 1, "float16"),
    ],
)
def test_the_precision_is_named_where_it_is_known(device: str, dtype: str, models: int, shown: str) -> None:
    model = MODEL.model_copy(update={"device": device, "dtype": dtype})
    spec = with_precision(HEADER.spec.model_copy(update={"models": (model,) * models}), "bfloat16")
    assert [one.dtype for one in spec.models] == [shown] * models
