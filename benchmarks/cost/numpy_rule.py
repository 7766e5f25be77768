"""The rule of the authors' demo in NumPy, compared with `ContourSGLD` on the nine modes."""

from __future__ import annotations

import math
from collections.abc import Callable

import autograd.numpy as traced_numpy
import numpy as np
from autograd import grad

from benchmarks.accuracy.nine_modes import LOWER
from benchmarks.cost.vectorised import chains_of, kernel
from benchmarks.shared.experiment import Experiment
from benchmarks.shared.tables import markdown_table
from benchmarks.shared.timing import ROUNDS, step_costs
from numpyro_contour.examples import nine_modes

CHAINS = 10
#: numbers of chains in the table; the aim is for the first
COMPARED = (CHAINS, 1)
BINS = 100
#: the aim: how many of our steps a step of the authors' rule costs, per chain
AIM = 200
#: our steps for each step of the rule, so that both take a measurable time
MORE = 100


def energy(x: np.ndarray) -> float:
    """The energy of the nine modes for autograd."""
    square = traced_numpy.sum(x**2)
    waves = traced_numpy.sum(traced_numpy.cos(1.2 * math.pi * x))
    return (square - 10 * waves) / 3 + (square - 7) * (square > 7)


def plain_energy(x: np.ndarray) -> float:
    """The same in NumPy alone."""
    square = x @ x
    return (square - 10 * np.cos(1.2 * math.pi * x).sum()) / 3 + max(square - 7, 0.0)


def plain_gradient(x: np.ndarray) -> np.ndarray:
    """Its gradient, written by hand."""
    slope = (2 * x + 12 * math.pi * np.sin(1.2 * math.pi * x)) / 3
    return slope + 2 * x if x @ x > 7 else slope


class Rule:
    """The rule of the authors' demo: contour SGLD on noisy energies in a box, step by step."""

    temperature, zeta, learning_rate = 1.0, 0.75, 0.001
    noise, box = 0.32, 2.5
    lowest, width, parts = LOWER, 0.25, BINS

    def __init__(self, energy: Callable, gradient: Callable, seed: int = 0):
        self.energy, self.gradient = energy, gradient
        self.rng = np.random.default_rng(seed)
        self.x = np.zeros(2)
        self.probability = np.full(self.parts, 1 / self.parts)
        self.place = self.parts - 1

    @property
    def multiplier(self) -> float:
        """The multiplier of the gradient."""
        rise = np.log(self.probability[self.place]) - np.log(self.probability[self.place - 1])
        return 1 + self.zeta * self.temperature * rise / self.width

    def step(self, number: int) -> None:
        """One move, and one update of the bins' probabilities."""
        gradient = self.gradient(self.x) + self.noise * self.rng.normal(size=2)
        moved = self.x - self.learning_rate * self.multiplier * gradient
        spread = math.sqrt(2 * self.learning_rate * self.temperature)
        moved = moved + spread * self.rng.multivariate_normal(np.zeros(2), np.eye(2))
        if np.all(np.abs(moved) <= self.box):
            self.x = moved
        value = self.energy(self.x) + self.noise * self.rng.normal()
        above = (value - self.lowest) / self.width
        self.place = place = min(max(int(above + 1), 1), self.parts - 1)
        self.learn(place, min(0.003, 10 / (number**0.8 + 100)))

    def learn(self, place: int, gain: float) -> None:
        """Raise the probability of the bin `place`, and lower all others."""
        probability = self.probability
        amount = gain * probability[place] ** self.zeta
        probability[:place] += amount * -probability[:place]
        probability[place] += amount * (1 - probability[place])
        probability[place + 1 :] += amount * -probability[place + 1 :]


def run_of(energy: Callable, gradient: Callable) -> Callable[[int], None]:
    """The rule from the middle, as a function of the number of steps."""

    def run(steps: int) -> None:
        rule = Rule(energy, gradient)
        for number in range(1, steps + 1):
            rule.step(number)

    return run


def ours(chains: int, num_steps: int) -> Callable[[int], None]:
    """Our chains, which take `MORE` times as many steps."""
    run = chains_of(kernel(BINS, num_steps, energy=nine_modes.noisy_energy(0.1)), chains)
    return lambda steps: run(MORE * steps)


def main(experiment: Experiment) -> str:
    """The section of the page."""
    steps, num_steps, rounds = experiment.choose((2000, 1000, ROUNDS), (50, 100, 2))
    chains = experiment.choose(COMPARED, (CHAINS,))
    mine = [f"ContourSGLD, chains: {number}" for number in chains]
    theirs = ["the rule with autograd", "the rule with a gradient by hand"]
    found = step_costs(
        {
            theirs[0]: run_of(energy, grad(energy)),
            theirs[1]: run_of(plain_energy, plain_gradient),
            **{name: ours(number, num_steps) for name, number in zip(mine, chains)},
        },
        steps,
        rounds,
    )
    for name in mine:
        found[name] = found[name] / MORE
    rows = [
        [
            *(name, f"{np.median(found[name]):.3g}"),
            *(f"{np.median(found[name] / found[other]):.3g}" for other in mine),
        ]
        for name in (*theirs, *mine)
    ]
    ratio = np.median(found[theirs[0]] / found[mine[0]])
    return (
        "## The authors' rule in NumPy\n\nThe target is the nine modes in two dimensions, with "
        f"noise on energies and gradients and {BINS} bins of width 0.25. The rule follows the "
        "authors' demo but is not their file. It runs one chain in a box, one step at a time in "
        "Python. Its gradient comes from autograd, which differentiates the energy as a function "
        "of both coordinates at once. With a gradient written by hand, the same rule uses NumPy "
        "alone. `ContourSGLD` runs at the same settings, compiled, through NumPyro's driver and "
        "without a box. It also computes weights and chooses draws, which the rule does not. "
        f"Figures are medians of {rounds} rounds in which the methods take turns; set-up and "
        "compiling are not counted.\n\n"
        + markdown_table(
            ["method", "us a step and chain", *(f"times {name}" for name in mine)], rows
        )
        + f"\nThe aim is a factor of {AIM} per chain between the rule with autograd and {CHAINS} "
        f"chains of `ContourSGLD`: it is {ratio:.0f}, "
        f"{'reached' if ratio >= AIM else 'not reached'}.\n"
    )
