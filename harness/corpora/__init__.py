"""Corpora on disk: read them as documents or tokens, and cut rounds from them.

`documents.py` reads texts, `token_files.py` reads token ids. `token_stream.py` stores the tokens of a whole corpus in
one file. `sequences.py` finds sequences whose prefix has one continuation in it, `filters.py` removes trivial ones,
`splits.py` separates training and attacked examples, and `making.py` runs these steps and writes the round.
"""
