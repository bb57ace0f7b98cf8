"""Files of a round that would hang a command or end it in a traceback are refused in one sentence."""

from pathlib import Path

import numpy as np
import pytest
from numpy.lib.format import write_array_header_1_0

from harness.core.arrays import mapped_array
from harness.core.errors import HarnessError
from harness.core.inputs import read_bounded
from harness.core.rounds import load_round


def test_a_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    file = tmp_path / "file"
    for content in (b"", b"0123456789"):
        file.write_bytes(content)
        assert read_bounded(file, limit=10) == content
    file.write_bytes(b"0123456789a")
    with pytest.raises(HarnessError, match="larger than 10 bytes"):
        read_bounded(file, limit=10)
    # A file without a size, such as those of /proc, has content all the same.
    with pytest.raises(HarnessError, match="larger than 10 bytes"):
        read_bounded(Path("/proc/self/status"), limit=10)


@pytest.mark.parametrize("rows", [-1, 10**12])
def test_an_array_of_rows_that_it_does_not_have_is_refused(rows: int, tmp_path: Path) -> None:
    with (tmp_path / "rows.npy").open("wb") as file:
        write_array_header_1_0(file, {"descr": "<i8", "fortran_order": False, "shape": (rows, 50)})
        file.write(np.zeros(100, np.int64).tobytes())
    with pytest.raises(HarnessError, match="not a plain"):
        mapped_array(tmp_path / "rows.npy")


def test_a_long_chain_of_bases_is_refused(tmp_path: Path) -> None:
    for number in range(1_500):
        (tmp_path / f"c{number}.toml").write_text(f'base = "./c{number + 1}.toml"\n')
    with pytest.raises(HarnessError, match=r"c0\.toml: more than 16 rounds, each the base of another"):
        load_round(str(tmp_path / "c0.toml"))
