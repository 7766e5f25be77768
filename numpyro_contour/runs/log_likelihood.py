"""The log likelihood of every row of the data at every draw, in chunks of bounded memory."""

from __future__ import annotations

import jax
import numpy as np
import numpyro
from numpyro.infer import MCMC

from numpyro_contour.kernels.kernel import Kernel
from numpyro_contour.models.indexable_arrays import indexable

# Values that one chunk of draws may have: 32 MB of float32.
_VALUES_A_CHUNK = 2**23


def log_likelihoods(kernel: Kernel, mcmc: MCMC) -> dict[str, np.ndarray]:
    """The log likelihood of each observed site over all rows, (chains, draws, rows...).

    Raises:
        ValueError: the model sums discrete variables out, so that NumPyro's log likelihood would
            be conditional on values of theirs that were never drawn.
    """
    args, kwargs = indexable((mcmc._args, mcmc._kwargs))
    if kernel.model_potential(args, kwargs).first_available_dim is not None:
        raise ValueError(
            "`log_likelihood` takes True only for models without enumerated discrete variables: "
            "the rows' likelihoods are sums over them. Write the mixture as "
            "`dist.MixtureSameFamily`."
        )

    def of_draws(draws: dict[str, jax.Array]) -> dict[str, jax.Array]:
        return numpyro.infer.log_likelihood(kernel.model, draws, *args, **kwargs)

    samples = mcmc.get_samples()
    draws = len(next(iter(samples.values())))
    one = jax.eval_shape(of_draws, jax.tree.map(lambda x: x[:1], samples))
    values = sum(site.size for site in one.values())
    chunk = max(1, min(draws, _VALUES_A_CHUNK // max(values, 1)))
    compiled = jax.jit(of_draws)
    result = {name: np.empty((draws, *site.shape[1:]), site.dtype) for name, site in one.items()}
    for begin in range(0, draws, chunk):
        # The last chunk reaches back, so that all have one shape and one compilation.
        rows = slice(min(begin, draws - chunk), min(begin, draws - chunk) + chunk)
        part = compiled({name: x[rows] for name, x in samples.items()})
        for name, site in part.items():
            result[name][rows] = site
    return {
        name: site.reshape(mcmc.num_chains, -1, *site.shape[1:]) for name, site in result.items()
    }
