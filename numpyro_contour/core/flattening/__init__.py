"""The energy partition, theta, the flattening function Psi, and the updates that learn theta.

It may import `core.arrays`, and `checks` and `schedules` from the root.
"""
