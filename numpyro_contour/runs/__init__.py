"""What a finished run is, and what is computed from it: weights and energies over all rows, groups.

It may import `kernels`, `statistics`, `models`, `adaptation`, `core` and the modules of the root.
"""
