"""What a finished run is, and what is computed from it: weights and energies over all rows, groups.

It may import `kernels`, `energies`, `warmup.stages`, `modes`, `statistics`, `models`, `core` and
the modules of the root.
"""
