"""The energy partition, theta, the flattening function Psi, and the updates that learn theta.

It may import the root's `checks`.
"""
