"""The papers' own experiments, at their own settings: docs/papers.md."""
