"""The rules of the contest: rounds, guesses, submissions and scores. It knows no processes, models or screens."""
