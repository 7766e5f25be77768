"""The demo: nine modes in two dimensions, then two modes that 100,000 rows make.

`make demo`, or `python -m numpyro_contour --output DIR`.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Sequence
from pathlib import Path

import arviz as az
from jax import random

from numpyro_contour import diagnose, to_inference_data
from numpyro_contour.examples import demo_nine_modes, demo_rows
from numpyro_contour.examples.demo_runs import describe_report, save_figure, save_warmup


def main(argv: Sequence[str] | None = None) -> None:
    """Run the demo.

    Args:
        argv: command line arguments. None (default) for those of the process.
    """
    parser = argparse.ArgumentParser(prog="numpyro_contour", description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("demo-output"), help="folder for files")
    parser.add_argument("--seed", type=int, default=0, help="seed of the chains")
    parser.add_argument("--quick", action="store_true", help="short runs, to see that it works")
    arguments = parser.parse_args(argv)
    began = time.perf_counter()
    quick = arguments.quick
    key_nine, key_rows = random.split(random.key(arguments.seed))

    nine_job = demo_nine_modes.QUICK_JOB if quick else demo_nine_modes.JOB
    nine = demo_nine_modes.run_all(nine_job, key_nine)
    print(demo_nine_modes.describe(nine_job, nine), end="\n\n")
    nine_idata = to_inference_data(nine["ContourSGLD"].mcmc)
    print(diagnose(nine_idata), end="\n\n", flush=True)

    job = demo_rows.QUICK_JOB if quick else demo_rows.JOB
    nuts_draws = demo_rows.QUICK_NUTS_DRAWS if quick else demo_rows.NUTS_DRAWS
    runs = demo_rows.run_all(job, nuts_draws, key_rows)
    print(demo_rows.describe(job, runs), end="\n\n", flush=True)

    arguments.output.mkdir(parents=True, exist_ok=True)
    data_file = arguments.output / "phase_retrieval.nc"
    with warnings.catch_warnings():
        # The report below says all of it.
        warnings.filterwarnings("ignore", "This run cannot be trusted", UserWarning)
        to_inference_data(runs.contour.mcmc).to_netcdf(data_file)
    again = az.from_netcdf(data_file)
    print(demo_rows.describe_file(again), end="\n\n")
    print(describe_report(diagnose(again)), end="\n\n")

    figure_file, warmup_file = arguments.output / "demo.png", arguments.output / "warmup.png"
    save_figure(figure_file, nine["ContourSGLD"], nine_idata, again)
    save_warmup(warmup_file, nine_idata)
    print(
        f"Wrote {data_file}, {figure_file} and {warmup_file} after "
        f"{time.perf_counter() - began:.0f} seconds."
    )
