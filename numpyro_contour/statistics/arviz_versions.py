"""What differs between arviz 0.23 (Python 3.11) and arviz 1.x (Python 3.12 and newer)."""

from __future__ import annotations

from typing import Any

import arviz as az
import numpy as np
import pandas as pd
import xarray as xr

#: whether this is arviz 1.x, whose groups live in an `xarray.DataTree`
IS_DATATREE = int(az.__version__.split(".")[0]) >= 1


def pareto_shape(log_weights: np.ndarray, relative_efficiency: float) -> float:
    """The shape of the tail of importance weights, (draws,), by ArviZ's PSIS; NaN without one."""
    with np.errstate(all="ignore"):  # a tail of one value, or two, has no shape
        if IS_DATATREE:
            from arviz_stats.base import array_stats

            # It takes log likelihoods, whose negatives are the log weights of leaving one out.
            return float(array_stats.psislw(-log_weights, r_eff=relative_efficiency)[1])
        return float(az.psislw(log_weights, reff=relative_efficiency)[1])


def tail_levels() -> tuple[float, float]:
    """The quantiles between which ArviZ sees the bulk, for its effective sample size of tails."""
    if IS_DATATREE:
        prob = az.rcParams["stats.ci_prob"]
        return min(prob, 1 - prob), max(prob, 1 - prob)
    return 0.05, 0.95


def summary_table(table: xr.Dataset, arguments: dict[str, Any]) -> pd.DataFrame | xr.Dataset:
    """ArviZ's form of a table of statistics, from `az.summary(..., fmt="xarray")`.

    Args:
        table: one array for each variable, with the statistic as first dimension.
        arguments: those of `az.summary`, of which `fmt`, `round_to` and `labeller` matter here.
    """
    return (_table_1 if IS_DATATREE else _table_0)(table, arguments)


def _table_0(table: xr.Dataset, arguments: dict[str, Any]) -> pd.DataFrame | xr.Dataset:
    """As `az.summary` of arviz 0.23 does it."""
    from arviz.sel_utils import xarray_var_iter

    fmt, round_to = arguments.get("fmt", "wide"), arguments.get("round_to")
    metrics = list(table.coords["metric"].values)
    if fmt == "wide":
        labeller = arguments.get("labeller") or az.labels.BaseLabeller()
        rows = list(xarray_var_iter(table, skip_dims={"metric"}))
        labels = [labeller.make_label_flat(name, sel, isel) for name, sel, isel, _ in rows]
        result = pd.DataFrame([values for *_, values in rows], index=labels, columns=metrics)
    elif fmt == "long":
        result = table.to_dataframe().reset_index().set_index("metric")
        result.index = list(result.index)
    else:
        result = table
    if round_to in ("None", "none") or (round_to is None and fmt == "xarray"):
        return result
    if round_to is not None:
        return result.round(round_to)
    digits = {"ess_bulk": 0, "ess_tail": 0, "r_hat": 2}
    return result.round({column: digits.get(column, 3) for column in result.columns})


def _table_1(table: xr.Dataset, arguments: dict[str, Any]) -> pd.DataFrame | xr.Dataset:
    """As `az.summary` of arviz 1.x does it."""
    from arviz_stats.base.stats_utils import round_num
    from arviz_stats.summary import SummaryDataFrame, _build_fmt_map

    fmt, round_to = arguments.get("fmt", "wide"), arguments.get("round_to", "auto")
    digits = az.rcParams["stats.round_to"] if round_to in ("auto", None) else round_to
    raw = round_to in ("None", "none")
    if fmt == "xarray":
        if raw:
            return table
        return xr.apply_ufunc(round_num, table, digits, vectorize=True)
    if fmt == "wide":
        result = az.dataset_to_dataframe(table, sample_dims=["summary"]).T  # type: ignore[attr-defined]
    else:
        result = table.to_dataframe().reset_index().set_index("summary")
        result.index = list(result.index)
    if round_to == "auto":
        return SummaryDataFrame(result, fmt_map=_build_fmt_map(result, digits))
    return result if raw else result.map(lambda x: round_num(x, digits))


def to_datasets(idata: Any) -> dict[str, xr.Dataset]:
    """Copies of the groups of an InferenceData or DataTree."""
    if isinstance(idata, xr.DataTree):  # as a Zarr store is read, also beside arviz 0.23
        return {name: node.to_dataset() for name, node in idata.children.items()}
    return {name: idata[name].copy() for name in idata.groups()}


def from_datasets(groups: dict[str, xr.Dataset]) -> az.InferenceData | xr.DataTree:
    """An InferenceData or DataTree of these groups."""
    if IS_DATATREE:
        return xr.DataTree.from_dict(groups)
    return az.InferenceData(**groups)  # type: ignore[arg-type]


class RunAdapter(az.NumPyroInferenceAdapter if IS_DATATREE else object):  # type: ignore[misc]
    """A finished run as `az.from_numpyro` of either generation takes it.

    arviz 1.x asks an adapter; arviz 0.23 asks what it would ask a `numpyro.infer.MCMC`.

    Args:
        draws: arrays (chains, draws, ...) by name.
        model: the model, None where there is none.
        model_args, model_kwargs: its arguments.
    """

    def __init__(
        self, draws: dict[str, Any], model: Any, model_args: tuple, model_kwargs: dict[str, Any]
    ):
        shape = next(iter(draws.values())).shape[:2]
        self._draws = draws
        self.num_chains, self.num_samples = shape
        self.thinning = 1
        self.sampler = self
        if IS_DATATREE:
            super().__init__(self, model, model_args, model_kwargs, shape)
        else:
            self.model, self._args, self._kwargs = model, model_args, model_kwargs

    @property
    def sample_dims(self) -> list[str]:
        """The dimensions of a draw's number."""
        return ["chain", "draw"]

    def get_samples(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The draws, by chain."""
        return self._draws

    def get_extra_fields(self, **kwargs: Any) -> dict[str, Any]:
        """Nothing: what is known of each draw is added later."""
        return {}
