"""The parts of a kernel: moves, scaling, how often chains jump, and the draws that they make.

It imports `kernels.methods`, `energies`, `models`, `modes`, `warmup.stages`, `core`, `checks` and
`schedules`.
"""
