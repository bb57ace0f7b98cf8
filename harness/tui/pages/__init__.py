"""The pages of the main screen, one per tab."""
