from pathlib import Path

import pytest

from tests.zoo.checking import check
from tests.zoo.entries import ZOO


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if entry.is_fast else pytest.mark.slow) for name, entry in ZOO.items()]
)
def test_a_model_gives_its_own_numbers_or_a_sentence(name: str, tmp_path: Path) -> None:
    check(ZOO[name], tmp_path / "model")
