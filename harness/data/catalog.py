"""The public files of the SaTML 2023 training data extraction challenge: their addresses, sizes and hashes.

This module opens no connection and no file. The licence of all files is Apache-2.0.
"""

from dataclasses import dataclass
from enum import StrEnum

FOLDER = "satml"
"""Name of the data set's directory inside the data directory."""


class Base(StrEnum):
    """Base addresses of the authors: the repository of the challenge, and the data repository that its README names."""

    CHALLENGE = "https://raw.githubusercontent.com/google-research/lm-extraction-benchmark/master"
    TRAINING_DATA = "https://raw.githubusercontent.com/ethz-privsec/lm-extraction-benchmark-data/main"


@dataclass(frozen=True)
class PublicFile:
    """A published file: its name, its path below a base address, its size in bytes and its hex SHA-256."""

    name: str
    base: Base
    path: str
    size: int
    sha256: str

    @property
    def address(self) -> str:
        """Return the address at which the authors publish the file."""
        return f"{self.base}/{self.path}"


@dataclass(frozen=True)
class Split:
    """One split of the examples: rows of 100 + 50 + 50 tokens in three files.

    md5: published by the organizers, over the joined rows as little-endian uint16, example by example.
    """

    name: str
    rows: int
    md5: str

    @property
    def file_names(self) -> tuple[str, str, str]:
        """Return the names of the pre-prefix, prefix and suffix files."""
        return (f"{self.name}_preprefix.npy", f"{self.name}_prefix.npy", f"{self.name}_suffix.npy")


# The test suffixes were never published, so their owners alone can check that split.
SPLITS = {
    "train": Split("train", 15_000, "6d85d7f2b48e34e6f96541a546a699bf"),
    "val": Split("val", 1_000, "318d6f3d68dfd3497956a79678067c62"),
    "test": Split("test", 1_000, "ddcc8318f0cf1f857a6adcb18e6726b8"),
}


_PUBLISHED = {
    # path below the base address, size in bytes, SHA-256
    Base.TRAINING_DATA: """
    datasets/train_preprefix.npy 3000128 a9c3ed1dc735d4b93183b47a3c08e9613d1d36da0a7f26790e19a8f87e10a70d
    datasets/train_prefix.npy 1500128 a2f69009df399132937f028e73b4a37783ee27704a01ca74e3f9e6ece0807aa9
    datasets/train_suffix.npy 1500128 5934e2007eeb42efd057646da5094716aa0bb1cac386f898b075a58299162c39
    """,
    Base.CHALLENGE: """
    datasets/val_preprefix.npy 200128 6bd9871a4d967cf107e50e1236a22565e3e02a65256b3a717151b41722d4e748
    datasets/val_prefix.npy 100128 b270fcb1d441bae4314a32f28eeb285866455dc0d591d45d481924e919d5c20b
    datasets/val_suffix.npy 100128 8ef968b406cd54202ff4835c300a95b4e979b39a567a4e7426bf5c0be274cfa7
    datasets/test_prefix.npy 100128 16414ba3006a3fdaedcd48373d2f74a2d22861e626a1d98eaf0a858fc471e206
    example_submission/example_submission.csv 288925 60cb0671c402801056ea37ec3ed297389af56d28673106d747df20ead13141bd
    example_submission/fake_test_suffixes.npy 80128 85a210d556c99da57878ecf4990baa196c8987fb952608c86e2cccd5e73f8179
    """,
}
SATML = tuple(
    PublicFile(path.rpartition("/")[2], base, path, int(size), sha256)
    for base, table in _PUBLISHED.items()
    for path, size, sha256 in map(str.split, table.strip().splitlines())
)
