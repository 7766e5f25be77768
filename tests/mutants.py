"""Does `make test` see faults? Each mutant below breaks one expression of the package.

`python tests/mutants.py` applies one after the other to a copy of the checkout, runs the tests of
the first tier that should see it, and all of the first tier where they do not, and prints which
test failed. It takes the interpreter's own packages: run it with `.venv-test-*/bin/python`.

    python tests/mutants.py                 all
    python tests/mutants.py psi 12 models   those of numbers, and of files and names with a word
    python tests/mutants.py --check         only whether each text is there, once
"""

import argparse
import ast
import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PACKAGE = "numpyro_contour"
IGNORED = shutil.ignore_patterns(".git", ".venv*", "site", "demo-output", "__pycache__", ".*_cache")


class Mutant(NamedTuple):
    """One fault."""

    #: the function, the method, as "Class.method", or the constant that holds the text; with the
    #: stem of its file before it, as "stem:name", where several have that name
    place: str
    old: str
    new: str
    #: folders and files of tests/ that should see it
    tests: str


MUTANTS = [
    # core/arrays
    Mutant("_ROTATIONS", "(13, 15, 26, 6)", "(13, 15, 26, 7)", "core/arrays"),
    Mutant("normal", ">> 9)", ">> 10)", "core/arrays"),
    Mutant("_two_sum", "+ (b - of_b)", "- (b - of_b)", "models"),
    Mutant("bits", "size >= 2**32", "size < 2**32", "core/arrays"),
    Mutant(
        "slope",
        "_stretched(factor, factor.scales * gradient)",
        "factor.scales * _stretched(factor, gradient)",
        "core/arrays",
    ),
    Mutant("diagonal", "across = 2 * scales", "across = scales", "core/arrays"),
    Mutant("slope", "gradient @ factor", "factor @ gradient", "core/diffusions"),
    Mutant("eigh", "@sequential_vmap\ndef eigh", "def eigh", "core/arrays/test_decompositions.py"),
    # core/diffusions
    Mutant(
        "langevin",
        "jnp.sqrt(2 * temperature * step_size)",
        "jnp.sqrt(temperature * step_size)",
        "core/diffusions core/samplers",
    ),
    Mutant("langevin", "0.5 * (r + s)", "0.6 * (r + s)", "core/diffusions"),
    Mutant(
        "langevin",
        "d - temperature * step_size * c",
        "d + temperature * step_size * c",
        "core/diffusions",
    ),
    Mutant("underdamped", "(1 - c**2)", "(1 - c)", "core/diffusions"),
    Mutant("underdamped", "2 * step_size / (1 + c)", "2 * step_size / (1 - c)", "core/diffusions"),
    Mutant(
        "nose_hoover",
        "friction + 0.5 * friction_change(moving)",
        "friction - 0.5 * friction_change(moving)",
        "core/diffusions",
    ),
    Mutant("rmsprop", "(1 - decay**count)", "(1 - decay)", "core/diffusions"),
    Mutant("relocate_velocity", "v - 0.5 * (a - b)", "v + 0.5 * (a - b)", "core/diffusions"),
    Mutant("clip_drift", "jnp.clip(d, -b, b)", "jnp.clip(d, -2 * b, b)", "core/diffusions"),
    Mutant("injected_noise_scale", "(1 - share, 0.05)", "(1 + share, 0.05)", "core/diffusions"),
    Mutant(
        "whitened",
        "position + displacement(factor, proposal.position)",
        "position + proposal.position",
        "core/diffusions",
    ),
    Mutant(
        "whitened",
        "slope(factor, before), slope(factor, after)",
        "slope(factor, before), after",
        "core/diffusions",
    ),
    Mutant(
        "whitened",
        "slope(factor, gradient), step, log_ratio",
        "gradient, step, log_ratio",
        "core/samplers/test_adjusted.py",
    ),
    Mutant("leapfrog", "a**2 - b**2", "b**2 - a**2", "core/samplers/test_adjusted.py"),
    Mutant(
        "leapfrog",
        "jnp.where(accepted, a, -b)",
        "jnp.where(accepted, a, b)",
        "core/samplers/test_adjusted.py",
    ),
    Mutant(
        "leapfrog",
        "attempt.level * jnp.exp(-log_ratio)",
        "attempt.level * jnp.exp(log_ratio)",
        "core/samplers/test_adjusted.py",
    ),
    Mutant("leapfrog", "jnp.sqrt(1 - c**2) * r", "(1 - c) * r", "core/samplers/test_adjusted.py"),
    # core/flattening
    Mutant("_log_psi_between", "(place - left) * rise", "(left - place) * rise", "core/flattening"),
    Mutant(
        "_log_psi_between",
        "1 + flattening.zeta * temperature * slope",
        "1 - flattening.zeta * temperature * slope",
        "core/flattening",
    ),
    Mutant(
        "largest_drop",
        "(1 - bound) * partition.width",
        "(1 + bound) * partition.width",
        "core/flattening",
    ),
    Mutant("psi:log_flattening", "(value - theta.decay)", "value", "core/flattening output"),
    Mutant("update_theta", "theta.decay - jnp.log1p(-amount)", "theta.decay", "core/flattening"),
    Mutant("update_penalized", "bins >= energy_bin", "bins > energy_bin", "core"),
    Mutant(
        "EnergyPartition.index",
        "jnp.floor(jnp.nan_to_num(clipped))",
        "jnp.floor(clipped)",
        "core/flattening",
    ),
    Mutant(
        "WideningPartition._stretch",
        "(self.dense - 1) * more",
        "self.dense * more",
        "core/flattening",
    ),
    Mutant(
        "log_normaliser",
        "interpolation]) - theta.decay",
        "interpolation])",
        "core/flattening/test_normaliser.py",
    ),
    Mutant(
        "update_mean_theta",
        "2.0 / (mean.thetas + 2)",
        "1.0 / (mean.thetas + 1)",
        "core/flattening/test_normaliser.py",
    ),
    Mutant(
        "_middles",
        "0.5 * (padded[:-1] + padded[1:])",
        "padded[:-1]",
        "core/flattening/test_normaliser.py",
    ),
    Mutant("log_psi_of_all_nodes", "below - step * drop", "below", "core/flattening"),
    Mutant("log_psi_of_all_nodes", "jnp.maximum(here, above)", "here", "core/flattening"),
    Mutant(
        "learn_together", "shared = lax.pmean(amount", "shared = lax.psum(amount", "core/flattening"
    ),
    Mutant(
        "learn_together",
        "lax.pmean(jnp.where(here, amount, 0.0)",
        "lax.psum(jnp.where(here, amount, 0.0)",
        "core/flattening",
    ),
    Mutant("update_theta_by", "decay - theta.log_theta", "-theta.log_theta", "core/flattening"),
    Mutant("update_theta_by", "jnp.cumsum(-jnp.log1p", "jnp.sum(-jnp.log1p", "core/flattening"),
    Mutant("learn_together", "lost = lax.pmean(", "lost = lax.psum(", "core/flattening"),
    Mutant("learn_together", "amount + penalty, 0.0", "amount, 0.0", "core/flattening"),
    Mutant("learn_together", "lax.pmax(", "lax.pmin(", "core/flattening"),
    Mutant("learn", "if chains is not None:", "if chains is None and False:", "core/flattening"),
    # how many steps a draw takes
    Mutant("by_correlation", "/ (2 * jnp", "/ (jnp", "warmup/test_draw_length.py"),
    Mutant("by_correlation", "-1.0, 1.0)", "-9.0, 9.0)", "warmup/test_draw_length.py"),
    Mutant("by_correlation", "chosen**2", "chosen", "warmup/test_draw_length.py"),
    Mutant("by_relaxation", "TIMES * time", "9 * time", "warmup/test_draw_length.py"),
    Mutant("say_how_long", "* chains * seconds", "* seconds", "warmup/test_draw_length.py"),
    Mutant("say_how_long", "minutes > 1 and shows_bar", "shows_bar", "warmup/test_draw_length.py"),
    Mutant("AllChains.mixed", "given, DRAWS)", "given, 10**6)", "warmup/test_draw_length.py"),
    Mutant("slowest", "jnp.min(jnp", "jnp.max(jnp", "warmup/test_draw_length.py"),
    Mutant("_paced", "min(draws, math", "max(draws, math", "warmup/test_draw_length.py"),
    # core/samplers
    Mutant(
        "image",
        "towards = modes.log_volume - log_share",
        "towards = -log_share",
        "core/samplers/test_known_modes.py",
    ),
    Mutant(
        "image",
        "towards = modes.log_volume - log_share",
        "towards = modes.log_volume",
        "core/samplers/test_known_modes.py",
    ),
    Mutant("taken", "returns & (found == target)", "returns", "core/samplers/test_known_modes.py"),
    Mutant(
        "image",
        "log_others(origin) - log_others(target)",
        "0.0",
        "core/samplers/test_known_modes.py",
    ),
    Mutant(
        "moved_coordinate",
        "jnp.log(s[target]) - jnp.log(s[origin])",
        "0.0 * s[0]",
        "core/samplers/test_one_coordinate.py",
    ),
    Mutant(
        "moved_coordinate",
        "(distances(moved)[target] < distances(moved)[origin]) & jnp",
        "jnp",
        "core/samplers/test_one_coordinate.py",
    ),
    Mutant(
        "moved_coordinate",
        "jnp.sum(modes.known) >= LEAST_MODES",
        "jnp.sum(modes.known) > 1",
        "core/samplers/test_one_coordinate.py",
    ),
    Mutant(
        "moved_coordinate",
        "s[target] / s[origin] * (x",
        "(x",
        "core/samplers/test_one_coordinate.py",
    ),
    Mutant(
        "sides",
        "jnp.max(low, 0) > jnp.min(high, 0))",
        "jnp.max(low, 0) > -jnp.inf)",
        "core/samplers/test_one_coordinate.py",
    ),
    Mutant(
        "moved_within",
        "Way(there, size * log_scale,",
        "Way(there, log_scale,",
        "core/samplers/test_within_mode.py",
    ),
    Mutant(
        "moved_within",
        "size * log_scale, number,",
        "size * log_scale, jnp.array(-1),",
        "core/samplers/test_within_mode.py",
    ),
    Mutant("moved_within", "z - 2 * along", "z - along", "core/samplers/test_within_mode.py"),
    Mutant("of_unlike_widths", "jnp.max(sds, -1), jnp", "sds[:, 0], jnp", "core/samplers"),
    Mutant(
        "of_unlike_widths",
        "jnp.where(modes.known, of_all, 0.0)",
        "of_all",
        "core/samplers/test_within_mode.py",
    ),
    Mutant("jumps:jumps", "whole &= ~stays", "whole &= whole", "core/samplers/test_within_mode.py"),
    Mutant(
        "jumps:jumps",
        "(old - found.energy) / safe",
        "(found.energy - old) / safe",
        "core/samplers/test_known_modes.py",
    ),
    Mutant("jumps:jumps", "+ here - there", "", "core/samplers/test_known_modes.py"),
    Mutant(
        "jumps:jumps",
        "log_ratio -= 0.5 * noise",
        "log_ratio -= 0.0 * noise",
        "core/samplers/test_known_modes.py",
    ),
    Mutant(
        "jumps:jumps",
        "old, noise = own.energy, own.noise",
        "old, noise = own.energy, 0.0",
        "core/samplers/test_known_modes.py",
    ),
    Mutant(
        "jumps:jumps",
        "old, noise = own.energy, own.noise",
        "noise = own.noise",
        "core/samplers/test_known_modes.py",
    ),
    Mutant(
        "jumps:jumps", "noise += found.noise", "noise += 0.0", "core/samplers/test_known_modes.py"
    ),
    Mutant(
        "jumps:jumps",
        "log_ratio -= 0.5 * noise",
        "log_ratio -= 1.0 * noise",
        "core/samplers/test_known_modes.py",
    ),
    Mutant(
        "jumps:jumps",
        "if jax.tree.leaves(memory)",
        "if not jax.tree.leaves(memory)",
        "core/samplers/test_known_modes.py",
    ),
    Mutant(
        "advance_adjusted", "energy) / tau", "energy) / tau**2", "core/samplers/test_adjusted.py"
    ),
    Mutant(
        "advance_adjusted",
        "+ log_flattening - ",
        "- log_flattening + ",
        "core/samplers/test_adjusted.py",
    ),
    Mutant(
        "advance_adjusted",
        "flattening_at(energy)",
        "flattening_at(chain.potential_energy)",
        "core/samplers/test_adjusted.py",
    ),
    Mutant("update_guard", "guard.step_scale * 0.5", "guard.step_scale", "core/samplers"),
    Mutant("run_window", "drawn >= shares", "drawn <= shares", "core/samplers"),
    Mutant("run_window", "trust * log_weight", "log_weight", "core/samplers/test_window.py"),
    Mutant("run_window", "- jnp.log(length.stretches * length.steps)", "", "core/samplers"),
    Mutant("cyclical", "* progress) + 1", "* progress) + 2", "core/samplers"),
    Mutant("cyclical", ", stretch=stretch", "", "core/samplers/test_window.py"),
    Mutant(
        "replica_exchange",
        "1 / tau[:-1] - 1 / tau[1:]",
        "1 / tau[:-1] + 1 / tau[1:]",
        "core/samplers",
    ),
    Mutant(
        "replica_exchange",
        "0.5 * (variance[:-1] + variance[1:])",
        "(variance[:-1] + variance[1:])",
        "core/samplers",
    ),
    Mutant("replica_exchange", "& both_moved & ~has_swapped,", "& both_moved,", "core/samplers"),
    Mutant("replica_exchange", "(number // swap_window) % 2", "number % 2", "core/samplers"),
    Mutant("replica_exchange", "(number % swap_window == 0)", "(number % 2 == 0)", "core/samplers"),
    Mutant("replica_exchange", "walkers=walkers)", "walkers=state.walkers)", "core/samplers"),
    Mutant(
        "walk",
        "walkers.heading[coldest] == _DOWN",
        "walkers.heading[coldest] != _UP",
        "core/samplers/test_walkers.py",
    ),
    Mutant(
        "walk",
        "heading[hottest] == _UP",
        "heading[hottest] != _DOWN",
        "core/samplers/test_walkers.py",
    ),
    Mutant("walk", "at[0], at[-1]", "at[-1], at[0]", "core/samplers/test_walkers.py"),
    Mutant("energy_noise_of_move", "0.5 * (g + h) * (y - x)", "0.5 * (g + h) * (x - y)", "runs"),
    Mutant("_Moves.step", "at, psi.gradient_multiplier", "at, 1.0", "core/samplers"),
    Mutant(
        "_Moves.stretch",
        "at_once, state.gradient_multiplier",
        "at_once, before.gradient_multiplier",
        "core/samplers/test_window.py",
    ),
    Mutant("_Moves.stretch", "bounded[:-1]", "bounded[1:]", "core/samplers/test_window.py"),
    Mutant(
        "_Moves.stretch",
        "chain.potential_energy, count + 1",
        "chain.potential_energy, 1",
        "core/samplers/test_window.py",
    ),
    Mutant("_Moves.stretch", "steps + 1 + jnp", "steps + jnp", "core/samplers/test_window.py"),
    Mutant(
        "plain:plain",
        "state.chain.steps + 1",
        "state.chain.steps",
        "core/samplers/test_window.py",
    ),
    Mutant(
        "Passed.log_time_weight", "jnp.log(self.step_scale)", "0.0", "core/samplers/test_window.py"
    ),
    Mutant(
        "run_window",
        "jnp.isfinite(log_total), place, length.steps",
        "jnp.isfinite(log_total), place, 0",
        "kernels/test_every_kernel.py",
    ),
    Mutant("_Steps.stretch", "made.state, (keys", "state, (keys", "core/samplers kernels"),
    Mutant(
        "_Visits.of_step",
        "*visited, self.rho, self.chains",
        "*visited, self.rho",
        "core/flattening",
    ),
    Mutant("climbing", "xi**2 - back**2", "xi**2", "core/samplers"),
    Mutant(
        "update_steps",
        "(acceptance - TARGET_ACCEPTANCE)",
        "(TARGET_ACCEPTANCE - acceptance)",
        "core/flattening core/samplers",
    ),
    # modes
    Mutant("further_copy", "signs[second] * modes.mean", "modes.mean", "modes/test_copies.py"),
    Mutant(
        "further_copy",
        ".at[:, orders[second]]",
        ".at[:, jnp.argsort(orders[second])]",
        "modes/test_copies.py",
    ),
    Mutant("further_copy", "modes.known & far &", "modes.known &", "modes/test_copies.py"),
    Mutant("further_copy", "(away < SAME) &", "(away < 10) &", "modes/test_copies.py"),
    Mutant("further_copy", "(random.uniform(of_moving) < _OFTEN)", "True", "modes/test_copies.py"),
    Mutant(
        "with_new_modes",
        "if not found.relevant[k] or k in numbers:",
        "if k in numbers:",
        "modes/test_listed_modes.py",
    ),
    Mutant(
        "with_new_modes",
        "np.argsort(-found.log_mass)",
        "np.argsort(found.log_mass)",
        "modes/test_listed_modes.py",
    ),
    Mutant(
        "_least_needed",
        "(splits & ~without(k)).any()",
        "splits.all()",
        "modes/test_listed_modes.py",
    ),
    Mutant(
        "found_modes",
        "turn @ mean[original], turn @ factor",
        "turn @ mean[original], factor",
        "modes/test_listed_modes.py",
    ),
    Mutant(
        "found_modes",
        "inverse[original] @ turn.T",
        "inverse[original] @ turn",
        "modes/test_listed_modes.py",
    ),
    Mutant(
        "found_modes",
        "log_volume - np.nan_to_num(energy)",
        "log_volume + np.nan_to_num(energy)",
        "modes/test_listed_modes.py",
    ),
    Mutant("found_modes", "EVENNESS * (log_mass", "(log_mass", "modes/test_listed_modes.py"),
    Mutant("listed_modes:_compared", "< ABOUT)", "< 9 * ABOUT)", "modes/test_listed_modes.py"),
    Mutant(
        "listed_modes:_compared",
        "not by_order > max(",
        "not by_order < max(",
        "modes/test_listed_modes.py",
    ),
    Mutant(
        "found_modes",
        "factor[slot] = shapes[0].sds",
        "factor[slot] = shape.sds ** 2",
        "modes/test_listed_modes.py",
    ),
    Mutant(
        "spread_of",
        "(shape.inverse**2).sum(0)",
        "(shape.inverse**2).sum(1)",
        "modes/test_listed_modes.py",
    ),
    Mutant("spread_of", "1 / stretches**2 - 1", "1 / stretches - 1", "modes/test_listed_modes.py"),
    Mutant("_with_shares", "EVENNESS * found.log_mass", "found.log_mass", "warmup/test_modes.py"),
    Mutant(
        "found_modes:_as_copy",
        "turned @ original.factor",
        "original.factor",
        "warmup/test_modes.py",
    ),
    Mutant(
        "found_modes:_compared",
        "rises[2]) - np.log(of_normal)",
        "rises[2])",
        "warmup/test_modes.py",
    ),
    Mutant(
        "found_modes:_compared",
        "alike &= jnp.isfinite(by_order) & ~",
        "alike &= jnp.isfinite(by_order) | ~",
        "warmup/test_modes.py",
    ),
    Mutant(
        "found_modes:_compared",
        "apart = ~(barrier <= _LEAST_BARRIER + rounding)",
        "apart = ~(barrier > 1e30)",
        "warmup/test_modes.py",
    ),
    Mutant(
        "renewed",
        "moves = -times(turned, here.gradient)",
        "moves = -times(modes.factor, here.gradient)",
        "warmup/test_modes.py",
    ),
    Mutant(
        "renewed", "near = squares < APART**2", "near = squares < jnp.inf", "warmup/test_modes.py"
    ),
    Mutant(
        "slot_for", "needed & ~all_needed, jnp.inf", "False, jnp.inf", "modes/test_mode_slots.py"
    ),
    Mutant("slot_for", "| (adds & ~all_needed)", "", "modes/test_mode_slots.py"),
    Mutant(
        "slot_for", "(log_mass > least_mass) & jnp.any(", "jnp.any(", "modes/test_mode_slots.py"
    ),
    Mutant("slot_for", "- modes.mean.shape[-1] / 2", "", "modes/test_mode_slots.py"),
    Mutant(
        "slot_for",
        "all_needed, jnp.max(log_mass), ",
        "all_needed, log_mass[slot], ",
        "modes/test_mode_slots.py",
    ),
    Mutant(
        "_largest_of_others",
        "jnp.where(is_first, second, ",
        "jnp.where(is_first, jnp.max(values, 0), ",
        "modes/test_mode_slots.py",
    ),
    Mutant(
        "affine",
        "towards = modes.log_volume - log_share",
        "towards = -log_share",
        "modes/test_moves.py",
    ),
    Mutant("affine", "- jnp.log1p(-jnp.exp(log_share))", "", "modes/test_moves.py"),
    Mutant(
        "move",
        "returns = (aim == _ANY) | (there.mode == aim)",
        "returns = aim >= _ANY",
        "modes/test_moves.py",
    ),
    Mutant(
        "independent",
        "jax.nn.logsumexp(here.log_densities), _ANY",
        "0 * here.log_densities[0], _ANY",
        "modes/test_moves.py",
    ),
    Mutant(
        "block",
        "jnp.log(sd[second]) - jnp.log(sd[first])",
        "jnp.log(sd[first]) - jnp.log(sd[second])",
        "modes/test_moves.py",
    ),
    Mutant(
        "block",
        "returns = jnp.argmin(distances(there)) == second",
        "returns = second < 2",
        "modes/test_moves.py",
    ),
    Mutant(
        "_shrinkage",
        "found = variance / (number * ",
        "found = variance / (1 * ",
        "modes/test_learning.py",
    ),
    Mutant(
        "_improved",
        "second - middle[:, :, None] * middle[:, None, :]",
        "second",
        "modes/test_learning.py",
    ),
    Mutant("learnt", "jnp.minimum(wanted, affordable)", "wanted", "modes/test_learning.py"),
    Mutant(
        "pooled_covariance",
        "1 / (mass @ (1 / modes.sds[:, places] ** 2))",
        "mass @ modes.sds[:, places] ** 2",
        "modes/test_learning.py",
    ),
    Mutant(
        "_improved", "jnp.where(enough, tail, modes.tail)", "modes.tail", "modes/test_learning.py"
    ),
    Mutant(
        "_improved",
        "lessons.visits + _DRAWS_OF_MASSES * before",
        "lessons.visits",
        "modes/test_learning.py",
    ),
    Mutant("fitting", "rises < _RISE", "rises < 1e9", "modes/test_blocks_of_coordinates.py"),
    Mutant(
        "KnownList._take_up",
        "np.maximum(there, here) <",
        "np.minimum(there, here) <",
        "modes/test_search.py",
    ),
    Mutant(
        "KnownList._without_barrier",
        "<= _LEAST_BARRIER + rounding",
        "<= -1e9",
        "modes/test_search.py",
    ),
    Mutant("KnownList.alone", "once & ~(by_block.all(0) & rest)", "once", "modes/test_search.py"),
    Mutant(
        "KnownList._take_up",
        "shape.energy < self.shapes[number]",
        "np.inf < self.shapes[number]",
        "modes/test_search.py",
    ),
    Mutant(
        "explore", "len(looked_with) == _LOOKS", "len(looked_with) == 0", "modes/test_search.py"
    ),
    Mutant(
        "starts:unexplained", "- np.logaddexp.reduce(known, axis=0)", "", "modes/test_search.py"
    ),
    Mutant("copies", "place = signs * shapes", "place = shapes", "modes/test_search.py"),
    Mutant(
        "shape:shape_at",
        "values[0] < _FALLS_AWAY * top",
        "values[0] < -top * 1e9",
        "modes/test_shape.py",
    ),
    Mutant(
        "shape:shape_at",
        "log_volume = np.log(scales).sum() + ",
        "log_volume = ",
        "modes/test_shape.py",
    ),
    Mutant(
        "lower_places", "lowest[number] = here[number]", "here[number]", "modes/test_valleys.py"
    ),
    Mutant(
        "descend",
        "~jnp.all(walk.rests)",
        "~jnp.any(walk.rests)",
        "modes/test_batches_of_descents.py",
    ),
    Mutant(
        "jumped",
        "jnp.exp(jnp.minimum(log_ratio, 0.0))",
        "1.0",
        "kernels/test_mode_jumping.py modes/test_moves.py",
    ),
    Mutant(
        "jumped",
        "(numbers == begins.mode)",
        "(numbers == -1)",
        "kernels/test_mode_jumping.py output",
    ),
    Mutant(
        "where_no_chain_is:unexplained",
        "/ temperature - known",
        "/ temperature",
        "modes/test_unexplained.py",
    ),
    Mutant(
        "where_no_chain_is:unexplained",
        "return -energy_at(place) / temperature",
        "return -energy_at(place)",
        "modes/test_unexplained.py",
    ),
    Mutant(
        "where_no_chain_is:unexplained",
        "jnp.isfinite(above)",
        "~jnp.isnan(above)",
        "modes/test_unexplained.py",
    ),
    Mutant("further_out", "_FURTHEST ** random", "_FURTHEST * random", "modes/test_unexplained.py"),
    Mutant(
        "where_no_chain_is:_drawn",
        "times(modes.factor[which], normal)",
        "normal",
        "modes/test_unexplained.py",
    ),
    Mutant("further_out", "places + sign * factor", "places + factor", "modes/test_further_out.py"),
    Mutant(
        "further_out",
        "~jnp.eye(chains, dtype=bool)",
        "jnp.ones((chains, chains), bool)",
        "modes/test_further_out.py",
    ),
    Mutant("further_out", "_FURTHEST ** random", "_FURTHEST * random", "modes/test_further_out.py"),
    Mutant(
        "further_out",
        "broadcast_to(modes.known,",
        "broadcast_to(modes.known < 0,",
        "modes/test_further_out.py",
    ),
    Mutant("is_implausible", "- 2 * wider", "- 0.5 * wider", "warmup/test_descent.py"),
    # warmup/stages
    Mutant(
        "tuning_draw",
        "searches |= plan.flag",
        "searches &= plan.flag",
        "warmup/test_host_search.py",
    ),
    Mutant(
        "suited_to_modes", "(made > _LEAST_SHARE * tried)", "True", "warmup/test_narrow_modes.py"
    ),
    Mutant("suited_to_modes", "(made >= _FEWEST_JUMPS)", "True", "warmup/test_narrow_modes.py"),
    Mutant(
        "suited_to_modes",
        "heaviest - _LIGHTER)",
        "heaviest - 2 * _LIGHTER)",
        "warmup/test_narrow_modes.py",
    ),
    Mutant(
        "suited_to_modes",
        "modes.known & found.is_normal",
        "modes.known",
        "warmup/test_narrow_modes.py",
    ),
    Mutant(
        "suited_to_modes",
        "modes.inverse @ axes.T",
        "modes.inverse @ axes",
        "warmup/test_narrow_modes.py",
    ),
    Mutant(
        "suited_to_modes",
        "axes.T) * jnp.sqrt(tuning.preconditioner)",
        "axes.T)",
        "warmup/test_narrow_modes.py",
    ),
    Mutant(
        "suited_to_modes", "largest = temperature *", "largest =", "warmup/test_narrow_modes.py"
    ),
    Mutant(
        "with_walls_felt",
        "spread < _CONFINED",
        "spread > _CONFINED",
        "kernels/test_adjusted_kernels.py",
    ),
    Mutant(
        "_accepted",
        "return acceptance, uniform < acc",
        "return acceptance, uniform > acc",
        "kernels/test_adjusted_kernels.py",
    ),
    Mutant("whitening", "clip(1 - noisy", "clip(1 + noisy", "warmup"),
    Mutant("whitening", "jnp.sqrt(1 + shares)", "jnp.sqrt(1 + 0 * shares)", "warmup"),
    Mutant("whitening", "exact @ turn)", "exact)", "warmup"),
    Mutant("turned", "origin=position", "origin=frame.origin", "warmup"),
    Mutant(
        "turned",
        "(found.condition >= frame.turns_from)",
        "(found.condition < frame.turns_from)",
        "warmup kernels",
    ),
    Mutant("with_products", "place - after.position", "place", "warmup"),
    Mutant("_Step.log_proposals", "- went) / jnp.maximum", "+ went) / jnp.maximum", "warmup"),
    Mutant("pooled", "lax.pmin(", "lax.pmax(", "warmup/test_pooled.py"),
    Mutant("with_lower_step", "- _SHARE)", "- 1.0)", "warmup/test_steep_walls.py"),
    Mutant("pooled", "found.low + rise", "found.low", "warmup/test_pooled.py"),
    Mutant("update_dual_averaging", "(target - statistic)", "(statistic - target)", "warmup"),
    Mutant("energies:spread", "weights, 0.01)", "weights, 0.2)", "warmup"),
    Mutant("fitting_partition", "low - MARGIN * sd", "low + MARGIN * sd", "warmup"),
    Mutant("relaxation_times", "step_size * noise / 2", "2 * step_size * noise", "warmup"),
    Mutant("fitting_preconditioner", "jnp.sqrt(signal /", "(signal /", "warmup"),
    Mutant("_room", "(sunk | has_less", "(has_less", "warmup/test_descent.py"),
    Mutant("after_trial", "narrow &= arrives &", "narrow &= False &", "warmup/test_descent.py"),
    Mutant("after_trial", "if exact:  #", "if not exact:  #", "warmup/test_descent.py"),
    Mutant("_best_of", "(other, mode", "(jnp.nan, mode", "kernels/test_jumping_kernels.py"),
    Mutant(
        "after_trial",
        "descent.starts % 2 == 1",
        "descent.starts % 2 == 2",
        "warmup/test_descent.py",
    ),
    Mutant("_best_of", "better = first | bottom | ", "better = first | ", "warmup/test_descent.py"),
    Mutant(
        "_without_lost_chains",
        "*(x[lowest] for x in ends)) | (noise > 0)",
        "*ends) | True",
        "warmup/test_descent.py",
    ),
    Mutant(
        "goes_by_pairs",
        "progress < 1.5 * _ENDS",
        "progress < 1.0 * _ENDS",
        "warmup/test_descent.py",
    ),
    Mutant(
        "after_check",
        "(doubted, descent.doubts + 1, 0)",
        "(doubted, 0, 0)",
        "warmup/test_descent.py",
    ),
    Mutant(
        "after_trial",
        "_STARTS_UNTIL[exact]) & ~fits_rows",
        "_STARTS_UNTIL[exact])",
        "warmup/test_descent.py",
    ),
    Mutant("after_check", "rise > allowed", "rise > -allowed", "warmup/test_descent.py"),
    Mutant("_within", "rows[1::2] @ basis", "rows[::2] @ basis", "warmup"),
    Mutant(
        "_scales_across",
        "- (rows @ directions) @ directions.T",
        "",
        "warmup kernels/test_low_rank_preconditioner.py",
    ),
    Mutant(
        "with_sweep",
        "swept + jnp.outer(rest, weight * beyond)",
        "0 * swept + jnp.outer(rest, weight * beyond)",
        "warmup",
    ),
    Mutant("with_row", "difference / 2**0.5", "difference", "warmup"),
    Mutant("welford", "mean + deviation / count", "mean + deviation", "warmup"),
    Mutant("least_noisy_step_size", "2 * NOISE_SHARE * ", "20 * NOISE_SHARE * ", "warmup"),
    Mutant("bins_in_reach", "0.5 * changes", "1.0 * changes", "warmup"),
    Mutant("renew_partition", "jnp.minimum(bins, _FIRST)", "bins", "warmup"),
    Mutant("credible", "pilot.mean + _MOST", "pilot.mean - _MOST", "warmup"),
    Mutant("_at_both_ends", "for n in (0, 1)", "for n in (1, 0)", "warmup"),
    # models
    Mutant(
        "CompiledOnData.begin",
        "            if asked:\n",
        "            if False:\n",
        "warmup/test_host_warmup.py",
    ),
    Mutant("_is_lent", 'kind in "fc" and as_precise', 'kind in "fc"', "warmup/test_host_warmup.py"),
    Mutant(
        "CompiledOnData.begin",
        "_known(x) for x in leaves)",
        "() for x in leaves)",
        "warmup/test_host_warmup.py",
    ),
    Mutant(
        "CompiledOnData.begin",
        "self._by_value[key] = True",
        "self._by_value[key] = False",
        "warmup/test_host_warmup.py",
    ),
    Mutant(
        "CompiledOnData.begin",
        "> most_operations:",
        "< most_operations:",
        "warmup/test_host_search.py",
    ),
    Mutant("_is_positive", "isinstance(support, _POSITIVE)", "True", "models/test_scales.py"),
    Mutant(
        "LocScale.centred_value",
        "scale ** (1 - c) * (",
        "scale ** c * (",
        "models/test_centring.py",
    ),
    Mutant(
        "LocScale.decentred_value", "z = c * self.loc + self", "z = self", "models/test_centring.py"
    ),
    Mutant("LocScale.share_of_prior", "scale ** (2 * c)", "scale ** c", "models/test_centring.py"),
    Mutant(
        "Joint.centred_value",
        "jnp.where(c > 0.5, z, ",
        "jnp.where(c > 2, z, ",
        "models/test_centring.py",
    ),
    Mutant("_free_site", 'or msg["value"] is not None', "", "models/test_centring.py"),
    Mutant("_best", "np.clip(1 - left, 0, 1)", "np.clip(left, 0, 1)", "models/test_centring.py"),
    Mutant("_best", "c.min(initial=1) < _CENTRED", "True", "models/test_centring.py"),
    Mutant("_best", "np.zeros_like(c) if little else", "", "models/test_centring.py"),
    Mutant(
        "sources",
        "known.get(v, set()) for v in jaxpr",
        "{0} for v in jaxpr",
        "models/test_centring.py",
    ),
    Mutant("relabelling_of", 'getattr(like, "centring", None)', "None", "models/test_centring.py"),
    Mutant(
        "constrained",
        "position = centred(potential, position)\n    model",
        "model",
        "models/test_centring.py",
    ),
    Mutant(
        "descents",
        "rng.choice(size, min(size, _ROWS), replace=False)",
        "np.random.default_rng(0).choice(size, min(size, _ROWS), replace=False)",
        "energies/test_data_expansion.py",
    ),
    Mutant("mean_state", "share = 1 - (one - none)", "share = 1.0", "kernels/test_networks.py"),
    Mutant(
        "SubsamplePlates.drawn",
        "random.fold_in(key, 1)",
        "random.key(1)",
        "kernels/test_networks.py",
    ),
    Mutant("minibatch_variance", "count**2 / rows", "count / rows", "models"),
    Mutant("row_terms:_along", "values / lacking", "values", "models"),
    Mutant("_one_group.process_message", 'msg["scale"] / scale', 'msg["scale"] * scale', "models"),
    Mutant("Pieces.at", "(places < size)", "(places <= size)", "models"),
    Mutant("minibatch_variance", "jnp.maximum(component, 0.0)", "jnp.abs(component) * 2", "models"),
    Mutant("constant_seed.process_message", "range(self._lacking)", "range(1)", "models"),
    Mutant(
        "check_rows",
        "if size > length:",
        "if size > 2 * length + 1000:",
        "models/test_row_checks.py",
    ),
    Mutant("check_rows", "if size < length and", "if size < 0 and", "models/test_row_checks.py"),
    # kernels/methods
    Mutant(
        "Method",
        "turns_from: float = 30.0",
        "turns_from: float = 100.0",
        "kernels/test_dense_preconditioner.py",
    ),
    Mutant(
        "Contour.end_window",
        "log_weight=window.log_weight + log_z",
        "log_weight=window.log_weight",
        "core/flattening/test_normaliser.py output",
    ),
    Mutant(
        "Contour.among",
        "replace(self, chains=chains) if self.shares_theta and self.theta is None else self",
        "self",
        "kernels/test_interacting_chains.py",
    ),
    Mutant(
        "Contour.among",
        "if self.shares_theta and self.theta is None else",
        "if self.shares_theta else",
        "kernels/test_interacting_chains.py",
    ),
    Mutant(
        "of_sites",
        "constrain(in_coordinates_of(z, sites))",
        "constrain(sites)",
        "models/test_centring.py",
    ),
    Mutant("_PEAK", "PEAK = 2.0", "PEAK = 1.0", "warmup"),
    Mutant(
        "of_sites",
        "if name == NAME and name not in latent",
        "if name == NAME",
        "kernels/test_weights_among_sites.py",
    ),
    Mutant(
        "Contour.raise_energies",
        "sampler.partition.lower + rise",
        "sampler.partition.lower - rise",
        "models kernels warmup",
    ),
    Mutant("Contour.trust", "1.0 if energy_is_callable else 0.0", "0.0", "kernels models"),
    Mutant(
        "Contour.trust", "energy_noise / variance", "energy_noise * variance", "models runs kernels"
    ),
    # energies
    Mutant(
        "_smallest",
        "if not of_others.max() <= _WORTH_IT * noise.max():",
        "if not of_others.max() <= 0.0:",
        "energies/test_data_expansion.py",
    ),
    Mutant(
        "first_order", "energy = difference + jnp", "energy = difference - jnp", "models energies"
    ),
    Mutant("first_order", "here + (anchor.gradient", "here - (anchor.gradient", "models energies"),
    Mutant(
        "choice:chosen",
        '"control_variate" if descends and not',
        '"control_variate" if not descends and not',
        "models kernels energies",
    ),
    Mutant("serving", "rise += anchor", "rise += (number > 0) + anchor", "kernels energies"),
    Mutant(
        "first_order",
        "gradient = here + (anchor.gradient",
        "gradient = here + (anchors.slots.gradient[0]",
        "models kernels energies",
    ),
    Mutant("least_noisy", "least[place] <= limit", "least[place] > limit", "models energies"),
    # kernels/parts
    Mutant(
        "_out",
        "further_out(key, places, found.modes), likely[chains // 2])",
        "further_out(key, places, found.modes), places)",
        "modes/test_unexplained.py",
    ),
    Mutant(
        "_stable_with_momentum",
        "return 2 * (1 + momentum",
        "return 2 * (1 - momentum",
        "runs/test_curvature.py",
    ),
    Mutant(
        "scaling:_MOST_COORDINATES",
        "_MOST_COORDINATES = 250",
        "_MOST_COORDINATES = 50",
        "kernels/test_dense_preconditioner.py",
    ),
    Mutant(
        "ChainDraws.measured",
        "scale_mask=None if potential is None else ",
        "scale_mask=None and ",
        "models/test_scales.py",
    ),
    Mutant(
        "Parts.centring",
        "if self.temperature != Constant(1.0):",
        "if False:",
        "models/test_centring.py",
    ),
    Mutant("Parts.centring", "or callable(source.energy)", "", "models/test_centring.py"),
    Mutant("Parts.centring", "(source.recentred and own)", "own", "models/test_centring.py"),
    Mutant(
        "find_position", "in_coordinates_of(init_params, given)", "given", "models/test_centring.py"
    ),
    Mutant("_step_with_momentum", "(1 + c) * of_langevin", "(1 - c) * of_langevin", "warmup"),
    # warmup
    Mutant(
        "HostWarmup.__call__",
        "stop % every == 0:",
        "stop % every == 1:",
        "warmup/test_host_warmup.py",
    ),
    Mutant(
        "HostWarmup.__call__",
        "several = bool(everywhere(state.warmup.modes.several))",
        "several = False",
        "warmup/test_host_warmup.py",
    ),
    Mutant(
        "_ended",
        "of_all(length), of_all(num_warmup)",
        "of_all(length), of_all(0)",
        "warmup/test_host_warmup.py",
    ),
    Mutant(
        "_descended",
        "return chains.rescued(state, ",
        "return (lambda _, x: x)(state, ",
        "warmup/test_host_warmup.py",
    ),
    Mutant(
        "_draws",
        "places & (made + 1 == count)",
        "places & (made == count)",
        "warmup/test_host_warmup.py",
    ),
    Mutant(
        "_anchored",
        "_counted(state, -1), several)\n    placed",
        "_counted(state, 0), several)\n    placed",
        "warmup/test_host_warmup.py",
    ),
    Mutant("_draws", "& ~carry[3]", "", "warmup/test_host_warmup.py"),
    Mutant(
        "_stops", "begin - begin % every + every", "begin + every", "warmup/test_host_warmup.py"
    ),
    Mutant(
        "HostSearch.is_conclusive",
        "> _CONCLUSIVE * self",
        "> 0 * self",
        "warmup/test_host_search.py",
    ),
    Mutant(
        "HostSearch.begun",
        "lighter = _LIGHTER if",
        "lighter = 99.0 if",
        "warmup/test_host_search.py",
    ),
    Mutant(
        "HostSearch._beginnings",
        "np.argmin([shape.squares",
        "np.argmax([shape.squares",
        "warmup/test_host_search.py",
    ),
    Mutant(
        "beginning", "_ALL * gradients >= ", "_ALL * gradients < ", "warmup/test_host_search.py"
    ),
    Mutant("beginning", "(affordable and on_host)", "affordable", "warmup/test_host_search.py"),
    Mutant(
        "beginning",
        "rows.taken / (rows.size * _IN_TURN)",
        "rows.size * _IN_TURN / rows.taken",
        "warmup/test_host_search.py",
    ),
    Mutant(
        "beginning",
        " and parts.source.energy is None",
        "",
        "warmup/test_host_search.py",
    ),
    Mutant(
        "HostSearch.ended",
        "self._base - of_first",
        "of_first - self._base",
        "warmup/test_host_search.py",
    ),
    Mutant("HostSearch._asking", "set(_UNSERVED)", "set(0.0)", "warmup/test_host_search.py"),
    Mutant(
        "HostSearch.looked_again",
        "gradients <= self._most:",
        "gradients > self._most:",
        "warmup/test_host_search.py",
    ),
    Mutant(
        "HostSearch.looked_again",
        "with_new_modes(self._numbers, self._list)",
        "self._numbers",
        "warmup/test_host_search.py",
    ),
    Mutant(
        "HostSearch.looked_again",
        "self._rng, _positions(state))",
        "self._rng, 0 * _positions(state))",
        "warmup/test_host_search.py",
    ),
    Mutant(
        "beginning",
        "scaling.is_found and scaling",
        "True and scaling",
        "warmup/test_host_search.py",
    ),
    Mutant(
        "beginning",
        "is_found and scaling.finds_preconditioner",
        "is_found",
        "warmup/test_host_search.py",
    ),
    Mutant(
        "beginning",
        "parts.temperature != Constant(1.0) or ",
        "",
        "warmup/test_host_search.py",
    ),
    Mutant(
        "HostSearch._beginnings",
        "np.arange(len(self._key)) % number",
        "np.zeros(len(self._key), int)",
        "warmup/test_host_search.py",
    ),
    Mutant("HostSearch._beginnings", "(), 0, number)", "(), 0, 1)", "warmup/test_host_search.py"),
    Mutant(
        "AllChains.suited",
        "number > self.plan.last(TUNE))",
        "number > self.plan.last(TUNE) + 1)",
        "warmup/test_narrow_modes.py",
    ),
    Mutant(
        "caught_up",
        "jnp.where(begins, jnp.max(warmup.length - warmup.given), 0)",
        "jnp.where(begins, 0, 0)",
        "kernels/test_as_typed.py",
    ),
    # kernels
    Mutant("after_tries", "jnp.where(in_warmup, 0, n)", "n", "kernels/test_mode_jumping.py output"),
    Mutant(
        "after_tries",
        "lax.cond(in_warmup, teach,",
        "lax.cond(True, teach,",
        "kernels/test_mode_jumping.py",
    ),
    Mutant(
        "mode_jumping_start:first_state",
        "if len(known) < 2 or",
        "if",
        "kernels/test_mode_jumping.py",
    ),
    Mutant(
        "Kernel.postprocess_fn",
        "partial(on_operands, constrained, potential)",
        "lambda z: z",
        "kernels models",
    ),
    Mutant(
        "after_run:without_weight",
        "if name != WEIGHT_SITE",
        "if name",
        "kernels/test_weights_among_sites.py",
    ),
    Mutant(
        "Kernel.wrap_model", "wrapper(source.model_or_fail())", "source.model_or_fail()", "models"
    ),
    # statistics
    Mutant(
        "optimal_round_trip_rate", ".sum(-1)) * window", ".sum(-1))", "statistics/test_ladders.py"
    ),
    Mutant("optimal_round_trip_rate", "** window", "* 1", "statistics/test_ladders.py"),
    Mutant(
        "optimal_round_trip_rate",
        "2.0 if rejected",
        "1.0 if rejected",
        "statistics/test_ladders.py",
    ),
    Mutant(
        "equal_rejection_temperatures", "np.log(ladder)", "ladder", "statistics/test_ladders.py"
    ),
    Mutant("bridge", "log_below = -_log_h(of_draws", "log_below = _log_h(of_draws", "statistics"),
    Mutant(
        "bridge", "influence = shares * (below - mean)", "influence = shares * below", "statistics"
    ),
    Mutant("bridge", "ddof=1) / np.sqrt(size)", "ddof=1)", "statistics"),
    Mutant("shares", "np.eye(len(p)) - p", "np.eye(len(p)) + p", "statistics"),
    Mutant("normalised", "- np.log(log_weights.shape[1])", "", "statistics"),
    Mutant("kish_share", "(weights**2).sum() / weights.size", "weights.sum()", "statistics"),
    Mutant("_rhat_of_scores", "(draws - 1) / draws", "(draws + 1) / draws", "statistics"),
    Mutant(
        "Ranked.quantiles", "middle = reached - weights / 2", "middle = 1.0 * reached", "statistics"
    ),
    Mutant("_order_ties", "keys = group * order", "keys = -group * order", "statistics"),
    Mutant("_narrowest", 'side="right")) + 3', 'side="right")) - 3', "statistics"),
    Mutant("effective_sizes", "correlation[rows, 2 * last]", "correlation[rows, 0]", "statistics"),
    Mutant("round_trips", "ways // 2", "ways", "statistics"),
    Mutant(
        "histogram_flatness", "-(share * np.log(share))", "(share * np.log(share))", "statistics"
    ),
    Mutant(
        "noise_in_bins", "np.median(sd, axis=1) / widths", "np.median(sd, axis=1)", "statistics"
    ),
    Mutant("residual", "(number / weights.sum())", "(number / weights.size)", "output"),
    Mutant("systematic", "rng.random() + np.arange(number)", "np.arange(number)", "output"),
    Mutant("residual", "np.floor(expected + 1e-9)", "np.ceil(expected + 1e-9)", "output"),
    # runs
    Mutant(
        "_left_out",
        "found.mass[run.shapes.number :]",
        "found.mass[:0]",
        "output/test_mode_jumping_runs.py",
    ),
    Mutant(
        "acceptance_rate", "accepted / made", "made / accepted", "kernels/test_adjusted_kernels.py"
    ),
    Mutant("_places", "by_energy[:of_chain]", "by_energy[-of_chain:]", "runs/test_curvature.py"),
    Mutant(
        "_tridiagonal",
        "root * slope(factor, image)",
        "slope(factor, image)",
        "runs/test_curvature.py",
    ),
    Mutant("_tridiagonal", "image - (basis @ image) @ basis", "image", "runs/test_curvature.py"),
    Mutant("masses_by_bridges", "log_p[:, None] + squares", "log_p[:, None] - squares", "runs"),
    Mutant(
        "masses_by_bridges", "inside = cells[:, None] == ", "inside = cells[:, None] != ", "runs"
    ),
    Mutant("known_modes", "apart[nearest] >= _APART", "apart[nearest] >= 0", "runs"),
    Mutant("_between", "cij,cia,cjb->cab", "cij,cia,cjb->cba", "runs"),
    Mutant("unconstrained", 'getattr(like, "centring", None)', "None", "models/test_centring.py"),
    Mutant("after_training", "value=False", "value=True", "kernels/test_networks.py"),
    Mutant("_by_anchor", "_Server(chain, slot, inside)", "_Server(chain, 0, inside)", "kernels"),
    Mutant("_by_final_theta", "own = final + ", "own = final - ", "output"),
    Mutant("full_data_correction", "felt - smoothed(", "felt + smoothed(", "runs"),
    Mutant("smoothed", "* -np.diff(ramps)", "* np.diff(ramps)", "runs"),
    Mutant("_evaluation", "np.sqrt(np.asarray(found.noise", "(np.asarray(found.noise", "runs"),
    Mutant("log_likelihoods", "in part.items()", "in {}.items()", "output"),
    # runs/stored
    Mutant(
        "Rounding._rounded",
        "rounded = values.astype(dtype)",
        "rounded = values.astype(dtype).astype(values.dtype)",
        "runs/test_stored_precision.py",
    ),
    Mutant(
        "RunStore.draws",
        "rows = slice(begin, min(begin + at_once, shape[1]))",
        "rows = slice(0, min(at_once, shape[1]))",
        "runs/test_stored_precision.py",
    ),
    # diagnosis
    Mutant("unseen_modes", "is_bad or too_many", "is_bad", "diagnosis/test_search_checks.py"),
    Mutant(
        "gradient",
        "is_bad = jumps(evidence) and not",
        "is_bad = not",
        "kernels/test_adjusted_kernels.py",
    ),
    Mutant(
        "step_checks:curvature",
        "figure > limit",
        "figure > _UNSTABLE",
        "runs/test_curvature.py",
    ),
    Mutant(
        "ladder",
        "_FEWEST_TRIPS and evidence",
        "_FEWEST_TRIPS or evidence",
        "diagnosis/test_ladder_checks.py",
    ),
    Mutant("ladder", "- counted[:, 0]", "- 0", "diagnosis/test_ladder_checks.py"),
    Mutant("ladder", "1 - rates[:, -1]", "rates[:, -1]", "diagnosis/test_ladder_checks.py"),
    Mutant("modes", "missed[worst] > _MISSED", "missed[worst] > 0", "diagnosis"),
    Mutant("by_bridges", "(apart > _APART) &", "(apart > 0) &", "diagnosis"),
    Mutant("_fall", "np.where(after <= _SETTLED", "np.where(after < 0", "diagnosis"),
    Mutant("by_bridges", "bridged / of_bridges", "bridged / 1", "diagnosis"),
    Mutant("by_bridges", "_ERRORS * both", "0 * both", "diagnosis"),
    Mutant(
        "_may_ask_for_control_variate",
        "return given != {",
        "return True or {",
        "diagnosis/test_diagnose.py",
    ),
    Mutant("_above_the_bulk", "max(explained, bulk)", "bulk", "diagnosis/test_diagnose.py"),
    Mutant("length", "sizes[least] < fewest", "sizes[least] > fewest", "diagnosis"),
    Mutant("agreement", "rhat[at] > _LARGEST", "rhat[at] < _LARGEST", "diagnosis"),
    Mutant("_MOST_BINS", "_MOST_BINS = 3.0", "_MOST_BINS = 30.0", "diagnosis"),
    Mutant(
        "weight_checks:_LEAST_SHARE", "_LEAST_SHARE = 0.05", "_LEAST_SHARE = 0.005", "diagnosis"
    ),
    Mutant("_below", "evidence.lower - evidence.typical", "evidence.typical", "diagnosis"),
    Mutant(
        "weight_checks:record",
        'if evidence.settings.get("resampled"):',
        'if evidence.settings.get("nothing"):',
        "diagnosis",
    ),
    # output
    Mutant(
        "groups_of", "if run.changes_after_training:", "if not run:", "kernels/test_networks.py"
    ),
    Mutant(
        "predictive_mean",
        "weight = weights[chain, place] /",
        "weight = 1 /",
        "kernels/test_networks.py",
    ),
    Mutant(
        "weighted_samples",
        "samples, weights.log_weights",
        "samples, 2 * weights.log_weights",
        "output",
    ),
    Mutant("summary", "column.loc[{column.dims[0]: label}] = ", "_ = ", "output"),
    Mutant(
        "with_equal_weights",
        "systematic(rng, weights[chain],",
        "systematic(rng, weights[0],",
        "output/test_equal_weights.py",
    ),
    Mutant(
        "with_equal_weights",
        "np.stack([systematic(rng, weights[chain], weights.shape[1]) for chain in live])",
        "rng.integers(weights.shape[1], size=(len(live), weights.shape[1]))",
        "output/test_equal_weights.py",
    ),
    Mutant(
        "with_equal_weights",
        "systematic(rng, weights[chain], weights.shape[1])",
        "rng.permutation(systematic(rng, weights[chain], weights.shape[1]))",
        "output/test_equal_weights.py",
    ),
    Mutant(
        "with_equal_weights",
        "chosen = plain.isel(chain=live)",
        'chosen = plain.isel(chain=live if name == "posterior" else live[::-1])',
        "output/test_equal_weights.py",
    ),
    # plots
    Mutant("_draw_jumps", "np.divide(made, tried", "np.divide(tried, made", "plots"),
    Mutant(
        "running_shares", "np.where(is_here, weights, 0.0)", "np.where(is_here, 1.0, 0.0)", "plots"
    ),
    Mutant("density", "/ weights.sum() / np.diff(edges)", "/ weights.sum()", "plots"),
    Mutant("areas", "4 * weights.ravel() / weights.mean()", "4 * weights.ravel()", "plots"),
    Mutant("_histograms", '1.0 - float(evidence.settings["zeta"])', "1.0", "plots"),
    # the root
    Mutant("positive", "if result <= 0:", "if result < 0:", "test_bad_input.py"),
    Mutant("integer", "if result < at_least:", "if result <= at_least:", "test_bad_input.py"),
    Mutant("warn_user", "level += 1", "level += 0", "diagnosis kernels output"),
    Mutant(
        "RobbinsMonro.__call__",
        "exponent + self.offset",
        "exponent - self.offset",
        "core/flattening",
    ),
    Mutant("EpochSchedule.__call__", "count // self.steps", "count / self.steps", "kernels"),
    Mutant("check_positive_temperature", "if not first > 0:", "if first < 0:", "test_bad_input.py"),
]


def named(tree):
    """The functions, methods, classes and constants of a module, by their names."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            yield node.name, node
            inside = (n for n in node.body if isinstance(n, ast.FunctionDef))
            yield from ((f"{node.name}.{n.name}", n) for n in inside)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if isinstance(target, ast.Name):
                yield target.id, node


def places_of(root):
    """All places of a checkout by name: pairs of a file and the lines from and to."""
    places = {}
    for path in sorted((root / PACKAGE).rglob("*.py")):
        for name, node in named(ast.parse(path.read_text())):
            first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
            for key in (name, f"{path.stem}:{name}"):
                places.setdefault(key, []).append((path, first - 1, node.end_lineno))
    return places


def located(mutant, places):
    """The file of a mutant and what it becomes, or None and in words why it cannot be applied."""
    found = places.get(mutant.place, [])
    if len(found) != 1:
        return None, f"{len(found)} places have this name"
    path, first, end = found[0]
    lines = path.read_text().splitlines(keepends=True)
    text = "".join(lines[first:end])
    if text.count(mutant.old) != 1:
        return None, f"the text is there {text.count(mutant.old)} times"
    changed = [*lines[:first], text.replace(mutant.old, mutant.new), *lines[end:]]
    return path, "".join(changed)


@contextlib.contextmanager
def applied(path, changed):
    """The mutant in its file."""
    text = path.read_text()
    path.write_text(changed)
    try:
        yield
    finally:
        path.write_text(text)


def failing(root, *paths):
    """The first test that fails of the first two tiers in these paths, None if all pass."""
    options = ["-x", "-m", "not long", "--numprocesses=2", "--dist=worksteal", "--tb=no", "-rfE"]
    options += ["-p", "no:cacheprovider"]
    environment = os.environ | {"PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", *options, *paths]
    run = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    if run.returncode == 0:
        return None
    found = re.search(r"^(?:FAILED|ERROR) (\S+)", run.stdout, re.MULTILINE)
    return found[1] if found else f"pytest ended with {run.returncode}: {run.stdout[-300:]}"


def chosen(words):
    """The mutants of these numbers and of files and names that hold a word, with their numbers."""
    numbered = list(enumerate(MUTANTS, 1))
    if not words:
        return numbered
    places = places_of(ROOT)
    paths = {n: str(places[m.place][0][0]) if m.place in places else "" for n, m in numbered}
    where = {n: f"{paths[n].removeprefix(str(ROOT))} {m.place}" for n, m in numbered}
    return [(n, m) for n, m in numbered if any(w == str(n) or w in where[n] for w in words)]


def main():
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*", help="numbers of mutants, or words of their places")
    parser.add_argument("--check", action="store_true", help="whether each text is there, once")
    arguments = parser.parse_args()
    mutants = chosen(arguments.words)
    places = places_of(ROOT)
    found = [(n, m, *located(m, places)) for n, m in mutants]
    missing = [(n, m, why) for n, m, path, why in found if path is None]
    for number, mutant, why in missing:
        print(f"{number}: `{mutant.old}` in {mutant.place}: {why}")
    if arguments.check:
        print(f"{len(mutants) - len(missing)} of {len(mutants)} mutants can be applied.")
        return int(bool(missing))
    killed = tried = 0
    print("| | place | mutant | killed by | seconds |\n| --- | --- | --- | --- | --- |", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "checkout"
        shutil.copytree(ROOT, copy, ignore=IGNORED)
        for number, mutant in mutants:
            path, changed = located(mutant, places_of(copy))
            if path is None:
                continue
            started = time.monotonic()
            with applied(path, changed):
                test = failing(copy, *(f"tests/{name}" for name in mutant.tests.split()))
                if test is None:
                    test = failing(copy, "tests", "README.md")
            tried, killed = tried + 1, killed + (test is not None)
            seconds = time.monotonic() - started
            change = f"`{mutant.old}` -> `{mutant.new}`".replace("\n", " ").replace("|", "\\|")
            line = (
                f"| {number} | {mutant.place} | {change} | {test or '**alive**'} | {seconds:.0f} |"
            )
            print(line, flush=True)
    print(f"\n{killed} of {tried} mutants are killed; {len(missing)} could not be applied.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
