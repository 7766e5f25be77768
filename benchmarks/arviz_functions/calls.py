"""A call of each function of ArviZ that users of NUTS know, and how it is judged.

Numbers are held against the truth within their Monte Carlo errors. Plots are to be drawn.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import arviz as az
import matplotlib as mpl
import numpy as np

from benchmarks.arviz_functions.case import NAMES, Case, Y
from numpyro_contour import expectation, summary
from numpyro_contour.diagnostics import weighted_ess

IS_1 = int(az.__version__.split(".")[0]) >= 1
#: the word for numbers, and that for plots
RIGHT = {False: "right", True: "draws"}
_BFMI = "compares energies with the momentum of HMC, which there is not: see `diagnose`"
_CONCAT = (
    '`xarray.concat([one["posterior"], two["posterior"]], "chain")`, or one run of more chains'
)
#: functions that raise, so that something else is to be done
FAIL = ("concat",)
#: what is to be known, or done instead, by the column of the table and the function
WHAT_ELSE = {
    "arviz 0.23": {
        "bfmi": _BFMI,
        "concat": f"not over chains, which some groups do not have: {_CONCAT}",
        "psens": "right for the likelihood; add a group `log_prior` for the prior",
    },
    "arviz 1.x": {
        "bfmi": _BFMI,
        "plot_psense_dist": "draws, with a group `log_prior` that you add",
        "plot_psense_quantities": "draws, with a group `log_prior` that you add",
        "psense": "right, with a group `log_prior` that you add",
        "psense_summary": "right, with a group `log_prior` that you add",
    },
}


def near(found: Any, truth: Any, error: float) -> None:
    """Refuse a number that is off by more than four errors."""
    off = float(np.max(np.abs(np.asarray(found, float) - truth)))
    assert off < 4 * error, f"it is off by {off:.3g}, with an error of {error:.2g}"


def calls(case: Case) -> dict[str, Callable[[], Any]]:
    """The calls of the ArviZ that is installed, by name."""
    mpl.use("Agg")
    return _numbers(case) | (_numbers_1(case) if IS_1 else _numbers_0(case)) | _plots(case)


def a_of(found: Any) -> Any:
    """The entry of the parameter a in what a function returns for all."""
    return np.asarray(found["a"])


def _numbers(case: Case) -> dict[str, Callable[[], Any]]:
    idata, truth, error = case.idata, case.truth, case.error
    names = {"var_names": NAMES}
    log_weights = idata["weighted_sample_stats"]["log_weight"].values
    elpd, ranks = truth.left_out()

    def table() -> None:
        found = az.summary(idata, fmt="xarray", round_to="none", **names)["a"]
        column = dict(zip(found[found.dims[0]].values.tolist(), found.values))
        near(column["mean"], truth.mean(), column["mcse_mean"])
        near(column["sd"], truth.sd, max(column["mcse_sd"], error))
        near(column["mean"], expectation(idata, "a").mean, error)

    def ess() -> None:
        ours = weighted_ess(idata["weighted_posterior"]["a"].values, log_weights)
        assert 0.3 < a_of(az.ess(idata, **names)) / ours < 3

    def mcse() -> None:
        assert 0.4 < a_of(az.mcse(idata, **names)) / error < 2.5

    def hdi() -> None:
        prob = {"prob": 0.9} if IS_1 else {"hdi_prob": 0.9}
        inside = truth.inside(*a_of(az.hdi(idata, **names, **prob)))
        near(inside, 0.9, 0.01 + error / truth.sd / 4)

    def compare() -> None:
        found = az.compare({"one": idata, "other": case.other})
        key = "elpd" if "elpd" in found else "elpd_loo"
        near(found[key].to_numpy(float), elpd, 0.1)

    def extract() -> None:
        near(az.extract(idata)["a"].mean(), truth.mean(), error)

    def files() -> None:
        path = str(Path(tempfile.mkdtemp()) / "run.nc")
        idata.to_netcdf(path)
        again = az.from_netcdf(path)
        assert str(summary(again, NAMES)) == str(summary(idata, NAMES))
        assert str(az.summary(again, **names)) == str(az.summary(idata, **names))

    def loo_pit() -> None:
        found = az.loo_pit(idata) if IS_1 else az.loo_pit(idata, y="y")
        near(found["y"] if IS_1 else found, ranks, 0.02)

    def rhat() -> None:
        assert 0.99 < a_of(az.rhat(idata, **names)) < 1.05

    def loo() -> None:
        found = az.loo(idata)
        near(found.elpd if IS_1 else found.elpd_loo, elpd, 0.1)

    return {
        "summary": table,
        "ess": ess,
        "rhat": rhat,
        "mcse": mcse,
        "hdi": hdi,
        "loo": loo,
        "compare": compare,
        "extract": extract,
        "loo_pit": loo_pit,
        "from_netcdf": files,
        "bfmi": lambda: az.bfmi(idata),
    }


def _numbers_0(case: Case) -> dict[str, Callable[[], Any]]:
    idata, truth = case.idata, case.truth
    fitted = idata["posterior"]["mean"].values.reshape(-1, Y.size)

    def kde() -> None:
        places, density = az.kde(idata["posterior"]["a"].values.ravel())
        near((places * density).sum() / density.sum(), truth.mean(), case.error)

    def psens() -> None:
        found = az.psens(idata, component="likelihood", var_names=NAMES)
        # The data say nothing of b.
        assert np.max(found["b"].values) < 0.05

    return {
        "waic": lambda: near(az.waic(idata).elpd_waic, truth.left_out()[0], 0.1),
        "kde": kde,
        "psens": psens,
        "r2_score": lambda: near(az.r2_score(Y, fitted)["r2"], truth.r2(), 0.01),
        "concat": lambda: az.concat(idata, case.other, dim="chain"),
    }


def _numbers_1(case: Case) -> dict[str, Callable[[], Any]]:
    idata, truth, error = case.idata, case.truth, case.error

    def eti() -> None:
        low, high = a_of(az.eti(idata, var_names=NAMES, prob=0.9))
        near(truth.inside(-np.inf, low), 0.05, 0.01)
        near(truth.inside(high, np.inf), 0.05, 0.01)

    def median() -> None:
        found = float(a_of(az.median(idata, var_names=NAMES)))
        near(truth.inside(-np.inf, found), 0.5, error / truth.sd)

    def psense() -> None:
        # The data say nothing of b: its posterior is its prior.
        prior, data = (
            az.psense(idata, var_names=NAMES, group=group)["b"].values.max()
            for group in ("prior", "likelihood")
        )
        assert prior > 0.05 > data

    def kde() -> None:
        places, density = az.kde(idata["posterior"]["a"]).transpose("plot_axis", ...).values
        near((places * density).sum() / density.sum(), truth.mean(), error)

    return {
        "eti": eti,
        "mean": lambda: near(a_of(az.mean(idata, var_names=NAMES)), truth.mean(), error),
        "median": median,
        "std": lambda: near(a_of(az.std(idata, var_names=NAMES)), truth.sd, error),
        "kde": kde,
        "psense": psense,
        "psense_summary": lambda: az.psense_summary(idata, var_names=NAMES),
        "residual_r2": lambda: near(
            az.residual_r2(idata, pred_mean="mean", summary=False).mean(), truth.r2(), 0.01
        ),
        "diagnose": lambda: az.diagnose(idata, var_names=NAMES, show_diagnostics=False),
    }


_OF_0 = ("autocorr", "density", "ess", "forest", "mcse", "pair", "parallel", "posterior", "rank")
_OF_0 += ("trace", "violin")
_OF_1 = ("autocorr", "convergence_dist", "dist", "ess", "ess_evolution", "forest", "mcse", "pair")
_OF_1 += ("parallel", "prior_posterior", "psense_dist", "rank", "rank_dist", "ridge", "trace")
_OF_1 += ("trace_dist",)
_OF_DATA_1 = ("loo_interval", "loo_pit", "ppc_dist", "ppc_interval", "ppc_pit", "ppc_tstat")


def _plots(case: Case) -> dict[str, Callable[[], Any]]:
    idata = case.idata
    compared = lambda: az.compare({"one": idata, "other": case.other})
    # Each with the parameters as variables, or with the data.
    drawn = {
        f"plot_{n}": lambda n=n: getattr(az, f"plot_{n}")(idata, var_names=NAMES)
        for n in (_OF_1 if IS_1 else _OF_0)
    }
    drawn |= {
        "plot_energy": lambda: az.plot_energy(idata),
        "plot_khat": lambda: az.plot_khat(az.loo(idata, pointwise=True)),
        "plot_compare": lambda: az.plot_compare(compared()),
    }
    if IS_1:
        of_data = {n: lambda n=n: getattr(az, f"plot_{n}")(idata) for n in _OF_DATA_1}
        return (
            drawn
            | {f"plot_{n}": call for n, call in of_data.items()}
            | {
                "plot_pair_focus": lambda: az.plot_pair_focus(
                    idata, var_names=NAMES, focus_var="a"
                ),
                "plot_lm": lambda: az.plot_lm(idata, x="x", y="y"),
                "plot_psense_quantities": lambda: az.plot_psense_quantities(idata, var_names=["a"]),
            }
        )
    a = idata["posterior"]["a"].values.ravel()
    return drawn | {
        "plot_bpv": lambda: az.plot_bpv(idata),
        "plot_dist": lambda: az.plot_dist(a),
        "plot_dist_comparison": lambda: az.plot_dist_comparison(idata, var_names=["a"]),
        "plot_ecdf": lambda: az.plot_ecdf(a),
        "plot_elpd": lambda: az.plot_elpd({"one": idata, "other": case.other}),
        "plot_hdi": lambda: az.plot_hdi(np.arange(Y.size), idata["posterior_predictive"]["y"]),
        "plot_kde": lambda: az.plot_kde(a),
        "plot_lm": lambda: az.plot_lm(y="y", idata=idata, y_model="mean"),
        "plot_loo_pit": lambda: az.plot_loo_pit(idata, y="y"),
        "plot_ppc": lambda: az.plot_ppc(idata),
    }
