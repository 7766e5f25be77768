"""Arrays whose rows stay on disk: what may hold them, how they are read, and reading ahead.

Nothing here knows what a potential energy is. It imports NumPyro's messages and `checks` only.
"""
