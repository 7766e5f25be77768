"""Figures that sentences of the docs quote are those of the tables that the benchmarks wrote.

Tables of docs/benchmarks.md and docs/peers are written by code. Each claim below makes a phrase
from them, and the phrase has to be on its page: a benchmark that is run anew turns this red where
a sentence does not follow.
"""

import json
import re
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
BENCHMARKS = "docs/benchmarks.md"


def text_of(page):
    """A page with its line breaks as spaces."""
    return " ".join((ROOT / page).read_text(encoding="utf-8").split())


def section(name, page=BENCHMARKS):
    """What a benchmark wrote on a page."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.search(rf"<!-- {name} -->\n(.*?)(?=<!-- |\Z)", text, flags=re.DOTALL)[1]


def tables(name, page=BENCHMARKS):
    """The tables of a section: lists of {header: cell}."""
    found = []
    for block in re.findall(r"(?:^\|.*\n)+", section(name, page), flags=re.MULTILINE):
        lines = [[cell.strip() for cell in line[1:-2].split(" | ")] for line in block.splitlines()]
        found.append([dict(zip(lines[0], line)) for line in lines[2:]])
    return found


def row(table, *cells):
    """The row of a table that begins with these cells."""
    (found,) = [r for r in table if tuple(r.values())[: len(cells)] == cells]
    return found


def number(cell):
    """The first number of a cell."""
    return float(re.search(r"-?[\d,]*\.?\d+", cell)[0].replace(",", ""))


def peer(target, method, field):
    """An error of the peers' benchmark at equal gradients, its mean over runs."""
    found = json.loads((ROOT / "docs" / "peers" / f"{target}.json").read_text())
    return np.mean(found["methods"][method]["equal_gradients"][field])


def the_kernels():
    (at_paper, at_best), (given,) = tables("nine_modes"), tables("family")
    for found in given:
        name = found["kernel"]
        first, best = row(at_paper, name), row(at_best, name)
        yield (
            f"| `{name}` | {first['TV a chain']} at {first['step size']} | {best['TV a chain']} at "
            f"{best['step size']} | {found['effective draws']} | {found['correlated']} | "
            f"{found['error a chain']} |"
        )


def share_of_sgld(column):
    (given,) = tables("family")
    return number(row(given, "ContourSGLD")[column]) / number(row(given, "SGLD")[column])


def cost_of_contour():
    (defaults,) = tables("defaults")
    of_normals = float(re.search(r"over SGLD's ([\d.]+)", row(defaults, "gauss20d")["figures"])[1])
    shares = share_of_sgld("effective draws"), share_of_sgld("correlated"), of_normals
    # Shares are known to a quarter.
    assert 0.7 <= min(shares) <= 0.85, shares
    assert max(shares) <= 1.25, shares
    yield "up to 30 %"


def barriers_that_fall_by_themselves():
    (defaults,) = tables("defaults")
    errors = {
        name: number(row(defaults, name)["figures"])
        for name in ("mixture20", "mixture30", "mixture30, 37 nats")
    }
    assert max(errors.values()) < 0.01, errors
    yield "up to 37 nats"


def stated_barrier():
    rows = tables("two_normals", "docs/barriers.md")[0]
    assert min(number(r["crossings, by chain"]) for r in rows if "seed" in r["run"]) >= 10
    yield "`barrier=400`"


def gains(target):
    rows, _, _ = tables("moving_theta")
    return [r for r in rows if r["target"].startswith(target)]


def readme_run():
    found, *_, jumps = gains("model of README, noise 3.5")
    yield f"exact value is {found['exact']}; six such runs together gave {jumps['mean of chains']}"
    yield f"(`jumps=False`) the same runs give {found['mean of chains']}"
    yield f"barrier between the modes is {found['target'].split()[-2]} nats"


def moving_theta():
    first, second, third, jumps = gains("model of README, noise 3.5")
    yield f"the model of the README gives {jumps['mean of chains']} (exact {jumps['exact']})"
    yield (
        f"(exact {first['exact']}) gives {first['mean of chains']} with the default gain, "
        f"{second['mean of chains']} with `robbins_monro(10, 0.9, 100)` and "
        f"{third['mean of chains']} with exponent 1"
    )
    _, steps, _ = tables("moving_theta")
    found, half, quarter, adjusted = [row["mean of chains"] for row in steps]
    yield f"gives {found} at the step that is found, {half} at half of it, {quarter} at a quarter"
    yield f"{adjusted} with `adjusted=True`"
    higher, _, rare, jumps = gains("model of README, noise 3:")
    yield f"nats, {jumps['mean of chains']} (exact {jumps['exact']})"
    assert 0.4 < number(higher["crossings a chain"]) / number(first["crossings a chain"]) < 0.6
    assert number(rare["sd of a chain"]) > 0.1
    yield (
        f"{higher['target'].split()[-2]} nats, and crossings half as frequent (exact "
        f"{higher['exact']}), the default gives {higher['mean of chains']}"
    )
    _, _, rows = tables("moving_theta")
    short = {(r["kernel"], r["gain"]): 100 * (1 - number(r["variance"])) for r in rows}
    smallest = "robbins_monro(10, 1.0, 100)"
    by_momentum, plain = (abs(short[name, smallest]) for name in ("ContourSGHMC", "ContourSGLD"))
    yield (
        f"{short['ContourSGHMC', 'default']:.1f} % too small with `ContourSGHMC` and the default "
        f"gain, and {short['ContourSGLD', 'default']:.1f} % with `ContourSGLD`; with "
        f"`{smallest}` they are off by {by_momentum:.1f} and {plain:.1f} %"
    )


def lesser_mode():
    first, second, third = gains("10 dimensions")

    def excess(found):
        mean, error = re.findall(r"[\d.]+", found["mean of chains"])
        return f"{float(mean) - 0.4:.3f} +- {error}"

    scatter = [
        round(100 * (number(r["sd of a chain"]) / number(first["sd of a chain"]) - 1))
        for r in (second, third)
    ]
    yield f"gave it {excess(first)} more than its 0.4"
    yield (
        f"`gain=robbins_monro(10, 0.9, 100)` it was {excess(second)} and with exponent 1 "
        f"{excess(third)}, at chains that scatter {scatter[0]} and {scatter[1]} % more"
    )
    (defaults,) = tables("defaults")
    share = float(re.search(r"over SGLD's ([\d.]+)", row(defaults, "gauss20d")["figures"])[1])
    yield f"it has {share:.2f} of the effective draws of `SGLD`"


def defaults_reach():
    (rows,) = tables("defaults")
    figures = {r["target"]: r["figures"] for r in rows}
    one, nine = number(figures["mix1"]), number(figures["nine"])
    yield f"off by {one:.3f} (two modes in one dimension) and {nine:.2f} (nine modes)"
    unimodal = [figures[name] for name in ("eight schools", "regression", "poisson", "logistic")]
    pooled = max(float(re.search(r"pooled ([\d.]+)", text)[1]) for text in unimodal)
    single = max(map(number, unimodal))
    sds = [re.search(r"min ([\d.]+), max ([\d.]+)", text).groups() for text in unimodal]
    assert pooled < 0.1
    widest = max(abs(float(ratio) - 1) for pair in sds for ratio in pair)
    yield f"their standard deviations within {100 * widest:.0f} % in single chains"
    yield f"within 0.1 posterior standard deviations of NUTS (of single chains within {single:.2f})"
    chain, all_chains = number(figures["concrete"]), figures["concrete"].split("pooled ")[1]
    yield f"RMSE of {float(all_chains):.1f} MPa, single chains of {chain:.1f}"


def sensitivity():
    (rows,) = tables("sensitivity")
    assert max(number(r["worst ratio"]) for r in rows) < 2
    yield "by less than a factor of two"


def noise_of_estimators():
    rows = tables("subsampling")[0]
    noise = {r["target"]: number(r["noise of the energy, nats (bins)"]) for r in rows}
    yield (
        f"{noise['logistic, 10,000 rows']:.1f} nats at N = 10,000, "
        f"{noise['logistic, 1,000,000 rows']:.1f} at 1,000,000"
    )
    alone = noise['the same, `energy="minibatch"`']
    yield f"{alone:.0f} nats there at N = 10,000, and growing as N"


def weights_by_noisy_energies():
    rows = tables("subsampling")[1]
    by_noisy = [r["by the noisy energy (the paper)"].split(", ")[1:] for r in rows]
    assert 1.38 < max(float(v) for pair in by_noisy for v in pair) < 1.45
    yield "up to 40 % too wide"


def crossings_by_noise():
    rows = tables("crossings")[2]
    columns = [c for c in rows[0] if c.startswith("crossings")]
    for column in columns:
        exact = number(row(rows, "0 nats")[column])
        share = {r["noise"]: number(r[column]) / exact for r in rows}
        assert share["6 nats"] > 1 if "0.25" in column else 0.4 < share["6 nats"] < 0.6
        assert 0.05 < share["12 nats"] < 0.15
        assert share["30 nats"] < 0.02
    yield "a tenth of the crossings"


def modes_that_rows_make():
    """Of each posterior its row on minibatches and the row of the same run without noise."""
    runs = tables("modes_of_rows")[0]
    return list(zip(runs[::3], runs[1::3], runs[2::3]))


def of_posterior(noisy):
    """Its name, number of rows, barrier in nats and exact mass, as the page has them."""
    form = r"(.+), N = ([\d,]+), n = [\d,]+: ([\d.]+) nats, ([\d.]+)"
    return re.fullmatch(form, noisy["target"]).groups()


def on_top(noisy):
    """The noise on top of the barrier, in nats."""
    return number(noisy["noise: median, 99 %, on top"].split(", ")[-1])


def posteriors_that_rows_make():
    found = modes_that_rows_make()
    assert all(exact["target"] == "the same without noise" for _, exact, _ in found)
    assert all(known["target"].startswith("the same with jumps") for *_, known in found)
    words = {7: "seven", 8: "eight", 9: "nine", 10: "ten"}
    assert max(int(of_posterior(noisy)[1].replace(",", "")) for noisy, *_ in found) == 1_000_000
    yield f"have {words[len(found)]} such posteriors with known answers, up to a million rows"
    for noisy, exact, known in found:
        name, rows, barrier, mass = of_posterior(noisy)
        crossings = [r["crossings, least"].split(", ")[0] for r in (noisy, exact)]
        noise = " / ".join(noisy["noise: median, 99 %, on top"].split(", ")[::2])
        yield (
            f"| {name} | {rows} | {barrier} | {noisy['energies']} | {noise} | "
            f"{' / '.join(crossings)} | {noisy['pooled']} | {known['pooled']} | {mass} |"
        )


def crossings_of_modes_of_rows():
    shares = [
        number(noisy["crossings, least"]) / number(exact["crossings, least"])
        for noisy, exact, _ in modes_that_rows_make()
        if on_top(noisy) < 3 and number(exact["crossings, least"]) >= 5
    ]
    yield (
        "Where chains cross without noise, and the noise on top of the barrier is below 3 nats, "
        f"they cross {min(shares):.2f} to {max(shares):.2f} times as often with it"
    )


def rows_for_modes_of_rows():
    hidden = {of_posterior(noisy)[0] for noisy, *_ in modes_that_rows_make() if on_top(noisy) >= 3}
    ratios = [number(r["ratio"]) for r in tables("modes_of_rows")[1] if r["target"] not in hidden]
    yield f"{100 * min(ratios):.0f} to {100 * max(ratios):.0f} % of the rows"
    # The errors of eight chains are known to a quarter.
    assert np.median(ratios) < 0.05, ratios


def peers_with_as_many_rows():
    of = {r["method"]: number(r["error of a run"]) for r in tables("peers_on_rows")[0]}
    ours, nuts, smc = of["ContourSGLD"], of["NUTS"], of["blackjax's tempered SMC"]
    minibatches = ("SGLD", "blackjax.csgld, our partition", "HMCECS", "SGMCMCJax's SGLD")
    best = min(of[name] for name in minibatches)
    assert 2 * ours < min(best, nuts, smc)
    yield f"off by {ours:.3f} in the root mean square"
    yield f"is off by {best:.3f}, NUTS on all rows by {nuts:.3f}"
    yield f"tempered SMC on all rows by {smc:.3f}"


def formula_of_plain_noise():
    height, share = 16, 8 / 16
    # The noise is half of the barrier: sqrt(2 h N / n) = h / 2.
    assert (2 * height / share) ** 0.5 == height / 2
    yield "half of all rows for 16 nats"


def limits_of_the_partition():
    rows = tables("crossings")[0]
    of = {r["partition"]: r for r in rows}
    count = lambda name: f"{number(of[name]['crossings']):.0f}"
    above = "begins {} nats above typical energies"
    yield (
        f"{count('0 to 20 nats, bins of 0.25')} crossings a chain where it begins below all "
        f"energies, {count(above.format(1.7))} at 1.7 nats above typical ones, "
        f"{count(above.format(3.6))} at 3.6, {count(above.format(6.6))} at 6.6"
    )
    share = lambda name: of[name]["draws above it"].replace("%", " %")
    yield (
        f"{count('ends at 4.5 nats')} crossings with {share('ends at 4.5 nats')} of the draws "
        f"above it, {count('ends at 3 nats')} with {share('ends at 3 nats')}"
    )
    wide = {number(r["partition"]): number(r["crossings"]) for r in tables("crossings")[1]}
    assert 0.6 < wide[4.5] / wide[1.0] < 0.75
    yield "crossings fall by a third at 4.5 standard deviations"


def papers_settings():
    rows = tables("diagnose")[-1]
    mixture, later = (
        row(rows, "0.4 N(-6, 1) + 0.6 N(4, 1)", name)["mean"]
        for name in ("the paper's", "the same from 1.4 nats on")
    )
    given = row(rows, "0.4 N(-6, 1) + 0.6 N(4, 1)", "nothing given")["mean"]
    rounded = lambda cell: " +- ".join(f"{float(x):.2f}" for x in cell.split(" +- "))
    yield f"The mean is {rounded(mixture)} where 0 is right"
    yield f"and {rounded(later)}"
    yield f"the mean is {rounded(given)}"
    nine = row(rows, "nine modes", "the paper's"), row(rows, "nine modes", "nothing given")
    masses = [f"{number(r['masses a chain']):.2f}" for r in nine]
    yield f"off by {masses[0]} in total variation, by {masses[1]} with nothing given"


def peers_on_one_mode():
    for target in ("normal-20-d", "eight-schools-10-d"):
        errors = [peer(target, m, "mean_error") for m in ("NUTS, 4 chains", "ContourSGLD")]
        assert 0.28 < errors[0] / errors[1] < 0.55, errors
    yield "a third to a half of our error at equal gradients"


def a_theta_that_chains_share():
    rows, judged = tables("shared_theta")
    pairs = list(zip(rows[::2], rows[1::2]))
    nearer = [number(own["theta"]) / number(shared["theta"]) for own, shared in pairs]
    assert min(nearer) > 1, nearer
    for own, shared in pairs:
        for masses in ("masses, all chains", "masses, one chain"):
            (a, a_error), (b, b_error) = (
                map(float, r[masses].split(" +- ")) for r in (own, shared)
            )
            assert abs(a - b) < 3 * np.hypot(a_error, b_error) + 0.002, (own, shared)
    assert all(abs(number(r["rms z"]) - 1) < 0.2 for r in judged), judged
    words = {4: "four", 5: "five", 6: "six"}[int(max(nearer))]
    yield f"up to {words} times nearer to the exact one"


def jumping(part):
    """Rows of a part of the benchmark of `ModeJumping`, by name."""
    found = json.loads((ROOT / "docs" / "peers" / "mode-jumping.json").read_text())
    return found[part]


def price_of_a_search():
    rows = jumping("one mode").values()
    assert all(row["same"] for row in rows)
    longer = [ours - theirs for theirs, ours in (row["seconds"] for row in rows)]
    yield f"a first run up to {int(np.ceil(max(longer)))} s longer"


CLAIMS = {
    "README.md": [
        cost_of_contour,
        barriers_that_fall_by_themselves,
        stated_barrier,
        readme_run,
    ],
    "docs/which.md": [the_kernels, cost_of_contour, a_theta_that_chains_share],
    "docs/weights.md": [moving_theta, crossings_by_noise],
    "docs/choosing.md": [defaults_reach, lesser_mode, sensitivity],
    "docs/minibatches.md": [
        noise_of_estimators,
        weights_by_noisy_energies,
        crossings_by_noise,
        posteriors_that_rows_make,
        crossings_of_modes_of_rows,
        rows_for_modes_of_rows,
        peers_with_as_many_rows,
        formula_of_plain_noise,
    ],
    "docs/diagnose.md": [limits_of_the_partition, crossings_by_noise, papers_settings],
    "docs/several_modes.md": [price_of_a_search],
    "docs/when_not.md": [peers_on_one_mode, cost_of_contour],
}


@pytest.mark.parametrize(("page", "claim"), [(p, c) for p, made in CLAIMS.items() for c in made])
def test_a_page_says_what_was_measured(page, claim):
    text = text_of(page)
    phrases = list(claim())
    assert phrases
    for phrase in phrases:
        assert phrase in text, phrase
