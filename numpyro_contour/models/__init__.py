"""A NumPyro model as the potential energies of its rows: plates, enumeration, passes over all rows.

It may import `core` and the root's `checks`.
"""
