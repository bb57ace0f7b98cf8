"""llama.cpp as a peer of the engine, through `llama_cpp` of llama-cpp-python, which is not among the dependencies."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from harness.core.arrays import Tokens


def prefill(gguf: Path, rows: Tokens, threads: int) -> Callable[[int], None]:
    """Return a function that computes the logits after every token of `rows` [rows, length], one row at a time."""
    import llama_cpp

    model = llama_cpp.Llama(str(gguf), n_ctx=rows.shape[1], logits_all=True, n_threads_batch=threads, verbose=False)

    def evaluate(_: int) -> None:
        for row in rows.tolist():
            model.reset()
            model.eval(row)

    return evaluate


def greedy(gguf: Path, prefixes: Tokens, threads: int, *, tokens: int) -> Callable[[int], Tokens]:
    """Return a function that continues all `prefixes` [rows, length] together by their likeliest `tokens` tokens."""
    import llama_cpp

    rows, length = prefixes.shape
    llama_cpp.llama_backend_init()
    # The context's model must outlive it, so both belong to the function.
    model = llama_cpp.llama_model_load_from_file(str(gguf).encode(), llama_cpp.llama_model_default_params())
    params = llama_cpp.llama_context_default_params()
    params.n_ctx = params.n_batch = params.n_ubatch = rows * (length + tokens)
    params.n_seq_max, params.kv_unified = rows, True
    params.n_threads = params.n_threads_batch = threads
    context = llama_cpp.llama_init_from_model(model, params)
    vocabulary = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model))
    batch = llama_cpp.llama_batch_init(params.n_batch, 0, 1)

    def decode(columns: Tokens, first: int) -> Tokens:
        """Append `columns` [rows, n] at position `first`, and return the likeliest next token of each row."""
        batch.n_tokens = columns.size
        for number, (row, column) in enumerate(np.ndindex(columns.shape)):
            batch.token[number], batch.pos[number] = int(columns[row, column]), first + column
            batch.n_seq_id[number], batch.seq_id[number][0] = 1, row
            batch.logits[number] = column == columns.shape[1] - 1
        if llama_cpp.llama_decode(context, batch) != 0:
            raise RuntimeError("llama_decode failed.")
        logits: Any = llama_cpp.llama_get_logits(context)
        return np.ctypeslib.as_array(logits, shape=(rows, vocabulary)).argmax(axis=1)[:, None].astype(np.int64)

    def continue_all(_: int) -> Tokens:
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(context), True)
        found = [decode(prefixes, 0)]
        for number in range(tokens - 1):
            found.append(decode(found[-1], length + number))
        return np.concatenate(found, axis=1)

    return continue_all
