"""Does `make test` see faults? Each mutant below breaks one expression of the package.

`python tests/mutants.py` applies one after the other to a copy of the checkout, runs the tests of
the first tier that should see it, and all of the first tier where they do not, and prints which
test failed. It takes the interpreter's own packages: run it with `.venv-test-*/bin/python`.

    python tests/mutants.py                 all
    python tests/mutants.py psi 12 models   those of numbers, and of places that hold a word
    python tests/mutants.py --check         only whether each text is there, once
"""

import argparse
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


_NORMALISER = "core/flattening/test_normaliser.py"


class Mutant(NamedTuple):
    """One fault."""

    #: a file of the package, or a folder of which one file holds the text
    place: str
    old: str
    new: str
    #: folders and files of tests/ that should see it
    tests: str


def mutants_of(place, tests, *changes):
    """Mutants of one place that the same tests should see, by their old and new texts."""
    return [Mutant(place, old, new, tests) for old, new in changes]


MUTANTS = [
    # arrays
    Mutant("core/arrays", "(13, 15, 26, 6)", "(13, 15, 26, 7)", "core/arrays"),
    Mutant("core/arrays", ">> 9)", ">> 10)", "core/arrays"),
    Mutant("core/arrays", "+ (b - of_b)", "- (b - of_b)", "models"),
    Mutant("core/arrays", "size >= 2**32", "size < 2**32", "core/arrays"),
    Mutant(
        "core/arrays/factors.py",
        "_stretched(factor, factor.scales * gradient)",
        "factor.scales * _stretched(factor, gradient)",
        "core/arrays",
    ),
    Mutant("core/arrays/factors.py", "across = 2 * scales", "across = scales", "core/arrays"),
    # diffusions
    Mutant(
        "core/diffusions/langevin.py",
        "jnp.sqrt(2 * temperature * step_size)",
        "jnp.sqrt(temperature * step_size)",
        "core/diffusions core/samplers",
    ),
    Mutant("core/diffusions/langevin.py", "0.5 * (r + s)", "0.6 * (r + s)", "core/diffusions"),
    Mutant(
        "core/diffusions/langevin.py",
        "d - temperature * step_size * c",
        "d + temperature * step_size * c",
        "core/diffusions",
    ),
    Mutant("core/diffusions/underdamped.py", "(1 - c**2)", "(1 - c)", "core/diffusions"),
    Mutant(
        "core/diffusions/underdamped.py",
        "2 * step_size / (1 + c)",
        "2 * step_size / (1 - c)",
        "core/diffusions",
    ),
    Mutant(
        "core/diffusions/nose_hoover.py",
        "friction + 0.5 * friction_change(moving)",
        "friction - 0.5 * friction_change(moving)",
        "core/diffusions",
    ),
    Mutant("core/diffusions/rmsprop.py", "(1 - decay**count)", "(1 - decay)", "core/diffusions"),
    Mutant("core/diffusions", "v - 0.5 * (a - b)", "v + 0.5 * (a - b)", "core/diffusions"),
    Mutant("core/diffusions", "jnp.clip(d, -b, b)", "jnp.clip(d, -2 * b, b)", "core/diffusions"),
    Mutant("core/diffusions", "(1 - share, 0.05)", "(1 + share, 0.05)", "core/diffusions"),
    Mutant("core/arrays/factors.py", "gradient @ factor", "factor @ gradient", "core/diffusions"),
    Mutant(
        "core/diffusions/whitened.py",
        "position + displacement(factor, proposal.position)",
        "position + proposal.position",
        "core/diffusions",
    ),
    Mutant(
        "core/diffusions/whitened.py",
        "slope(factor, before), slope(factor, after)",
        "slope(factor, before), after",
        "core/diffusions",
    ),
    Mutant(
        "core/diffusions/whitened.py",
        "slope(factor, gradient), step, log_ratio",
        "gradient, step, log_ratio",
        "core/samplers/test_adjusted.py",
    ),
    *mutants_of(
        "core/diffusions/leapfrog.py",
        "core/samplers/test_adjusted.py",
        ("a**2 - b**2", "b**2 - a**2"),
        ("jnp.where(accepted, a, -b)", "jnp.where(accepted, a, b)"),
        ("attempt.level * jnp.exp(-log_ratio)", "attempt.level * jnp.exp(log_ratio)"),
        ("jnp.sqrt(1 - c**2) * r", "(1 - c) * r"),
    ),
    *mutants_of(
        "adaptation/copies.py",
        "adaptation/test_copies.py",
        ("signs[second] * modes.mean", "modes.mean"),
        (".at[:, orders[second]]", ".at[:, jnp.argsort(orders[second])]"),
        ("modes.known & far &", "modes.known &"),
        ("(away < SAME) &", "(away < 10) &"),
        ("(random.uniform(of_moving) < _OFTEN)", "True"),
    ),
    *mutants_of(
        "models/compiled_on_data.py",
        "kernels/test_host_warmup.py",
        ("            if asked:\n", "            if False:\n"),
        ('kind in "fc" and as_precise', 'kind in "fc"'),
        ("_known(x) for x in leaves)", "() for x in leaves)"),
        ("self._by_value[key] = True", "self._by_value[key] = False"),
    ),
    *mutants_of(
        "kernels/host_warmup.py",
        "kernels/test_host_warmup.py",
        ("stop % every == 0:", "stop % every == 1:"),
        ("several = bool(everywhere(state.warmup.modes.several))", "several = False"),
        ("jnp.full_like(warmup.idle, num_warmup)", "jnp.full_like(warmup.idle, 0)"),
        ("return programs.rescue(state, ", "return (lambda _, x: x)(state, "),
        ("places & (made + 1 == count)", "places & (made == count)"),
        ("_counted(state, -1), several)\n    placed", "_counted(state, 0), several)\n    placed"),
        ("& ~carry[3]", ""),
        ("begin - begin % every + every", "begin + every"),
    ),
    *mutants_of(
        "adaptation/listed_modes.py",
        "adaptation/test_listed_modes.py",
        ("if not found.relevant[k] or k in numbers:", "if k in numbers:"),
        ("np.argsort(-found.log_mass)", "np.argsort(found.log_mass)"),
        ("(splits & ~without(k)).any()", "splits.all()"),
        ("turn @ mean[original], turn @ factor", "turn @ mean[original], factor"),
        ("inverse[original] @ turn.T", "inverse[original] @ turn"),
        ("log_volume - np.nan_to_num(energy)", "log_volume + np.nan_to_num(energy)"),
        ("EVENNESS * (log_mass", "(log_mass"),
        ("< ABOUT)", "< 9 * ABOUT)"),
        ("not by_order > max(", "not by_order < max("),
        ("factor[slot] = shapes[0].sds", "factor[slot] = shape.sds ** 2"),
        ("(shape.inverse**2).sum(0)", "(shape.inverse**2).sum(1)"),
        ("1 / stretches**2 - 1", "1 / stretches - 1"),
    ),
    *mutants_of(
        "kernels/host_search.py",
        "kernels/test_host_search.py",
        ("> _CONCLUSIVE * self", "> 0 * self"),
        ("lighter = _LIGHTER if", "lighter = 99.0 if"),
        ("np.argmin([shape.squares", "np.argmax([shape.squares"),
        ("gradients > self._most:", "gradients < self._most:"),
        ("with_new_modes(self._numbers, self._list)", "self._numbers"),
        ("_positions(state))\n        numbers", "0 * _positions(state))\n        numbers"),
        ("scaling.is_found and scaling", "True and scaling"),
        ("is_found and scaling.finds_preconditioner", "is_found"),
        ("and parts.temperature == Constant(1.0)", ""),
        ("np.arange(len(self._key)) % number", "np.zeros(len(self._key), int)"),
        ("(), 0, number)", "(), 0, 1)"),
    ),
    Mutant(
        "adaptation/measured_move.py",
        "searches |= plan.flag",
        "searches &= plan.flag",
        "kernels/test_host_search.py",
    ),
    Mutant(
        "models/compiled_on_data.py",
        "> most_operations:",
        "< most_operations:",
        "kernels/test_host_search.py",
    ),
    Mutant(
        "kernels/all_chains.py",
        "number > self.plan.last(TUNE))",
        "number > self.plan.last(TUNE) + 1)",
        "adaptation/test_narrow_modes.py",
    ),
    *mutants_of(
        "adaptation/narrow_modes.py",
        "adaptation/test_narrow_modes.py",
        ("(made > _LEAST_SHARE * tried)", "True"),
        ("(made >= _FEWEST_JUMPS)", "True"),
        ("heaviest - _LIGHTER)", "heaviest - 2 * _LIGHTER)"),
        ("modes.known & found.is_normal", "modes.known"),
        ("modes.inverse @ axes.T", "modes.inverse @ axes"),
        ("axes.T) * jnp.sqrt(tuning.preconditioner)", "axes.T)"),
        ("largest = temperature *", "largest ="),
    ),
    *mutants_of(
        "adaptation/found_modes.py",
        "adaptation/test_modes.py",
        ("EVENNESS * found.log_mass", "found.log_mass"),
        ("turned @ original.factor", "original.factor"),
        ("rises[2]) - np.log(of_normal)", "rises[2])"),
        ("alike &= jnp.isfinite(by_order) & ~", "alike &= jnp.isfinite(by_order) | ~"),
        ("apart = ~(barrier <= _LEAST_BARRIER + rounding)", "apart = ~(barrier > 1e30)"),
        (
            "moves = -times(turned, here.gradient)",
            "moves = -times(modes.factor, here.gradient)",
        ),
        ("near = squares < APART**2", "near = squares < jnp.inf"),
    ),
    *mutants_of(
        "adaptation/mode_slots.py",
        "adaptation/test_mode_slots.py",
        ("needed & ~all_needed, jnp.inf", "False, jnp.inf"),
        ("| (adds & ~all_needed)", ""),
        ("(log_mass > least_mass) & jnp.any(", "jnp.any("),
        ("- modes.mean.shape[-1] / 2", ""),
        ("all_needed, jnp.max(log_mass), ", "all_needed, log_mass[slot], "),
        ("jnp.where(is_first, second, ", "jnp.where(is_first, jnp.max(values, 0), "),
    ),
    # modes
    *mutants_of(
        "modes/moves.py",
        "modes/test_moves.py",
        ("towards = modes.log_volume - log_share", "towards = -log_share"),
        ("- jnp.log1p(-jnp.exp(log_share))", ""),
        ("returns = (aim == _ANY) | (there.mode == aim)", "returns = aim >= _ANY"),
        ("jax.nn.logsumexp(here.log_densities), _ANY", "0 * here.log_densities[0], _ANY"),
        (
            "jnp.log(sd[second]) - jnp.log(sd[first])",
            "jnp.log(sd[first]) - jnp.log(sd[second])",
        ),
        ("returns = jnp.argmin(distances(there)) == second", "returns = second < 2"),
    ),
    *mutants_of(
        "modes/learning.py",
        "modes/test_learning.py",
        ("found = variance / (number * ", "found = variance / (1 * "),
        ("second - middle[:, :, None] * middle[:, None, :]", "second"),
        ("jnp.minimum(wanted, affordable)", "wanted"),
        ("1 / (mass @ (1 / modes.sds[:, places] ** 2))", "mass @ modes.sds[:, places] ** 2"),
        ("jnp.where(enough, tail, modes.tail)", "modes.tail"),
        ("lessons.visits + _DRAWS_OF_MASSES * before", "lessons.visits"),
    ),
    *(
        Mutant(f"modes/{place}.py", old, new, f"modes/{tests}.py")
        for place, old, new, tests in (
            ("blocks", "rises < _RISE", "rises < 1e9", "test_blocks_of_coordinates"),
            ("known_list", "np.maximum(there, here) <", "np.minimum(there, here) <", "test_search"),
            ("known_list", "<= _LEAST_BARRIER + rounding", "<= -1e9", "test_search"),
            ("known_list", "once & ~(by_block.all(0) & rest)", "once", "test_search"),
            (
                "known_list",
                "shape.energy < self.shapes[number]",
                "np.inf < self.shapes[number]",
                "test_search",
            ),
            ("search", "len(looked_with) == _LOOKS", "len(looked_with) == 0", "test_search"),
            ("starts", "- np.logaddexp.reduce(known, axis=0)", "", "test_search"),
            ("starts", "place = signs * shapes", "place = shapes", "test_search"),
            ("shape", "values[0] < _FALLS_AWAY * top", "values[0] < -top * 1e9", "test_shape"),
            ("shape", "log_volume = np.log(scales).sum() + ", "log_volume = ", "test_shape"),
            ("valleys", "lowest[number] = here[number]", "here[number]", "test_valleys"),
            ("descent", "~jnp.all(walk.rests)", "~jnp.any(walk.rests)", "test_batches_of_descents"),
        )
    ),
    *(
        Mutant(place, old, new, f"kernels/test_mode_jumping.py {more}".strip())
        for place, old, new, more in (
            (
                "modes/tries.py",
                "jnp.exp(jnp.minimum(log_ratio, 0.0))",
                "1.0",
                "modes/test_moves.py",
            ),
            ("modes/tries.py", "(numbers == begins.mode)", "(numbers == -1)", "output"),
            ("kernels/jump_step.py", "jnp.where(in_warmup, 0, n)", "n", "output"),
            ("kernels/jump_step.py", "lax.cond(in_warmup, teach,", "lax.cond(True, teach,", ""),
            ("kernels/mode_jumping_start.py", "if len(known) < 2 or", "if", ""),
        )
    ),
    Mutant(
        "runs/modes_group.py",
        "found.mass[run.shapes.number :]",
        "found.mass[:0]",
        "output/test_mode_jumping_runs.py",
    ),
    Mutant(
        "diagnosis/search_checks.py",
        "is_bad or too_many",
        "is_bad",
        "diagnosis/test_search_checks.py",
    ),
    *mutants_of(
        "core/samplers/known_modes.py",
        "core/samplers/test_known_modes.py",
        ("towards = modes.log_volume - log_share", "towards = -log_share"),
        ("towards = modes.log_volume - log_share", "towards = modes.log_volume"),
        ("returns & (jnp.sum(", "(jnp.sum("),
        ("log_others(origin) - log_others(target)", "0.0"),
    ),
    *mutants_of(
        "core/samplers/one_coordinate.py",
        "core/samplers/test_one_coordinate.py",
        ("jnp.log(s[target]) - jnp.log(s[origin]),", "0.0 * s[0],"),
        ("(distances(moved)[target] < distances(moved)[origin]) & jnp", "jnp"),
        ("jnp.sum(modes.known) >= LEAST_MODES", "jnp.sum(modes.known) > 1"),
        ("s[target] / s[origin] * (x", "(x"),
        ("jnp.max(low, 0) > jnp.min(high, 0))", "jnp.max(low, 0) > -jnp.inf)"),
    ),
    *mutants_of(
        "core/samplers/within_mode.py",
        "core/samplers/test_within_mode.py",
        ("Map(there, size * log_scale,", "Map(there, log_scale,"),
        ("== number\n    return Map", ">= 0\n    return Map"),
        ("z - 2 * along", "z - along"),
        ("jnp.sort(sds, -1)", "sds"),
        ("jnp.where(known, ordered, 0.0)", "ordered"),
    ),
    *mutants_of(
        "adaptation/unexplained.py",
        "adaptation/test_unexplained.py",
        ("/ temperature - known", "/ temperature"),
        ("return -energy_at(place) / temperature", "return -energy_at(place)"),
        ("jnp.isfinite(above)", "~jnp.isnan(above)"),
        ("_FURTHEST ** random", "_FURTHEST * random"),
        ("times(modes.factor[which], normal)", "normal"),
    ),
    Mutant(
        "kernels/jumping.py",
        "further_out(key, places, found.modes), likely[chains // 2])",
        "further_out(key, places, found.modes), places)",
        "adaptation/test_unexplained.py",
    ),
    *mutants_of(
        "adaptation/further_out.py",
        "adaptation/test_further_out.py",
        ("places + sign * factor", "places + factor"),
        ("~jnp.eye(chains, dtype=bool)", "jnp.ones((chains, chains), bool)"),
        ("_FURTHEST ** random", "_FURTHEST * random"),
        ("broadcast_to(modes.known,", "broadcast_to(modes.known < 0,"),
    ),
    Mutant(
        "core/samplers/jumps.py",
        "whole &= ~stays",
        "whole &= whole",
        "core/samplers/test_within_mode.py",
    ),
    *mutants_of(
        "core/samplers/jumps.py",
        "core/samplers/test_known_modes.py",
        ("(old - found.energy) / safe", "(found.energy - old) / safe"),
        ("+ here - there", ""),
        ("log_ratio -= 0.5 * noise", "log_ratio -= 0.0 * noise"),
        ("old, noise = own.energy, own.noise", "old, noise = own.energy, 0.0"),
        ("old, noise = own.energy, own.noise", "noise = own.noise"),
        ("noise += found.noise", "noise += 0.0"),
        ("log_ratio -= 0.5 * noise", "log_ratio -= 1.0 * noise"),
        ("if jax.tree.leaves(memory)", "if not jax.tree.leaves(memory)"),
    ),
    *mutants_of(
        "core/samplers/adjusted.py",
        "core/samplers/test_adjusted.py",
        ("energy) / tau", "energy) / tau**2"),
        ("+ log_flattening - ", "- log_flattening + "),
        ("flattening_at(energy)", "flattening_at(chain.potential_energy)"),
    ),
    *(
        Mutant(place, old, new, "kernels/test_adjusted_kernels.py")
        for place, old, new in (
            ("adaptation/confined.py", "spread < _CONFINED", "spread > _CONFINED"),
            (
                "adaptation/measured_move.py",
                "return acceptance, uniform < acc",
                "return acceptance, uniform > acc",
            ),
            ("diagnosis/gradient_checks.py", "is_bad = jumps(evidence) and not", "is_bad = not"),
            ("runs/groups.py", "accepted / made", "made / accepted"),
        )
    ),
    *(
        Mutant(place, old, new, "runs/test_curvature.py")
        for place, old, new in (
            ("kernels/moves.py", "return 2 * (1 + momentum", "return 2 * (1 - momentum"),
            ("runs/curvature.py", "by_energy[:of_chain]", "by_energy[-of_chain:]"),
            ("runs/curvature.py", "root * slope(factor, image)", "slope(factor, image)"),
            ("runs/curvature.py", "image - (basis @ image) @ basis", "image"),
            ("diagnosis/curvature_checks.py", "figure > limit", "figure > _UNSTABLE"),
        )
    ),
    Mutant("adaptation/whitening.py", "clip(1 - noisy", "clip(1 + noisy", "adaptation"),
    Mutant(
        "adaptation/whitening.py", "jnp.sqrt(1 + shares)", "jnp.sqrt(1 + 0 * shares)", "adaptation"
    ),
    Mutant("adaptation/whitening.py", "exact @ turn)", "exact)", "adaptation"),
    Mutant("adaptation/turning.py", "origin=position", "origin=frame.origin", "adaptation"),
    Mutant(
        "adaptation/turning.py",
        "(found.condition >= frame.turns_from)",
        "(found.condition < frame.turns_from)",
        "adaptation kernels",
    ),
    Mutant("adaptation/frames.py", "place - after.position", "place", "adaptation"),
    Mutant(
        "adaptation/measured_move.py",
        "- went) / jnp.maximum",
        "+ went) / jnp.maximum",
        "adaptation",
    ),
    # flattening
    Mutant(
        "core/flattening/psi.py",
        "(place - left) * rise",
        "(left - place) * rise",
        "core/flattening",
    ),
    Mutant(
        "core/flattening/psi.py",
        "1 + flattening.zeta * temperature * slope",
        "1 - flattening.zeta * temperature * slope",
        "core/flattening",
    ),
    Mutant(
        "core/flattening/psi.py",
        "(1 - bound) * partition.width",
        "(1 + bound) * partition.width",
        "core/flattening",
    ),
    Mutant("core/flattening/psi.py", "(value - theta.decay)", "value", "core/flattening output"),
    Mutant(
        "core/flattening/theta.py",
        "theta.decay - jnp.log1p(-amount)",
        "theta.decay",
        "core/flattening",
    ),
    Mutant("core/flattening/theta_updates.py", "bins >= energy_bin", "bins > energy_bin", "core"),
    Mutant(
        "core/flattening/energy_partition.py",
        "jnp.floor(jnp.nan_to_num(clipped))",
        "jnp.floor(clipped)",
        "core/flattening",
    ),
    Mutant(
        "core/flattening/widening_partition.py",
        "(self.dense - 1) * more",
        "self.dense * more",
        "core/flattening",
    ),
    # samplers
    Mutant("core/samplers/guard.py", "guard.step_scale * 0.5", "guard.step_scale", "core/samplers"),
    Mutant(
        "core/samplers/window.py",
        "uniform < jnp.exp(log_chance",
        "uniform > jnp.exp(log_chance",
        "core/samplers",
    ),
    Mutant("core/samplers/window.py", "- jnp.log(num_steps)", "", "core/samplers"),
    Mutant("core/samplers/chain.py", "jnp.log(chain.guard.step_scale)", "0.0", "core/samplers"),
    Mutant("core/samplers/cyclical.py", "* progress) + 1", "* progress) + 2", "core/samplers"),
    Mutant(
        "core/samplers/replica_exchange.py",
        "1 / tau[:-1] - 1 / tau[1:]",
        "1 / tau[:-1] + 1 / tau[1:]",
        "core/samplers",
    ),
    Mutant(
        "core/samplers/replica_exchange.py",
        "0.5 * (variance[:-1] + variance[1:])",
        "(variance[:-1] + variance[1:])",
        "core/samplers",
    ),
    *mutants_of(
        "core/samplers/replica_exchange.py",
        "core/samplers",
        ("& both_moved & ~has_swapped,", "& both_moved,"),
        ("(number // swap_window) % 2", "number % 2"),
        ("(number % swap_window == 0)", "(number % 2 == 0)"),
        ("walkers=walkers)", "walkers=state.walkers)"),
    ),
    *mutants_of(
        "core/samplers/walkers.py",
        "core/samplers/test_walkers.py",
        ("walkers.heading[coldest] == _DOWN", "walkers.heading[coldest] != _UP"),
        ("heading[hottest] == _UP", "heading[hottest] != _DOWN"),
        ("at[0], at[-1]", "at[-1], at[0]"),
    ),
    *mutants_of(
        "statistics/ladders.py",
        "statistics/test_ladders.py",
        (".sum(-1)) * window", ".sum(-1))"),
        ("** window", "* 1"),
        ("2.0 if rejected", "1.0 if rejected"),
        ("np.log(ladder)", "ladder"),
    ),
    *mutants_of(
        "diagnosis/ladder_checks.py",
        "diagnosis/test_ladder_checks.py",
        ("_FEWEST_TRIPS and evidence", "_FEWEST_TRIPS or evidence"),
        ("- counted[:, 0]", "- 0"),
        ("1 - rates[:, -1]", "rates[:, -1]"),
    ),
    *(
        Mutant(place, old, new, tests)
        for place, old, new, tests in (
            (
                "statistics/bridges.py",
                "log_below = -_log_h(of_draws",
                "log_below = _log_h(of_draws",
                "statistics",
            ),
            (
                "statistics/bridges.py",
                "influence = shares * (below - mean)",
                "influence = shares * below",
                "statistics",
            ),
            ("statistics/bridges.py", "ddof=1) / np.sqrt(size)", "ddof=1)", "statistics"),
            ("statistics/bridges.py", "np.eye(len(p)) - p", "np.eye(len(p)) + p", "statistics"),
            (
                "runs/bridges_to_modes.py",
                "log_p[:, None] + squares",
                "log_p[:, None] - squares",
                "runs",
            ),
            (
                "runs/bridges_to_modes.py",
                "inside = cells[:, None] == ",
                "inside = cells[:, None] != ",
                "runs",
            ),
            ("runs/known_modes.py", "apart[nearest] >= _APART", "apart[nearest] >= 0", "runs"),
            ("runs/modes_group.py", "cij,cia,cjb->cab", "cij,cia,cjb->cba", "runs"),
            (
                "diagnosis/mode_masses.py",
                "missed[worst] > _MISSED",
                "missed[worst] > 0",
                "diagnosis",
            ),
            ("diagnosis/mode_masses.py", "(apart > _APART) &", "(apart > 0) &", "diagnosis"),
            (
                "diagnosis/warmup_checks.py",
                "np.where(after <= _SETTLED",
                "np.where(after < 0",
                "diagnosis",
            ),
            ("diagnosis/mode_masses.py", "bridged / of_bridges", "bridged / 1", "diagnosis"),
            ("diagnosis/mode_masses.py", "_ERRORS * both", "0 * both", "diagnosis"),
            ("plots/modes.py", "np.divide(made, tried", "np.divide(tried, made", "plots"),
        )
    ),
    Mutant("core/samplers", "0.5 * (g + h) * (y - x)", "0.5 * (g + h) * (x - y)", "runs"),
    Mutant(
        "core/samplers/contour.py",
        "drift.gradient_multiplier,",
        "1.0,",
        "core/samplers",
    ),
    Mutant(
        "core/flattening/normaliser.py",
        "interpolation]) - theta.decay",
        "interpolation])",
        _NORMALISER,
    ),
    Mutant(
        "core/flattening/normaliser.py",
        "2.0 / (mean.thetas + 2)",
        "1.0 / (mean.thetas + 1)",
        _NORMALISER,
    ),
    Mutant(
        "core/flattening/normaliser.py",
        "0.5 * (padded[:-1] + padded[1:])",
        "padded[:-1]",
        _NORMALISER,
    ),
    Mutant(
        "core/flattening/normaliser.py",
        "lax.cummax(log_theta + falls) - falls",
        "nodes",
        _NORMALISER,
    ),
    Mutant(
        "kernels/scaling.py",
        "_MOST_COORDINATES = 250",
        "_MOST_COORDINATES = 50",
        "kernels/test_dense_preconditioner.py",
    ),
    Mutant(
        "kernels/methods/method.py",
        "turns_from: float = 30.0",
        "turns_from: float = 100.0",
        "kernels/test_dense_preconditioner.py",
    ),
    Mutant(
        "diagnosis/noise_checks.py",
        "return given != {",
        "return True or {",
        "diagnosis/test_diagnose.py",
    ),
    Mutant(
        "kernels/methods/contour.py",
        "log_weight=window.log_weight + log_z",
        "log_weight=window.log_weight",
        f"{_NORMALISER} output",
    ),
    *mutants_of(
        "core/flattening/shared_theta.py",
        "core/flattening",
        ("shared = lax.pmean(amount", "shared = lax.psum(amount"),
        ("lax.pmean(jnp.where(here, amount, 0.0)", "lax.psum(jnp.where(here, amount, 0.0)"),
        ("lost = lax.pmean(", "lost = lax.psum("),
        ("amount + penalty, 0.0", "amount, 0.0"),
        ("lax.pmax(", "lax.pmin("),
    ),
    Mutant(
        "core/flattening/theta_updates.py",
        "if chains is not None:",
        "if chains is None and False:",
        "core/flattening",
    ),
    Mutant("core/samplers/contour.py", "*visited, rho, chains", "*visited, rho", "core/flattening"),
    Mutant("adaptation/pooled.py", "lax.pmin(", "lax.pmax(", "adaptation/test_pooled.py"),
    Mutant("adaptation/steep_walls.py", "- _SHARE)", "- 1.0)", "adaptation/test_steep_walls.py"),
    Mutant(
        "diagnosis/step_checks.py",
        "max(explained, bulk)",
        "bulk",
        "diagnosis/test_diagnose.py",
    ),
    Mutant("adaptation/pooled.py", "found.low + rise", "found.low", "adaptation/test_pooled.py"),
    Mutant(
        "kernels/methods/contour.py",
        "replace(self, chains=chains) if self.shares_theta and self.theta is None else self",
        "self",
        "kernels/test_interacting_chains.py",
    ),
    Mutant(
        "kernels/methods/contour.py",
        "if self.shares_theta and self.theta is None else",
        "if self.shares_theta else",
        "kernels/test_interacting_chains.py",
    ),
    Mutant("core/samplers/climbing.py", "xi**2 - back**2", "xi**2", "core/samplers"),
    Mutant(
        "core/samplers/steps_by_height.py",
        "(acceptance - TARGET_ACCEPTANCE)",
        "(TARGET_ACCEPTANCE - acceptance)",
        "core/flattening core/samplers",
    ),
    # warm-up
    Mutant("adaptation", "(target - statistic)", "(statistic - target)", "adaptation"),
    Mutant("adaptation", "weights, 0.01)", "weights, 0.2)", "adaptation"),
    Mutant("adaptation", "low - MARGIN * sd", "low + MARGIN * sd", "adaptation"),
    Mutant("adaptation", "step_size * noise / 2", "2 * step_size * noise", "adaptation"),
    Mutant("adaptation/tune.py", "jnp.sqrt(signal /", "(signal /", "adaptation"),
    Mutant("adaptation/descent.py", "(sunk | has_less", "(has_less", "adaptation/test_descent.py"),
    Mutant(
        "adaptation/descent.py",
        "narrow &= arrives &",
        "narrow &= False &",
        "adaptation/test_descent.py",
    ),
    Mutant(
        "adaptation/descent.py", "if exact:  #", "if not exact:  #", "adaptation/test_descent.py"
    ),
    Mutant(
        "adaptation/descent.py", "(other, mode", "(jnp.nan, mode", "kernels/test_jumping_kernels.py"
    ),
    Mutant(
        *("adaptation/descent.py", "descent.starts % 2 == 1", "descent.starts % 2 == 2"),
        "adaptation/test_descent.py",
    ),
    Mutant(
        *("adaptation/descent.py", "better = first | bottom | ", "better = first | "),
        "adaptation/test_descent.py",
    ),
    Mutant(
        *("adaptation/rescue.py", "*(x[lowest] for x in ends)) | (noise > 0)", "*ends) | True"),
        "adaptation/test_descent.py",
    ),
    Mutant(
        *("kernels/draws.py", "scale_mask=None if potential is None else ", "scale_mask=None and "),
        "models/test_scales.py",
    ),
    Mutant("models/scales.py", "isinstance(support, _POSITIVE)", "True", "models/test_scales.py"),
    *(
        Mutant(place, old, new, "models/test_centring.py")
        for place, old, new in [
            ("models/loc_scale.py", "scale ** (1 - c) * (", "scale ** c * ("),
            ("models/loc_scale.py", "z = c * self.loc + self", "z = self"),
            ("models/loc_scale.py", "scale ** (2 * c)", "scale ** c"),
            ("models/loc_scale.py", "jnp.where(c > 0.5, z, ", "jnp.where(c > 2, z, "),
            ("models/loc_scale.py", 'or msg["value"] is not None', ""),
            ("models/centring.py", "np.clip(1 - left, 0, 1)", "np.clip(left, 0, 1)"),
            ("models/centring.py", "c.min(initial=1) < _CENTRED", "True"),
            ("models/centring.py", "np.zeros_like(c) if little else", ""),
            ("models/jaxprs.py", "known.get(v, set()) for v in jaxpr", "{0} for v in jaxpr"),
            ("models/relabelling.py", 'getattr(like, "centring", None)', "None"),
            (
                "models/coordinates.py",
                "position = centred(potential, position)\n    model",
                "model",
            ),
            ("kernels/parts.py", "if self.temperature != Constant(1.0):", "if False:"),
            ("kernels/parts.py", "or callable(source.energy)", ""),
            ("kernels/parts.py", "(source.recentred and own)", "own"),
            ("kernels/start.py", "in_coordinates_of(init_params, given)", "given"),
            (
                "kernels/methods/weight_site.py",
                "constrain(in_coordinates_of(z, sites))",
                "constrain(sites)",
            ),
            ("runs/at_draws.py", 'getattr(like, "centring", None)', "None"),
        ]
    ),
    Mutant("adaptation/places.py", "- 2 * wider", "- 0.5 * wider", "adaptation/test_descent.py"),
    Mutant(
        *("adaptation/descent.py", "progress < 1.5 * _ENDS", "progress < 1.0 * _ENDS"),
        "adaptation/test_descent.py",
    ),
    Mutant(
        *("adaptation/fresh_rows.py", "(doubted, descent.doubts + 1, 0)", "(doubted, 0, 0)"),
        "adaptation/test_descent.py",
    ),
    Mutant(
        *("adaptation/descent.py", "_STARTS_UNTIL[exact]) & ~fits_rows", "_STARTS_UNTIL[exact])"),
        "adaptation/test_descent.py",
    ),
    Mutant(
        *("adaptation/fresh_rows.py", "rise > allowed", "rise > -allowed"),
        "adaptation/test_descent.py",
    ),
    Mutant("adaptation/low_rank.py", "rows[1::2] @ basis", "rows[::2] @ basis", "adaptation"),
    Mutant(
        "adaptation/low_rank.py",
        "- (rows @ directions) @ directions.T",
        "",
        "adaptation kernels/test_low_rank_preconditioner.py",
    ),
    Mutant(
        "adaptation/frames.py",
        "swept + jnp.outer(rest, weight * beyond)",
        "0 * swept + jnp.outer(rest, weight * beyond)",
        "adaptation",
    ),
    Mutant("adaptation/rows.py", "difference / 2**0.5", "difference", "adaptation"),
    Mutant("adaptation", "mean + deviation / count", "mean + deviation", "adaptation"),
    Mutant("adaptation", "2 * NOISE_SHARE * ", "20 * NOISE_SHARE * ", "adaptation"),
    # models
    Mutant(
        "models/clusters.py",
        "if not of_others.max() <= _WORTH_IT * noise.max():",
        "if not of_others.max() <= 0.0:",
        "models/test_data_expansion.py",
    ),
    Mutant(
        "models/typical_positions.py",
        "rng.choice(size, min(size, _ROWS), replace=False)",
        "np.random.default_rng(0).choice(size, min(size, _ROWS), replace=False)",
        "models/test_data_expansion.py",
    ),
    Mutant(
        "models/module_state.py",
        "share = 1 - (one - none)",
        "share = 1.0",
        "kernels/test_networks.py",
    ),
    Mutant(
        "models/plates.py", "random.fold_in(key, 1)", "random.key(1)", "kernels/test_networks.py"
    ),
    Mutant(
        "runs/stored/rounded.py",
        "rounded = values.astype(dtype)",
        "rounded = values.astype(dtype).astype(values.dtype)",
        "runs/test_stored_precision.py",
    ),
    Mutant(
        "runs/stored/store.py",
        "rows = slice(begin, min(begin + at_once, shape[1]))",
        "rows = slice(0, min(at_once, shape[1]))",
        "runs/test_stored_precision.py",
    ),
    Mutant("runs/module_states.py", "value=False", "value=True", "kernels/test_networks.py"),
    Mutant(
        "output/groups_of_run.py",
        "if run.changes_after_training:",
        "if not run:",
        "kernels/test_networks.py",
    ),
    Mutant(
        "output/predictive_mean.py",
        "weight = weights[chain, place] /",
        "weight = 1 /",
        "kernels/test_networks.py",
    ),
    Mutant("models", "count**2 / rows", "count / rows", "models"),
    Mutant("models", "values / lacking", "values", "models"),
    Mutant("models", 'msg["scale"] / scale', 'msg["scale"] * scale', "models"),
    Mutant("models", "(places < size)", "(places <= size)", "models"),
    Mutant("models", "jnp.maximum(component, 0.0)", "jnp.abs(component) * 2", "models"),
    Mutant("models/estimators", "energy = difference + jnp", "energy = difference - jnp", "models"),
    Mutant("models/estimators", "here + (anchor.gradient", "here - (anchor.gradient", "models"),
    Mutant(
        "models/estimators",
        '"control_variate" if descends and not',
        '"control_variate" if not descends and not',
        "models kernels",
    ),
    Mutant("models/estimators", "rise += anchor", "rise += (number > 0) + anchor", "kernels"),
    Mutant("models/seeds.py", "range(self._lacking)", "range(1)", "models"),
    Mutant("adaptation/reach.py", "0.5 * changes", "1.0 * changes", "adaptation"),
    Mutant("adaptation/window.py", "jnp.minimum(bins, _FIRST)", "bins", "adaptation"),
    Mutant("adaptation/window.py", "pilot.mean + _MOST", "pilot.mean - _MOST", "adaptation"),
    Mutant("adaptation/measured_move.py", "for n in (0, 1)", "for n in (1, 0)", "adaptation"),
    Mutant(
        "models/estimators/control_variate.py",
        "gradient = here + (anchor.gradient",
        "gradient = here + (anchors.slots.gradient[0]",
        "models kernels",
    ),
    Mutant("runs", "_Server(chain, slot, inside)", "_Server(chain, 0, inside)", "kernels"),
    Mutant("models/estimators", "least[place] <= limit", "least[place] > limit", "models"),
    # kernels
    Mutant("kernels", "(1 + c) * of_langevin", "(1 - c) * of_langevin", "adaptation"),
    Mutant("kernels", "PEAK = 2.0", "PEAK = 1.0", "adaptation"),
    Mutant(
        "kernels", "partial(on_operands, constrained, potential)", "lambda z: z", "kernels models"
    ),
    Mutant(
        "kernels/methods/weight_site.py",
        "if name == NAME and name not in latent",
        "if name == NAME",
        "kernels/test_weights_among_sites.py",
    ),
    Mutant(
        "kernels/after_run.py",
        "if name != WEIGHT_SITE",
        "if name",
        "kernels/test_weights_among_sites.py",
    ),
    Mutant(
        "kernels",
        "sampler.partition.lower + rise",
        "sampler.partition.lower - rise",
        "models kernels adaptation",
    ),
    Mutant("kernels", "wrapper(source.model_or_fail())", "source.model_or_fail()", "models"),
    Mutant("kernels", "1.0 if energy_is_callable else 0.0", "0.0", "kernels models"),
    Mutant("kernels", "energy_noise / variance", "energy_noise * variance", "models runs kernels"),
    # statistics
    Mutant("statistics", "- np.log(log_weights.shape[1])", "", "statistics"),
    Mutant("statistics", "(weights**2).sum() / weights.size", "weights.sum()", "statistics"),
    Mutant("statistics", "(draws - 1) / draws", "(draws + 1) / draws", "statistics"),
    Mutant("statistics", "middle = reached - weights / 2", "middle = 1.0 * reached", "statistics"),
    Mutant("statistics", "keys = group * order", "keys = -group * order", "statistics"),
    Mutant("statistics", 'side="right")) + 3', 'side="right")) - 3', "statistics"),
    Mutant("statistics", "correlation[rows, 2 * last]", "correlation[rows, 0]", "statistics"),
    Mutant("statistics", "ways // 2", "ways", "statistics"),
    Mutant("statistics", "-(share * np.log(share))", "(share * np.log(share))", "statistics"),
    Mutant("statistics", "np.median(sd, axis=1) / widths", "np.median(sd, axis=1)", "statistics"),
    # runs
    Mutant("runs", "own = final + ", "own = final - ", "output"),
    Mutant("runs", "felt - smoothed(", "felt + smoothed(", "runs"),
    Mutant("runs", "* -np.diff(ramps)", "* np.diff(ramps)", "runs"),
    Mutant("runs", "np.sqrt(np.asarray(found.noise", "(np.asarray(found.noise", "runs"),
    Mutant("runs/log_likelihood.py", "in part.items()", "in {}.items()", "output"),
    # diagnosis
    Mutant("diagnosis", "sizes[least] < fewest", "sizes[least] > fewest", "diagnosis"),
    Mutant("diagnosis", "rhat[at] > _LARGEST", "rhat[at] < _LARGEST", "diagnosis"),
    Mutant("diagnosis", "_MOST_BINS = 3.0", "_MOST_BINS = 30.0", "diagnosis"),
    Mutant("diagnosis", "_LEAST_SHARE = 0.05", "_LEAST_SHARE = 0.005", "diagnosis"),
    Mutant("diagnosis", "evidence.lower - evidence.typical", "evidence.typical", "diagnosis"),
    Mutant(
        "models", "if size > length:", "if size > 2 * length + 1000:", "models/test_row_checks.py"
    ),
    Mutant("models", "if size < length and", "if size < 0 and", "models/test_row_checks.py"),
    Mutant(
        "adaptation",
        "jnp.where(begins, jnp.max(warmup.length - warmup.given), 0)",
        "jnp.where(begins, 0, 0)",
        "kernels/test_as_typed.py",
    ),
    Mutant(
        "diagnosis",
        'if evidence.settings.get("resampled"):',
        'if evidence.settings.get("nothing"):',
        "diagnosis",
    ),
    Mutant("core", "@sequential_vmap\ndef eigh", "def eigh", "core/arrays/test_decompositions.py"),
    # output
    Mutant("statistics", "(number / weights.sum())", "(number / weights.size)", "output"),
    Mutant("statistics", "rng.random() + np.arange(number)", "np.arange(number)", "output"),
    Mutant("output", "samples, weights.log_weights", "samples, 2 * weights.log_weights", "output"),
    Mutant("statistics", "np.floor(expected + 1e-9)", "np.ceil(expected + 1e-9)", "output"),
    Mutant("output", "column.loc[{column.dims[0]: label}] = ", "_ = ", "output"),
    Mutant(
        "output",
        "systematic(rng, weights[chain],",
        "systematic(rng, weights[0],",
        "output/test_equal_weights.py",
    ),
    Mutant(
        "output",
        "np.stack([systematic(rng, weights[chain], weights.shape[1]) for chain in live])",
        "rng.integers(weights.shape[1], size=(len(live), weights.shape[1]))",
        "output/test_equal_weights.py",
    ),
    Mutant(
        "output",
        "systematic(rng, weights[chain], weights.shape[1])",
        "rng.permutation(systematic(rng, weights[chain], weights.shape[1]))",
        "output/test_equal_weights.py",
    ),
    Mutant(
        "output",
        "chosen = plain.isel(chain=live)",
        'chosen = plain.isel(chain=live if name == "posterior" else live[::-1])',
        "output/test_equal_weights.py",
    ),
    # plots
    Mutant("plots", "np.where(is_here, weights, 0.0)", "np.where(is_here, 1.0, 0.0)", "plots"),
    Mutant("plots", "/ weights.sum() / np.diff(edges)", "/ weights.sum()", "plots"),
    Mutant("plots", "4 * weights.ravel() / weights.mean()", "4 * weights.ravel()", "plots"),
    Mutant("plots", '1.0 - float(evidence.settings["zeta"])', "1.0", "plots"),
    # the root
    Mutant("checks.py", "if result <= 0:", "if result < 0:", "test_bad_input.py"),
    Mutant("checks.py", "if result < at_least:", "if result <= at_least:", "test_bad_input.py"),
    Mutant("checks.py", "level += 1", "level += 0", "diagnosis kernels output"),
    Mutant("schedules.py", "exponent + self.offset", "exponent - self.offset", "core/flattening"),
    Mutant("schedules.py", "count // self.steps", "count / self.steps", "kernels"),
    Mutant("schedules.py", "if not first > 0:", "if first < 0:", "test_bad_input.py"),
]


def file_of(mutant, root):
    """The file that holds the text of a mutant once, or in words why there is none."""
    place = root / PACKAGE / mutant.place
    files = sorted(place.rglob("*.py")) if place.is_dir() else [place]
    counts = {path: path.read_text().count(mutant.old) for path in files if path.exists()}
    holding = [path for path, count in counts.items() if count]
    if sum(counts.values()) == 1:
        return holding[0], ""
    names = ", ".join(str(path.relative_to(root)) for path in holding)
    return None, f"found {sum(counts.values())} times in {names}" if names else "NOT FOUND"


@contextlib.contextmanager
def applied(mutant, path):
    """The mutant in its file."""
    text = path.read_text()
    path.write_text(text.replace(mutant.old, mutant.new))
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
    """The mutants of these numbers and words, with their numbers."""
    numbered = list(enumerate(MUTANTS, 1))
    if not words:
        return numbered
    return [(n, m) for n, m in numbered if any(w == str(n) or w in m.place for w in words)]


def main():
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*", help="numbers of mutants, or words of their places")
    parser.add_argument("--check", action="store_true", help="whether each text is there, once")
    arguments = parser.parse_args()
    mutants = chosen(arguments.words)
    missing = [(n, m, file_of(m, ROOT)[1]) for n, m in mutants if file_of(m, ROOT)[0] is None]
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
            path, _ = file_of(mutant, copy)
            if path is None:
                continue
            started = time.monotonic()
            with applied(mutant, path):
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
