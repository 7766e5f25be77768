"""The methods: the package of each, and the function that runs it in a process of its own."""

from __future__ import annotations

from typing import NamedTuple

#: chains of our runs and of NUTS, and draws of each chain, in the warm-up and after it
CHAINS, DRAWS = 4, 1000
#: particles of tempered SMC and live points of nested slice sampling, which have no defaults
PARTICLES, LIVE = 4000, 1000


class Method(NamedTuple):
    """A sampler at its defaults."""

    #: the distribution whose version the page names
    package: str
    #: module and function, below `benchmarks.peers.clock`
    place: str
    #: whether it is of this package
    ours: bool = False
    #: whether it takes its numbers of draws, which are fewer in the quick form
    has_draws: bool = False


METHODS = {
    "ContourSGLD": Method("numpyro_contour", "by_numpyro.contour", True, True),
    "ModeJumping(NUTS)": Method("numpyro_contour", "by_numpyro.mode_jumping", True, True),
    "NUTS": Method("numpyro", "by_numpyro.nuts", False, True),
    "tempered SMC": Method("blackjax", "by_blackjax.smc"),
    "nested slice sampling": Method("blackjax", "by_blackjax.nss"),
    "jaxns": Method("jaxns", "by_jaxns.jaxns"),
    "dynesty": Method("dynesty", "by_numpy.dynesty"),
    "nautilus": Method("nautilus-sampler", "by_numpy.nautilus"),
    "pocoMC": Method("pocomc", "by_numpy.pocomc"),
    "UltraNest": Method("ultranest", "by_numpy.ultranest"),
}
