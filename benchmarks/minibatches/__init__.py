"""What subsampling the rows of the data changes: docs/benchmarks.md."""
