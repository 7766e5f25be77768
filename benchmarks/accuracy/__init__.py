"""How right the answers are, and whether the verdicts on runs are: docs/benchmarks.md."""
