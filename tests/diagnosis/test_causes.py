"""Why chains are slow: the cause that the draws show, and what to do about it."""

import numpy as np
import pytest
import xarray as xr

from numpyro_contour.core.arrays.decentred import ENDING
from numpyro_contour.diagnosis.causes import correlations, explained, rank_correlation, slowdown
from numpyro_contour.diagnosis.evidence import Evidence
from numpyro_contour.diagnosis.report import verdict

SHAPE = (4, 500)
SLOW = [
    verdict("weights", 0.5, 0.05, False, "Even.", ""),
    verdict("length", 10, 200, True, "Few draws.", "Run longer."),
    verdict("chains", 2.0, 1.05, True, "They disagree.", "Run longer."),
]


def groups_of(sampled=None, **draws):
    """A run of these variables, (chains, draws, ...)."""
    posterior = {
        name: (("chain", "draw", *[f"{name}_{i}" for i in range(x.ndim - 2)]), x)
        for name, x in draws.items()
    }
    flat = {"log_weight": np.zeros(SHAPE), "lp": np.zeros(SHAPE)}
    groups = {
        "posterior": xr.Dataset(posterior),
        "sample_stats": xr.Dataset({n: (("chain", "draw"), x) for n, x in flat.items()}),
    }
    if sampled is not None:
        groups["equipartition"] = xr.Dataset({}, {"coordinate": sampled})
    return groups


def advice_of(groups, verdicts=SLOW):
    return [v.advice for v in explained(list(verdicts), Evidence(groups))]


def normals(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=(*SHAPE, *shape))


def line():
    """A line through years near 2000: level and slope are nearly one number."""
    slope = normals()
    return {"level": -2000 * slope + 3.0 * normals(seed=1), "slope": slope}


def test_a_correlation_is_named_with_its_factor():
    _, length, chains = advice_of(groups_of(other=normals(seed=2), **line()))
    assert length.startswith("Run longer. The cause: `")
    for words in ("`level`", "`slope`", "correlation of -0.99999", "some 900,000 times"):
        assert words in length, length
    assert "Centre the columns" in length
    assert "try `preconditioner='dense'`" in length
    assert "`other`" not in length
    assert chains == "Run longer."  # once is enough


def test_a_factor_is_that_of_the_unit_diagonal_precision():
    r = 0.99
    pair = np.array([[1.0, r], [r, 1.0]])
    assert slowdown(pair).factor == pytest.approx(1 / (1 - r))
    x = normals(2) @ np.linalg.cholesky(pair).T
    found = slowdown(correlations(1e3 * x, np.ones(SHAPE)))
    assert found.factor == pytest.approx(1 / (1 - r), rel=0.2)
    # Means that differ between chains are no correlation.
    apart = normals(2) + 50 * np.arange(4)[:, None, None]
    assert slowdown(correlations(apart, np.ones(SHAPE))).factor < 1.3
    # Weights count.
    weights = np.where(np.abs(x[..., 0] - x[..., 1]) < 0.05, 1.0, 0.0)
    weights /= weights.mean(1, keepdims=True)
    assert slowdown(correlations(x, weights)).factor > 2 / (1 - r)


def test_collinear_columns_are_named_together():
    b = normals(5)
    b[..., 4] = -b[..., :3].sum(-1) + 0.02 * b[..., 4]
    _, length, _ = advice_of(groups_of(b=b))
    assert "a combination of" in length
    for i in (0, 1, 2, 4):
        assert f"`b[{i}]`" in length
    assert "`b[3]`" not in length
    assert "(QR)" in length


def test_what_is_computed_from_others_is_no_cause():
    x, y = normals(), normals(seed=1)
    groups = groups_of(sampled=["x", "y"], x=x, y=y, total=x + y)
    assert advice_of(groups) == ["", "Run longer.", "Run longer."]
    assert "combination" in advice_of(groups_of(x=x, y=y, total=x + y))[1]


def test_scales():
    x, y = normals(), 1e-5 * normals(seed=1)
    assert "`x` is 100,000 times that of `y`" in advice_of(groups_of(x=x, y=y))[1]
    groups = groups_of(x=x, y=1e3 * y)
    assert advice_of(groups)[1] == "Run longer."
    groups["sample_stats"].attrs["preconditioner"] = "identity"
    assert "Leave `preconditioner` to be tuned" in advice_of(groups)[1]


def test_a_funnel():
    log_scale = 1.5 * normals()
    x = np.exp(log_scale)[..., None] * normals(8, seed=1)
    _, length, _ = advice_of(groups_of(tau=np.exp(log_scale), x=x))
    assert "the spread of `x` goes with `tau`" in length
    assert "LocScaleReparam" in length
    shifted = x + 100 * normals(seed=2)[..., None]  # about their own mean, wherever that is
    assert "a funnel" in advice_of(groups_of(tau=np.exp(log_scale), x=shifted))[1]
    # In coordinates that do not follow the scale it is no reason.
    groups = groups_of(tau=np.exp(log_scale), x=x)
    names = [f"x{ENDING}[{i}]" for i in range(8)]
    groups["equipartition"] = xr.Dataset(coords={"coordinate": names})
    assert "a funnel" not in advice_of(groups)[1]
    # Non-centred there is none.
    assert advice_of(groups_of(tau=np.exp(log_scale), z=normals(8, seed=1)))[1] == "Run longer."
    # Nor where the data say how far the groups are apart.
    known = np.arange(8.0) + 0.5 * normals(8)
    groups = groups_of(tau=known.std(-1) * np.exp(0.1 * normals(seed=1)), x=known)
    assert advice_of(groups)[1] == "Run longer."


def test_two_modes_are_no_funnel():
    # Of the two frequencies the rarer one goes with a larger amplitude.
    rarer = normals(seed=2) > 0.7
    f = np.where(rarer, 1.31, 0.31) + 0.001 * normals()
    a = np.where(rarer, 0.3, 0.1) * np.exp(0.3 * normals(seed=1))
    assert advice_of(groups_of(f=f, a=a))[1] == "Run longer."


def test_ranks():
    x, weights = normals().ravel(), np.ones(2000)
    assert rank_correlation(x, np.exp(x), weights) == pytest.approx(1)
    assert rank_correlation(x, -(x**3), weights) == pytest.approx(-1)
    assert abs(rank_correlation(x, normals(seed=1).ravel(), weights)) < 0.1
    half = x > 0
    assert rank_correlation(x, np.abs(x), half.astype(float)) == pytest.approx(1, abs=1e-3)
    assert not abs(rank_correlation(x, 0 * x, weights)) > 1e-9


def test_healthy_runs_are_not_explained():
    good = [v._replace(outcome="good", advice="") for v in SLOW]
    assert advice_of(groups_of(**line()), good) == ["", "", ""]
