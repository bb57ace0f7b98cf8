"""Every figure that leaves the harness, as SVG or PNG."""
