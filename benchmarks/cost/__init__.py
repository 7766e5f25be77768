"""What a step costs, in time, in memory and in compiling: docs/cost.md."""
