import pytest

from harness.bench.speed import measure
from harness.core.errors import HarnessError
from tests.unit.engine.overflow import save_overflowing


@pytest.mark.parametrize("architecture", ["neo", "plain"])
def test_a_benchmark_of_an_overflowing_target_is_an_error(folders, prefixes, tmp_path, architecture):
    folder = save_overflowing(folders[architecture], tmp_path / "model")
    with pytest.raises(HarnessError, match="returned NaN"):
        measure(folder, prefixes, length=6, device="cpu", dtypes=("float32",), threads=1, turns=1)
