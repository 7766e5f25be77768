"""Operations on arrays that JAX lacks: exact sums, cheap random bits, pytrees as vectors.

It imports nothing else of this package.
"""
