"""Scores, schedules and resumed runs of the networks on images."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.networks import table2
from benchmarks.networks.methods import Length
from benchmarks.networks.resnet import Conv, ResNet
from benchmarks.networks.runs import prepared, run
from benchmarks.networks.scores import agreement, entropy, scores


def test_scores_of_known_probabilities():
    p = np.array([[0.9, 0.1], [0.9, 0.1], [0.3, 0.7], [0.5, 0.5]])
    found = scores(p, np.array([0, 1, 1, 0]))
    assert found.accuracy == 0.75
    assert found.log_likelihood == pytest.approx(np.log([0.9, 0.1, 0.7, 0.5]).mean())
    # Bins: twice 0.9 with half right, 0.7 right, 0.5 right.
    assert found.calibration_error == pytest.approx((2 * 0.4 + 0.3 + 0.5) / 4)
    assert found.entropy == pytest.approx(entropy(p).mean())
    assert entropy(np.full((1, 4), 0.25)) == pytest.approx(np.log(4))
    assert agreement(p, p[::-1]) == (0.5, pytest.approx(0.5))


def test_annealing_is_that_of_the_paper():
    at = Length(50_000, 1000, 1000).annealed(2e-6)
    assert float(at(0)) == float(at(400 * 50)) == pytest.approx(2e-6)
    assert float(at(500 * 50)) == pytest.approx(2e-6 / 1.01**100, rel=1e-4)
    short = Length(1000, 100, 10).annealed(1.0)
    assert float(short(100)) == pytest.approx(1.01**-600, rel=1e-4)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("side", [7, 8])
def test_convolutions_are_those_of_xla(stride, side):
    x = jax.random.normal(jax.random.key(0), (2, side, side, 3))
    conv = Conv(5, stride)
    variables = conv.init(jax.random.key(1), x)
    layout, kernel = ("NHWC", "HWIO", "NHWC"), variables["params"]["kernel"]
    expected = jax.lax.conv_general_dilated(x, kernel, (stride, stride), "SAME", None, None, layout)
    np.testing.assert_allclose(conv.apply(variables, x), expected, atol=1e-5)


def test_resnet_20_is_that_of_the_paper():
    """0.27 million parameters (He et al., 2016, table 6), and as many layers as are said."""
    shapes = jax.eval_shape(lambda: ResNet().init(jax.random.key(0), jnp.zeros((1, 32, 32, 3))))[
        "params"
    ]
    sizes = [np.prod(leaf.shape) for leaf in jax.tree.leaves(shapes)]
    assert round(sum(sizes) / 1e6, 2) == 0.27
    kernels = [leaf for leaf in jax.tree.leaves(shapes) if len(leaf.shape) in (2, 4)]
    assert len(kernels) == 20


@pytest.mark.long
def test_a_finished_run_is_read_and_not_made_again(tmp_path, monkeypatch):
    size = table2.QUICK
    data = prepared(table2.images_like(size.subset, size.test), size, {})
    first, probabilities = run(tmp_path, "saM-SGD", 0, size, data)
    assert set(first.others) == {"rotated", "noise"}
    np.testing.assert_allclose(probabilities.sum(-1), 1, atol=1e-6)
    monkeypatch.setattr("benchmarks.networks.runs._run", None)
    again, same = run(tmp_path, "saM-SGD", 0, size, data)
    assert again == first
    np.testing.assert_array_equal(same, probabilities)
    with pytest.raises(ValueError, match=r"'epochs': 2\}, but this one has \{'epochs': 3\}"):
        run(tmp_path, "saM-SGD", 0, replace(size, epochs=3), data)
    assert not list(tmp_path.glob("*.part"))
