"""What a chain does with a diffusion: plain, contour, climbing, cyclical and replica exchange.

It may import `core.arrays`, `core.diffusions`, `core.flattening`, `checks` and `schedules`.
"""
