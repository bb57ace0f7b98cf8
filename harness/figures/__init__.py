"""Draw every figure as SVG or PNG. Start with curves.py for runs and charts.py for audits."""
