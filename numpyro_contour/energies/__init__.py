"""The energies that a kernel sees: exact, of minibatches, by a control variate, and their noise.

`source` makes the value that evaluates them. Anchors of control variates and when they are placed
are here too. It imports `models`, `warmup.stages`, `kernels.methods`, `core` and `checks`.
"""
