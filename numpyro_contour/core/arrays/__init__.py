"""Operations on arrays that JAX lacks: exact sums, fast random bits, pytrees as vectors.

It imports nothing else of this package.
"""
