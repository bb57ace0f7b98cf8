"""Write a GPT-Neo 1.3B with random weights, to measure speed without downloading a trained model.

python -m tests.bench.random_target FOLDER [--dtype float16]; then harness bench --target FOLDER --round satml-dev
"""

import argparse
from pathlib import Path

import torch
from transformers import GPTNeoConfig, GPTNeoForCausalLM

CONFIG = GPTNeoConfig(
    vocab_size=50_257,
    hidden_size=2048,
    num_layers=24,
    num_heads=16,
    attention_types=[[["global", "local"], 12]],
    window_size=256,
    max_position_embeddings=2048,
    bos_token_id=50_256,
    eos_token_id=50_256,
)


def main() -> None:
    """Save the model. Its weights depend only on the seed."""
    parser = argparse.ArgumentParser(description="Write a GPT-Neo 1.3B with random weights, in Hugging Face layout.")
    parser.add_argument("folder", type=Path, help="directory of the model")
    parser.add_argument("--dtype", choices=["float16", "bfloat16", "float32"], default="float16", help="precision")
    options = parser.parse_args()
    torch.manual_seed(0)
    with torch.device("cpu"):
        model = GPTNeoForCausalLM(CONFIG).to(getattr(torch, options.dtype))
    model.save_pretrained(options.folder)


if __name__ == "__main__":
    main()
