"""Vectorised chains decompose one matrix after the other.

Two calls of LAPACK on batches of matrices wait for each other for ever on a machine of two cores.
"""

import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import numpyro_contour
from numpyro_contour.core.arrays import factors
from numpyro_contour.models.jaxprs import inner_jaxprs

PLAIN = {
    "eigh": lambda x: tuple(jnp.linalg.eigh(x)),
    "svd": lambda x: tuple(jnp.linalg.svd(x)),
    "orthonormal": lambda x: jnp.linalg.qr(x)[0],
    "inverse": jnp.linalg.inv,
}
NAMES = ("eigh", "svd", "qr", "geqrf", "householder_product", "lu", "triangular_solve")


def sizes(jaxpr):
    """The numbers of dimensions of all that LAPACK is given."""
    found = set()
    for equation in jaxpr.eqns:
        if equation.primitive.name in NAMES:
            found.add(equation.invars[0].aval.ndim)
        for inner in inner_jaxprs(equation):
            found |= sizes(inner)
    return found


@pytest.mark.parametrize("name", PLAIN)
def test_no_batch_is_handed_to_lapack(name):
    matrices = np.random.default_rng(0).normal(size=(4, 3, 3)).astype(np.float32)
    matrices = jnp.asarray(matrices + matrices.swapaxes(1, 2))
    in_turn, plain = jax.vmap(getattr(factors, name)), jax.vmap(PLAIN[name])
    assert sizes(jax.make_jaxpr(in_turn)(matrices).jaxpr) == {2}
    # It can fail: as JAX has them they are batched.
    assert 3 in sizes(jax.make_jaxpr(plain)(matrices).jaxpr)
    for found, expected in zip(*(jax.tree.leaves(f(matrices)) for f in (in_turn, plain))):
        np.testing.assert_allclose(found, expected, atol=1e-4)


def test_the_package_takes_no_others():
    folder = Path(numpyro_contour.__file__).parent
    calls = re.compile(r"^[^>]*\b(jnp\.linalg|jax\.scipy\.linalg|jsp\.linalg)\.\w+\(", re.M)
    files = [p for p in folder.rglob("*.py") if calls.search(p.read_text())]
    assert files == [Path(factors.__file__)]
