"""Groups of a run that knows modes, made by hand."""

import numpy as np
import xarray as xr

CHAINS, DRAWS = 4, 1000


def mode_groups(masses, bridged=None, errors=None, jumps=100, **settings):
    """Draws that change modes at random, and modes of these masses at 0, 8, 16, ..."""
    rng = np.random.default_rng(0)
    masses = np.asarray(masses, float)
    number = len(masses)
    labels = rng.choice(number, (CHAINS, DRAWS), p=masses)
    x = rng.normal(size=(CHAINS, DRAWS)) + 8 * labels
    made = jumps * (1 - np.eye(number, dtype=int))
    ways = ("chain", "from_mode", "to_mode")
    values = {
        "mean": (("mode", "coordinate"), 8.0 * np.arange(number)[:, None] + np.zeros(3)),
        "sd": (("mode", "coordinate"), np.ones((number, 3))),
        "mass": (("mode",), masses),
        "mass_mcse": (("mode",), np.full(number, 0.01)),
        "mass_by_normal": (("mode",), masses),
        "mass_by_chain": (("chain", "mode"), np.tile(masses, (CHAINS, 1))),
        "jumps_tried": (ways, np.tile(2 * made, (CHAINS, 1, 1))),
        "jumps_made": (ways, np.tile(made, (CHAINS, 1, 1))),
    }
    if bridged is not None:
        values["mass_by_bridge"] = (("mode",), np.asarray(bridged, float))
        values["mass_by_bridge_mcse"] = (("mode",), np.full(number, errors or 0.01))
    modes = np.arange(number)
    coords = {"mode": modes, "from_mode": modes, "to_mode": modes, "coordinate": list("abc")}
    stats = {
        "log_weight": (("chain", "draw"), np.zeros((CHAINS, DRAWS))),
        "mode": (("chain", "draw"), labels),
    }
    return {
        "posterior": xr.Dataset({"x": (("chain", "draw"), x)}),
        "sample_stats": xr.Dataset(stats, attrs=settings),
        "modes": xr.Dataset(values, coords),
    }
