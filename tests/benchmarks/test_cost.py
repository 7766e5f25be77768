"""The benchmark of what a step costs, in its quick form, and what it measures with."""

import math
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest


@pytest.fixture(autouse=True)
def _from_the_root(pytestconfig, monkeypatch):
    monkeypatch.syspath_prepend(str(pytestconfig.rootpath))


@pytest.fixture(autouse=True)
def _progress_bar(monkeypatch):
    # NumPyro leaves it out where it sees these, and then compiles every run anew.
    for name in ("CI", "PYTEST_XDIST_WORKER"):
        monkeypatch.delenv(name, raising=False)


# ---------------------------------------------------------------- what it measures with


def test_compile_seconds_counts_what_is_compiled():
    from benchmarks.shared.timing import compile_seconds

    def slow_to_trace(x):
        time.sleep(0.05)
        return x + 1

    function, x = jax.jit(slow_to_trace), jnp.ones(3)
    with compile_seconds() as outer:
        with compile_seconds() as first:
            function(x)
        with compile_seconds() as again:
            function(x)
    jax.jit(lambda x: x + 2)(x)
    assert first() >= 0.05
    assert again() == 0
    assert outer() == first()


def test_a_second_run_of_vectorised_chains_compiles_nothing():
    from benchmarks.cost.vectorised import chains_of, kernel
    from benchmarks.shared.timing import compile_seconds

    run = chains_of(kernel(32, 2), 3)
    with compile_seconds() as first:
        run(6)
    with compile_seconds() as again:
        run(6)
    assert first() > 0
    assert again() == 0


def test_bytes_of_a_tree():
    from benchmarks.cost import memory

    tree = {
        "a": np.zeros((3, 5), np.float64),
        "b": (jnp.zeros(7, jnp.float32), jnp.zeros((), jnp.int32), None),
        "key": jax.random.key(0),
    }
    assert memory.tree_bytes(tree) == 3 * 5 * 8 + 7 * 4 + 4 + 2 * 4


# ---------------------------------------------------------------- the authors' rule


def test_the_energy_of_the_rule_is_ours():
    autograd = pytest.importorskip("autograd")
    from benchmarks.cost import numpy_rule
    from numpyro_contour.examples import nine_modes

    # Inside and outside of the circle beyond which the energy rises faster.
    for x in ([0.0, 0.0], [0.3, -1.2], [-1.7, 1.6], [2.4, -1.9], [-2.5, 2.5]):
        x = np.array(x)
        value, gradient = jax.value_and_grad(nine_modes.potential)(jnp.asarray(x))
        for energy in (numpy_rule.energy, numpy_rule.plain_energy):
            assert abs(energy(x) - value) < 1e-4
        for found in (autograd.grad(numpy_rule.energy)(x), numpy_rule.plain_gradient(x)):
            np.testing.assert_allclose(found, gradient, atol=1e-3)


def test_what_the_rule_learns():
    pytest.importorskip("autograd")
    from benchmarks.cost import numpy_rule

    rule = numpy_rule.Rule(numpy_rule.plain_energy, numpy_rule.plain_gradient)
    rule.place = 3
    before = rule.probability.copy()
    rule.learn(3, 0.1)
    visited = np.arange(rule.parts) == 3
    expected = before + 0.1 * before[3] ** 0.75 * (visited - before)
    np.testing.assert_allclose(rule.probability, expected)
    rise = math.log(rule.probability[3] / rule.probability[2])
    assert abs(rule.multiplier - (1 + 0.75 * rise / 0.25)) < 1e-9
    for number in range(1, 2001):
        rule.step(number)
    assert abs(rule.probability.sum() - 1) < 1e-9
    # From the middle, whose energy of -6.7 is in the second bin, it has risen to others.
    assert (np.abs(rule.x) <= 2.5).all()
    assert np.count_nonzero(rule.probability > 1 / rule.parts) > 10


# ---------------------------------------------------------------- the page


def cells(text):
    """The cells of all tables, headers among them."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [line.strip("| ").split(" | ") for line in lines if not line.startswith("| ---")]


def quick_form(name, folder):
    """The cells of the page that the quick form of one section makes."""
    from benchmarks.__main__ import main

    main([f"cost.{name}", "--quick", "--output", str(folder)])
    page = (folder / "cost.md").read_text()
    assert page.startswith("# What a step costs")
    assert page.count("<!-- ") == 1
    assert f"<!-- {name} -->\n## " in page
    table = cells(page)
    assert not {"nan", "inf"} & {cell for line in table for cell in line}
    return table


def test_steps(tmp_path, capsys):
    table = quick_form("steps", tmp_path)
    assert "## A step of `ContourSGLD`" in capsys.readouterr().out
    # A table for each size that varies; in the quick form all are of the same measurement.
    assert [line[0] for line in table[1::2]] == ["1,000", "10", "64", "32"]
    assert len({tuple(line[1:]) for line in table[1::2]}) == 1
    assert all(len(line) == 6 for line in table)


def test_every_size_is_measured_once(tmp_path, monkeypatch):
    from benchmarks.cost import steps
    from benchmarks.shared.experiment import Experiment

    seen = []
    monkeypatch.setattr(steps, "measured", lambda _, setting: seen.append(setting) or ["1.0"] * 5)
    table = cells(steps.main(Experiment(tmp_path)))
    assert len(seen) == len(set(seen)) == 10
    assert len(table) == 4 + 13
    assert ["1,000,000", *["1.0"] * 5] in table
    assert all(1000 <= setting.steps <= 10_000 for setting in seen)


def test_costs_of_sizes_are_compared_within_rounds(tmp_path, monkeypatch):
    from benchmarks.cost import steps
    from benchmarks.shared.experiment import Experiment

    # The second round is slower for all, the third for one.
    found = {"ours": [2.0, 20.0, 2.0], "bare": [1.0, 10.0, 9.0], "blackjax": [4.0, 40.0, 4.0]}
    found = {name: np.array(values) for name, values in found.items()}
    monkeypatch.setattr(steps, "step_costs", lambda *_: found)
    line = steps.measured(Experiment(tmp_path), steps.QUICK)
    assert line == ["2.0", "9.0", "4.0", "2.00", "0.50"]


def test_chains(tmp_path):
    table = quick_form("chains", tmp_path)
    (one, many), verdict = table[1:3], table[4]
    assert [one[:2], many[:2]] == [["32", "1"], ["32", "64"]]
    assert one[4] == "1.0"
    assert many[4] == verdict[1]
    assert abs(float(many[2]) - 64 * float(many[3])) <= 0.05 + 64 * 0.005
    assert verdict[2] == ("yes" if float(verdict[1]) <= 35.6 else "no")


def test_costs_of_chains(tmp_path, monkeypatch):
    from benchmarks.cost import chains
    from benchmarks.shared.experiment import Experiment

    # Microseconds a step of one chain, that of 64 too high in the third call.
    shares = iter([0.25, 0.5, 1.2])

    def known(methods, steps, rounds):
        assert (steps, rounds) == (256_000, 9)
        share = next(shares)
        return {name: np.full(9, 2.0 if name == "1" else share) for name in methods}

    monkeypatch.setattr(chains, "step_costs", known)
    table = cells(chains.main(Experiment(tmp_path)))
    assert len(table) == 1 + 15 + 1 + 3
    assert table[4] == ["32", "64", "16.0", "0.25", "8.0"]
    assert table[10] == ["128", "256", "128.0", "0.50", "64.0"]
    assert table[-3:] == [["32", "8.0", "yes"], ["128", "16.0", "yes"], ["512", "38.4", "no"]]


def test_numpy_rule(tmp_path):
    pytest.importorskip("autograd")
    table = quick_form("numpy_rule", tmp_path)
    assert [len(line) for line in table] == [3, 3, 3, 3]
    assert float(table[1][1]) > float(table[3][1])
    assert table[3][2] == "1"


def test_costs_of_the_rule(tmp_path, monkeypatch):
    pytest.importorskip("autograd")
    from benchmarks.cost import numpy_rule
    from benchmarks.shared.experiment import Experiment

    # For each step of the rule 100 of ours, in microseconds.
    known = [300.0, 60.0, 200.0, 1000.0]
    monkeypatch.setattr(
        numpy_rule,
        "step_costs",
        lambda methods, steps, rounds: {
            n: np.full(9, us) for n, us in zip(methods, known, strict=True)
        },
    )
    text = numpy_rule.main(Experiment(tmp_path))
    assert [line[1:] for line in cells(text)[1:]] == [
        ["300", "150", "30"],
        ["60", "30", "6"],
        ["2", "1", "0.2"],
        ["10", "5", "1"],
    ]
    assert "it is 150, not reached." in text


def test_compiling(tmp_path):
    table = quick_form("compiling", tmp_path)
    assert len(table) == 4
    for _, total, compiling, rest in table[1:]:
        assert float(total) >= float(compiling) > 0
        assert abs(float(total) - float(compiling) - float(rest)) < 0.02


def test_memory(tmp_path, monkeypatch):
    from benchmarks.shared.processes import peak_bytes

    monkeypatch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
    # More than the other process has, which must not take this one's peak for its own.
    np.ones(2**25)
    line = quick_form("memory", tmp_path)[1]
    theta, bins, chains, draws, of_draw, of_state, kept, before, growth = line
    assert [theta, bins, chains, draws] == ["yes", "32", "16", "100"]
    # Fifteen numbers and log theta.
    assert int(of_draw) == 15 * 4 + 32 * 4
    # Log theta, its mean, the visits of its bins, and the rest of the chain.
    assert 3 * 32 * 4 < int(of_state) < 3 * 32 * 4 + 256
    assert float(kept) == round(16 * (100 * int(of_draw) + int(of_state)) / 2**20, 1)
    assert 0 < float(before) < 0.9 * peak_bytes() / 2**20
    assert float(growth) > 0


def test_memory_of_every_setting(tmp_path, monkeypatch):
    from benchmarks.cost import memory
    from benchmarks.shared.experiment import Experiment

    seen = []

    def known(*setting):
        seen.append(setting)
        draws, _, chains, _ = setting
        mib = 2**20
        return {
            "draws": 7 * draws * chains, "state": 9 * chains, "before": 2 * mib, "peak": 5 * mib
        }  # fmt: skip

    monkeypatch.setattr(memory, "alone", lambda _, *setting: known(*setting))
    table = cells(memory.main(Experiment(tmp_path)))
    assert len(seen) == len(set(seen)) == 24
    assert table[1] == ["yes", "32", "1", "1,000", "7", "9", "0.0", "2", "3"]
    assert table[-1] == ["no", "512", "16", "10,000", "7", "9", "1.1", "2", "3"]


def test_sent_bytes():
    from benchmarks.cost.devices import sent_bytes

    text = """
      %a.1 = f32[3,5]{1,0} all-reduce(%x), channel_id=1
      %b = (s32[2]{0}, f64[]) all-gather-start(%y, %z), channel_id=2
      %c = f32[1000]{0} add(%all-reduce.1, %u)
    """
    assert sent_bytes(text) == 15 * 4 + 2 * 4 + 8


def test_devices(tmp_path, monkeypatch):
    monkeypatch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
    table = quick_form("devices", tmp_path)
    one, *others = table[1:]
    assert one[2:5] == ["0", "0", "0"]
    assert [line[1] for line in others] == ["2 x 2", "2 x 2, two processes"]
    for _, _, draws, weights, sent, microseconds in others:
        assert float(draws) == 0
        assert float(weights) < 1e-5
        # Two chains on a device, 20 rows of two columns and one answer.
        assert int(sent) == 2 * 20 * 3 * 4
        assert float(microseconds.replace(",", "")) > 0


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_after_run(tmp_path, monkeypatch):
    monkeypatch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
    table = quick_form("after_run", tmp_path)
    assert len({line[1] for line in table[1:]}) == len(table) - 1 == 7
    arvizs = float(table[1][2])
    for _, _, seconds, times, _, _, of_draws in table[1:]:
        assert float(times) == pytest.approx(float(seconds) / arvizs, rel=0.5, abs=0.1)
        assert float(of_draws) > 0
