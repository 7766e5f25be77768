"""NumPyro's `MCMCKernel`, composed of an energy, moves, a method and a warm-up.

It may import `models`, `adaptation`, `core` and the root's `checks` and `schedules`.
"""
