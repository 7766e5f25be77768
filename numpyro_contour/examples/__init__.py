"""The demo, its targets and its data."""
