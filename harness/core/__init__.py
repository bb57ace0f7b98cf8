"""The rules of the contest: rounds, guesses, submissions, scores; nothing of processes, models or screens."""
