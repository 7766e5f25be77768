"""From a finished run to an ArviZ InferenceData, or DataTree with arviz 1.x."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import arviz as az
import xarray as xr
from numpyro.infer import MCMC

from numpyro_contour.output.equal_weights import with_equal_weights
from numpyro_contour.output.groups_of_run import groups_with_warning
from numpyro_contour.output.stored_groups import groups_of_stores, names_stores, storable
from numpyro_contour.runs.finished_run import FinishedRun
from numpyro_contour.statistics.arviz_versions import from_datasets


def to_inference_data(
    mcmc: MCMC | str | Path | Sequence[str | Path],
    theta: str = "online",
    energy: str | None = None,
    *,
    coords: Mapping[str, Any] | None = None,
    dims: Mapping[str, list[str]] | None = None,
    log_likelihood: bool = False,
    prior: Mapping[str, Any] | None = None,
    posterior_predictive: Mapping[str, Any] | None = None,
    predictions: Mapping[str, Any] | None = None,
    constant_data: Mapping[str, Any] | None = None,
    collect_theta: bool | int = True,
) -> az.InferenceData | xr.DataTree:
    r"""The run as an ArviZ InferenceData (arviz 0.23) or DataTree (arviz 1.x), weights included.

    Groups:

    - `posterior`: draws of **equal weight**, for ArviZ's own functions: of each chain as many as it
      has, resampled systematically in proportion to the weights, always in the same way and in the
      order of time; a chain without any weight is left out;
    - `weighted_posterior`: the run's draws, of the **flattened** density;
    - `weighted_sample_stats`: `log_weight`, each chain's with mean 1; the log density `lp` = -U
      where the potential energy of the draws is known, and `energy` = U, as `az.plot_energy` asks
      for it; `potential_energy_estimate`, as the run saw it, where it comes from minibatches, and
      with full-data weights `energy_noise`, its standard deviation at the draw; `steps`, `refused`
      and `clipped`, counted since the start of the run; `diverging`, whether a move was refused
      since the draw before, as ArviZ's functions ask for it; `step_size`; `temperature` (the
      highest of the draw's steps) where a schedule changes it; of a contour kernel also
      `energy_bin`, `gradient_multiplier`, the `lowest_energy` and the `highest_energy` of the
      positions that the draw stands for, the count `bounded`, `log_normaliser`, that of the
      density by theta of the moment, which `log_weight` contains, and `log_theta` (chain, draw,
      bin), as the draw left it; of replica exchange the `swap_rates` so
      far (chain, draw, pair), the sum of the rejection rates, `communication_barrier`, the
      `round_trips` of all replicas from the coldest temperature to the hottest and back so far,
      and the estimated variance of the energies' noise, `energy_variance` (chain, draw, replica).
      `sample_stats` has what is of single draws, without weights and theta;
    - `energy_partition`, of a contour kernel: `lower_edge` and `upper_edge` of each bin in nats,
      the last `theta` and the `visits`, all (chain, bin), and what each chain's weights were
      divided by, `log_normaliser` (chain,). The first bin also takes what is below it, the last
      what is above;
    - `warmup`, where anything was found there: `step_size`, `acceptance`, `energy`, `energy_sd`,
      `lower_edge` and `upper_edge` of each (chain, stage); the diagonal of the `preconditioner` M,
      the standard deviation of the gradient estimate, `gradient_noise`, how much of M that noise
      makes up, `preconditioner_noise`, and how often the chain had time to forget its place while
      draws were collected, `relaxation_times`, of each (chain, coordinate); of a dense M also all
      of it, `preconditioner_matrix` (chain, coordinate, other_coordinate), and of one of low rank
      diag(a) + w (S - 1) w', the parts `preconditioner_across` (chain, coordinate),
      `preconditioner_directions` (chain, coordinate, direction) and `preconditioner_stretches`
      (chain, direction);
      the standard deviation of the energy estimate, `energy_noise`, also in bin widths,
      `energy_noise_in_bins`; `control_variate`, 1 where it is in use, its `order` (3 for an
      expansion in the data), the number of its `anchors`, of the `passes` over all rows that
      placed them, and of the draws that wanted one more than the run could afford,
      `passes_refused`, each (chain,); `taken_from`, the chain at whose place a chain was put after
      a descent that led nowhere, -1 for none, (chain,);
      `gradient_noise_share`, the share of the gradient's noise in the noise of a step (chain,
      coordinate);
    - `equipartition`: of each unconstrained coordinate the mean of :math:`(x_i - \mu_i)\,
      \partial_i U / \tau` over the weighted draws, `ratio`, which is 1 where they are right, and
      its standard error `mcse`; `mean_ratio` and `mean_mcse` over all coordinates. It takes
      gradients over all data at up to 2,000 draws, and is left out where that would take long;
    - `gradient`: along up to 32 lines between draws of a chain, the difference `rise` of the
      potential energies at the ends in nats, and `jump`, how much of the energy's way the gradient
      does not explain: 0 where it is the energy's slope. Left out where that would take long;
    - `curvature`: step size times the largest curvature of the potential energy in the coordinates
      of the preconditioner, over the value from which on moves are unstable, at the draws of the
      `lowest` energies and at `even` ones, (chain, place). Left out where moves are adjusted, where
      there are no second derivatives, or where that would take long;
    - `modes`, where chains jump between modes and two or more are known, those of larger mass by
      their normals first: the bottom of each, `mean`, in unconstrained coordinates, and the `sd` of
      its normal, (mode, coordinate); its `mass` by the weighted draws with the standard error
      `mass_mcse`, `mass_by_chain` (chain, mode), `mass_by_bridge` and `mass_by_bridge_mcse`, by
      bridge sampling from the draws within each mode, NaN for a mode that no normal fits and left
      out where energies would take long; where energies were exact, the `energy` at the bottom in
      nats, `mass_by_normal`, and `log_integral_by_normal`, the log of the integral of
      :math:`e^{-U / \tau}`; and `jumps_tried` and `jumps_made` while draws were collected, (chain,
      from_mode, to_mode). The mode of each draw, the one whose normal density is largest there, is
      `mode` in the group `sample_stats`;
    - `observed_data` and, on request, `log_likelihood`: over all data, not one minibatch;
    - `prior`, `posterior_predictive`, `predictions`, `constant_data` where given.

    The kernel's settings, zeta and temperature among them, and versions are attributes of
    `posterior` and `sample_stats`.

    All groups with draws come in both forms, of equal weight under the plain name and with
    weights, which `summary`, `expectation`, `diagnose` and the plots take, under one that begins
    with `weighted_`. Where weights are equal, draws are kept once, under the plain names.

    Args:
        mcmc: a `numpyro.infer.MCMC` with a kernel of this package, after `run`; or the folder of a
            store that `run_stored` writes, whose draws are read when they are used; or several such
            folders, of runs of one model with the same settings, whose chains are put side by side.
            A store takes none of the other arguments, and gives no warnings: ask `diagnose`.
        theta: as in `weighted_samples`.
        energy: as in `weighted_samples`.
        coords: coordinate values, `{dimension: values}`. None (default) for numbers from 0.
        dims: names of dimensions, `{variable: [dimension, ...]}`. None (default) for the names of
            the plates.
        log_likelihood: whether to evaluate the log likelihood of every row at every draw, in
            chunks; it takes draws times rows of memory. Defaults to False.
        prior: draws from the prior, `{variable: (draws, ...)}`; variables that are not the
            posterior's make a group `prior_predictive`. None (default) for none.
        posterior_predictive: one predictive draw for each draw of the run,
            `{variable: (chains, draws, ...)}` or (chains * draws, ...), as `predictive` returns.
            None (default) for none.
        predictions: the same for new data. None (default) for none.
        constant_data: data that is not modelled, `{variable: array}`. None (default) for none.
        collect_theta: True (default) to export theta at each draw, which takes draws times bins of
            memory; an integer to export it at every so many draws, with the dimension `theta_draw`;
            False for no theta.

    Returns:
        An `arviz.InferenceData`, or an `xarray.DataTree` with arviz 1.x.

    Raises:
        ValueError: as `weighted_samples`, or `collect_theta` is out of its range, or the log
            likelihood is asked of a model that sums out discrete variables; a folder is not the
            store of a run, or those of several differ, with what differs.

    Warns:
        UserWarning: once, where a verdict of `diagnose` is bad: with the first fault, what to
            change, and the names of the others.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from numpyro.infer import MCMC
        >>> from numpyro_contour import ContourSGLD, EnergyPartition, to_inference_data
        >>> kernel = ContourSGLD(potential_fn=lambda x: x**2 / 2, step_size=0.1,
        ...                      partition=EnergyPartition(0.0, 5.0, 10))
        >>> mcmc = MCMC(kernel, num_warmup=2000, num_samples=100, progress_bar=False)
        >>> mcmc.run(jax.random.key(0), init_params=jnp.array(0.0))
        >>> idata = to_inference_data(mcmc)
        >>> idata["weighted_sample_stats"]["log_theta"].dims
        ('chain', 'draw', 'bin')
        >>> idata["energy_partition"]["upper_edge"].values[0, :3].tolist()
        [0.5, 1.0, 1.5]
    """
    more = {
        "coords": coords,
        "dims": dims,
        "log_likelihood": log_likelihood,
        "prior": prior,
        "posterior_predictive": posterior_predictive,
        "predictions": predictions,
        "constant_data": constant_data,
    }
    if names_stores(mcmc):
        given = [name for name, value in more.items() if value not in (None, False)]
        given += ["theta"] * (theta != "online") + ["energy"] * (energy is not None)
        given += ["collect_theta"] * (collect_theta is not True)
        if given:
            raise ValueError(
                f"`{given[0]}` is taken of a run that is in memory, not of a store: give the MCMC."
            )
        groups = groups_of_stores(mcmc)
    else:
        groups = groups_with_warning(FinishedRun.of(mcmc), theta, energy, collect_theta, **more)
    handed_out = with_equal_weights(groups)
    return from_datasets({name: storable(group) for name, group in handed_out.items()})
