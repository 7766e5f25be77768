"""Whether a descent on fixed rows lowers the energy, or fits these rows alone.

With more coordinates than rows in a minibatch a network can go through all of them: it believes
that its noise is nothing, and is ten thousands of nats too high on all rows. Now and then two
places of the way are therefore compared on rows that the descent has not seen.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from numpyro_contour.adaptation.descent import Descent
from numpyro_contour.adaptation.places import Place, implausible_height

# Gradients from one check to the next.
_EVERY = 10
# How many times what it has fallen on the fixed rows a descent may have risen on others. Where 50
# rows determine 9 coordinates this is two; where rows are fewer than coordinates it has no bound.
_RISE = 4.0


def is_due(descent: Descent) -> jax.Array:
    """Whether the next step of a descent on fixed rows is a check instead."""
    return ~descent.starts_anew & (descent.gradients % _EVERY == _EVERY - 1)


def after_check(descent: Descent, here: Place, energy: jax.Array, confirmed: jax.Array) -> Descent:
    r"""The descent after a check, which leaves the chain where it is.

    Where n fixed rows of N determine all d coordinates, their minimum is lower for them than the
    place that all rows prefer, and higher for others, by the same :math:`N d / 2n` in the mean. The
    descent is in doubt where others say that it has risen by several times what it has fallen, and
    by more than draws of a posterior differ. Rows differ too, so that one check decides nothing.

    Args:
        descent: the descent.
        here: where the chain is, with its energy on the fixed rows, in nats.
        energy: the energy here on fresh rows.
        confirmed: the energy on the same rows at `descent.confirmed`.
    """
    fall, rise = descent.confirmed.energy - here.energy, energy - confirmed
    allowed = jnp.maximum(_RISE * fall, implausible_height(here.position.shape[-1]))
    finite = jnp.isfinite(energy)
    doubted = ~finite | (rise > allowed)
    lower = finite & ~(rise > 0)
    return descent._replace(
        confirmed=jax.tree.map(lambda a, b: jnp.where(lower, a, b), here, descent.confirmed),
        doubts=jnp.where(doubted, descent.doubts + 1, 0),
        gradients=descent.gradients + 1,
    )
