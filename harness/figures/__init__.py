"""Draw every figure of the harness as SVG or PNG."""
