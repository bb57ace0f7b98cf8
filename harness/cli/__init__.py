"""The command line: one module per command or group, with wiring and printing only. Start with app.py."""
