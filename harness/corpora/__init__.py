"""Corpora on disk: read them as documents or tokens, and cut rounds from them.

`documents.py` reads texts and `token_files.py` token ids; `opening.py` opens either as one `token_stream.py`.
`sequences.py` draws prefixes from it, `filters.py` removes trivial sequences, `extractable.py` asks a model,
`splits.py` separates training and attacked examples, `making.py` runs these steps, and `round_files.py` writes the
round. The audits also use `documents.py`, `arrow_sets.py` and `text_files.py`.
"""
