"""The modes of a density: where descents begin, their ends, shapes, the list of modes, the moves.

It knows nothing of models, kernels or theta: a function evaluates batches of positions.

It may import `core.arrays`, `core.samplers` and the root's `checks`.
"""
