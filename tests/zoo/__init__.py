"""Small random models of many architectures and layouts, and what must happen with each; README.md has the sources."""
