"""The server of llama-cpp-python as a target: a check against the same weights on this machine.

`python -m tests.bench.llama_cpp --python PATH` trains a small Llama on the demo, writes it as GGUF, serves it and
measures it through the server and locally. PATH is a Python with `llama-cpp-python[server]` and `gguf`, which compile
from source. Without a token before every prompt the server returns log-probabilities of shifted positions, which the
probe must refuse; the check begins with that.
"""

import argparse
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from tests.functional.trained import write_trained_model

_CONVERT = """
import json, sys
import numpy as np
from gguf import GGUFWriter, TokenType
from safetensors.numpy import load_file

folder, out, adds_bos = sys.argv[1], sys.argv[2], sys.argv[3] == "True"
config = json.load(open(f"{folder}/config.json"))
tokenizer = json.load(open(f"{folder}/tokenizer.json"))
weights = load_file(f"{folder}/model.safetensors")
heads, width = config["num_attention_heads"], config["hidden_size"]
writer = GGUFWriter(out, "llama")
writer.add_context_length(config["max_position_embeddings"])
writer.add_embedding_length(width)
writer.add_block_count(config["num_hidden_layers"])
writer.add_feed_forward_length(config["intermediate_size"])
writer.add_head_count(heads)
writer.add_head_count_kv(config["num_key_value_heads"])
writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
writer.add_rope_dimension_count(width // heads)
writer.add_vocab_size(config["vocab_size"])
pieces = sorted(tokenizer["model"]["vocab"], key=tokenizer["model"]["vocab"].get)
writer.add_tokenizer_model("gpt2")
writer.add_tokenizer_pre("gpt-2")
writer.add_token_list(pieces)
writer.add_token_types([TokenType.CONTROL if number == 0 else TokenType.NORMAL for number in range(len(pieces))])
merges = tokenizer["model"]["merges"]
writer.add_token_merges([merge if isinstance(merge, str) else " ".join(merge) for merge in merges])
writer.add_bos_token_id(0)
writer.add_eos_token_id(0)
writer.add_add_bos_token(adds_bos)

def interleaved(weight):
    # llama.cpp rotates neighbouring columns, and transformers the two halves of a head.
    return weight.reshape(heads, 2, width // heads // 2, width).swapaxes(1, 2).reshape(weight.shape)

names = {
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}
top = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
for name, weight in weights.items():
    name = name.removesuffix(".weight")
    if name in top:
        writer.add_tensor(f"{top[name]}.weight", np.ascontiguousarray(weight, np.float32))
        continue
    _, _, layer, part = name.split(".", 3)
    weight = interleaved(weight) if part.endswith(("q_proj", "k_proj")) else weight
    writer.add_tensor(f"blk.{layer}.{names[part]}.weight", np.ascontiguousarray(weight, np.float32))
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
"""


def main() -> None:
    """Print the refusal without a first token, and the figures with one beside the local ones."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default=sys.executable, help="Python with llama-cpp-python[server] and gguf")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        model = write_trained_model("llama", folder / "llama")
        with _served(options.python, model, folder / "without.gguf", adds_bos=False) as url:
            done = _audit("leakage", *_leakage(model), *_endpoint(url), home=folder, code=1)
            print(f"without a first token: {done.stderr.strip().splitlines()[-1]}")
            assert "shifted positions" in done.stderr
        _add_first_token(model / "tokenizer.json")
        (folder / "known.txt").write_text(_demo_text())
        measured = ("--near", "0", "--stride", "60", "--schemes", "plain,greedy", "--target", str(model))
        book = (str(folder / "known.txt"), *measured)
        with _served(options.python, model, folder / "with.gguf", adds_bos=True) as url:
            for audit, arguments in (("leakage", _leakage(model)), ("book", book)):
                served = json.loads(_audit(audit, *arguments, *_endpoint(url), "--json", home=folder).stdout)
                local = json.loads(_audit(audit, *arguments, "--json", home=folder).stdout)
                _print(audit, served, local)


def _print(audit: str, served: dict[str, Any], local: dict[str, Any]) -> None:
    if audit == "leakage":
        print(f"leakage: {served['sequences']} sequences, {served['unmeasured']} left out by the server")
        by_server, locally = (
            {row["case"]: row["value"] for row in audit["measures"] if row["measure"] == "mean_esp"}
            for audit in (served, local)
        )
        for scheme, rate in by_server.items():
            print(f"  {scheme}: mean ESP {rate:.4f} through the server, {locally[scheme]:.4f} locally")
        return
    print(f"book: {served['measured_windows']} of {served['windows']} windows")
    by_server, locally = (
        {(row["measure"], row["at"]): row["value"] for row in each["measures"]} for each in (served, local)
    )
    for (measure, at), value in by_server.items():
        if measure in ("mean_probability", "coverage"):
            threshold = "" if at is None else f" at {at:g}"
            print(f"  {measure}{threshold}: {value:.3e} through the server, {locally[measure, at]:.3e} locally")


def _leakage(model: Path) -> tuple[str, ...]:
    return ("--round", "demo", "--limit", "60", "--inexact", "0", "--near", "0", "--target", str(model))


def _endpoint(url: str) -> tuple[str, ...]:
    return ("--endpoint", url, "--endpoint-model", "tiny-llama", "--requests-per-minute", "60000")


def _audit(audit: str, *arguments: str, home: Path, code: int = 0) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "harness", "audit", audit, *arguments]
    environment = os.environ | {"HARNESS_HOME": str(home / "home")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode != code:
        sys.exit(done.stderr)
    return done


def _demo_text() -> str:
    from harness.demo import CORPUS

    return "\n\n".join(json.loads(CORPUS.read_bytes())[:6])


def _add_first_token(file: Path) -> None:
    """Let a tokenizer put its end-of-text token before every text."""
    content = json.loads(file.read_bytes())
    name = content["added_tokens"][0]["content"]
    first, text = {"SpecialToken": {"id": name, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}
    content["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [first, text],
        "pair": [first, text, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {name: {"id": name, "ids": [0], "tokens": [name]}},
    }
    file.write_text(json.dumps(content))


@contextlib.contextmanager
def _served(python: str, model: Path, file: Path, *, adds_bos: bool) -> Iterator[str]:
    """Write a model as GGUF and serve it; return the base URL."""
    subprocess.run([python, "-c", _CONVERT, str(model), str(file), str(adds_bos)], check=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["--model", str(file), "--model_alias", "tiny-llama", "--host", "127.0.0.1", "--port", str(port)]
    command = [python, "-m", "llama_cpp.server", *options, "--logits_all", "true", "--n_ctx", "256"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}/v1"
    try:
        while process.poll() is None:
            with contextlib.suppress(httpx.TransportError):
                if httpx.get(f"{url}/models").status_code == 200:
                    break
            time.sleep(0.2)
        else:
            sys.exit("llama-cpp-python's server does not start. Install llama-cpp-python[server] and gguf.")
        yield url
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    main()
