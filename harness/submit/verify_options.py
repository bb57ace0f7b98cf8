"""The options for running the code of a bundle again."""

from pathlib import Path
from typing import ClassVar

from harness.core.options import Options, option


class VerifyOptions(Options):
    """The options for running the code of a bundle again."""

    heading: ClassVar[str] = "Options"

    target: str | None = option(
        None, metavar="MODEL", unset="the round's, else the bundle's", description="Hub id, directory or GGUF file."
    )
    reference: str | None = option(
        None,
        panel="Model",
        metavar="MODEL",
        unset="the bundle's",
        description="Reference model: hub id, directory or GGUF file.",
    )
    base: str | None = option(None, panel="Model", metavar="MODEL", description="Base model of an adapter.")
    budget: str | None = option(
        None,
        metavar="DURATION",
        unset="the round's, else 24h",
        description="Wall-clock limit, such as 24h or 90m.",
    )
    allow_network_install: bool = option(
        False,
        panel="Installation",
        is_in_form=False,
        description="Install from the package index. The code itself runs without network.",
    )
    wheels: Path | None = option(
        None, metavar="DIR", panel="Installation", description="Install from this directory of wheels."
    )
    own_environment: bool = option(
        False,
        panel="Installation",
        description="Use the current environment (its versions must match the bundle's lock).",
    )
    unsafe: bool = option(False, is_in_form=False, description="Run the code even if this machine has no sandbox.")
