"""Code that the benchmarks share: pages, tables, runs, known targets, and clocks."""
