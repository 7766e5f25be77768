"""Whether the answers and the verdicts on runs are right: docs/benchmarks.md."""
