"""What a warm-up does with one chain: the plan, and a file for each stage or two of one kind.

It imports `modes`, `core` and `schedules` only, never NumPyro.
"""
