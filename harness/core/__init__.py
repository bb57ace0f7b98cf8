"""The rules of the contest and the data types: rounds, guesses, submissions, scores, specs and frames.

Core imports no other package of the harness. Start with rounds.py, attack.py and scoring.py.
"""
