"""Arrays that stay on disk: their rows, how a model reads them, and what is refused."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

from numpyro_contour import SGLD, on_disk
from numpyro_contour.energies.clusters import clusters_of
from numpyro_contour.models.disk import on_disk as arguments
from numpyro_contour.models.disk.on_disk import with_stored
from numpyro_contour.models.disk.read_ahead import ReadAhead
from numpyro_contour.models.disk.sources import Beside, Joined, Mapped
from numpyro_contour.models.disk.stored_array import StoredArray
from numpyro_contour.models.handlers import subsample_rows
from numpyro_contour.models.model_potential import ModelPotential
from numpyro_contour.models.same_data import checksum

N = 200
X = np.random.default_rng(0).standard_normal((N, 3))
X32 = X.astype(np.float32)


class Dataset:
    """What this package asks of a Hugging Face data set."""

    column_names = ("x", "y")

    def __init__(self, columns=column_names):
        self.columns = columns

    def __len__(self):
        return N

    def with_format(self, kind, columns):
        assert kind == "numpy"
        return Dataset(columns)

    def __getitem__(self, rows):
        assert isinstance(rows, list)
        held = {"x": X32, "y": X32[:, 0]}
        return {name: held[name][rows] for name in self.columns}


def of_memmap(folder):
    np.save(folder / "x.npy", X)
    return np.load(folder / "x.npy", mmap_mode="r")


def of_zarr(folder):
    zarr = pytest.importorskip("zarr")
    array = zarr.create_array(str(folder / "x.zarr"), shape=X.shape, chunks=(7, 2), dtype=X.dtype)
    array[:] = X
    return array


def of_arrow(folder):
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"a": X[:, 0], "b": X32[:, 1], "c": X[:, 2]})
    path = folder / "x.arrow"
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=33)
    return path


def of_parquet(folder):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    table = pa.table({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2]})
    pq.write_table(table, folder / "x.parquet", row_group_size=33)
    return folder / "x.parquet"


@pytest.mark.parametrize("made", [of_memmap, of_zarr, of_arrow, of_parquet])
def test_rows_of_every_source(made, tmp_path):
    array = on_disk(made(tmp_path))
    assert array.shape == X.shape
    assert len(array) == N
    for numbers in ([5], [3, 3, 199, 0, 40], range(20, 60), [[1, 2], [150, 2]], [-1, 500, 7]):
        places = np.clip(np.where(np.array(numbers) < 0, N - 1, numbers), 0, N - 1)
        np.testing.assert_array_equal(array.rows(np.array(numbers)), X32[places])
    np.testing.assert_array_equal(array[10:50:7, 1], X32[10:50:7, 1])
    np.testing.assert_array_equal(array[4], X32[4])


def test_rows_of_batches_and_columns():
    batches = Joined([X[:70], X[70:71], X[71:]])
    numbers = np.array([199, 70, 3, 70, 71, 0, 69])
    np.testing.assert_array_equal(batches.read(numbers), X[numbers])
    matrix = Beside([Mapped(X32[:, 0]), batches])
    np.testing.assert_array_equal(matrix.read(numbers), np.column_stack([X32[:, 0], X])[numbers])


def test_columns_of_a_data_set_and_of_a_table(tmp_path):
    columns = on_disk(Dataset(), ["y", "x"])
    np.testing.assert_array_equal(columns[:], np.column_stack([X32[:, 0], X32]))
    np.testing.assert_array_equal(on_disk(Dataset(), "y")[3:9], X32[3:9, 0])
    path = of_arrow(tmp_path)
    np.testing.assert_array_equal(on_disk(path, "b")[:], X32[:, 1])
    np.testing.assert_array_equal(on_disk(path, ["c", "a"])[:], X32[:, [2, 0]])


class Counting(StoredArray):
    """Counts the calls of the host."""

    def __init__(self, array=X32):
        super().__init__(on_disk(array)._source, array)
        self.calls = []

    def rows(self, indices):
        self.calls.append(np.shape(indices))
        return super().rows(indices)


def test_one_call_reads_the_rows_of_all_chains():
    array = Counting()
    idx = jnp.arange(12).reshape(3, 4) * 5
    found = jax.jit(jax.vmap(lambda i: array[i]))(idx)
    np.testing.assert_array_equal(found, X32[np.asarray(idx)])
    assert array.calls == [(3, 4)]


def test_what_is_chosen_from_the_rows():
    array, idx = on_disk(X32), jnp.array([4, 4, 100])
    cols = jnp.array([2, 0, 1])
    np.testing.assert_array_equal(jax.jit(lambda i: array[i, 1])(idx), X32[[4, 4, 100], 1])
    np.testing.assert_array_equal(array[idx, cols], X32[[4, 4, 100], [2, 0, 1]])
    np.testing.assert_array_equal(array[idx, :2], X32[[4, 4, 100], :2])


def by_index(x, y):
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    with numpyro.plate("rows", len(y), subsample_size=10) as idx:
        numpyro.sample("y", dist.Normal(slope * x[idx, 1], 1), obs=y[idx])


def by_subsample(x, y):
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    with numpyro.plate("rows", len(y), subsample_size=10):
        rows = numpyro.subsample(x, event_dim=1)
        numpyro.sample("y", dist.Normal(slope * rows[:, 1], 1), obs=numpyro.subsample(y, 0))


def of_two_plates(x, y):
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    columns = numpyro.plate("columns", 3, subsample_size=2, dim=-1)
    with columns, numpyro.plate("rows", len(y), subsample_size=10, dim=-2):
        numpyro.sample("x", dist.Normal(slope, 1), obs=numpyro.subsample(x, event_dim=0))


@pytest.mark.parametrize("model", [by_index, by_subsample, of_two_plates])
def test_energies_are_those_of_the_array_in_memory(model):
    energies = []
    for data in ((X32, X32[:, 0]), (on_disk(X32), on_disk(X32[:, 0].copy()))):
        potential = ModelPotential.of(model, data)
        drawn = jax.jit(potential.minibatch)(jax.random.key(0), {"slope": jnp.array(0.3)})
        energies.append((drawn, jax.jit(potential.full)({"slope": jnp.array(0.3)})))
    # Summed by other programs: a last bit of float32 may differ.
    np.testing.assert_allclose(*energies, rtol=1e-6)


# --------------------------------------------------------------------------- rows read before


def test_a_model_takes_the_rows_that_were_read_before():
    x, y = Counting(), Counting(X32[:, 0].copy())
    indices = {"rows": jnp.arange(10)}
    held = [("rows", x, jnp.ones((10, 3))), ("rows", y, jnp.full((10,), 7.0))]
    model = numpyro.handlers.seed(subsample_rows(by_index, indices, held), 0)
    site = numpyro.handlers.trace(model).get_trace(x, y)["y"]
    assert (site["value"] == 7.0).all()
    assert not x.calls + y.calls


def test_rows_at_other_places_are_read():
    x, indices = Counting(), {"rows": jnp.arange(10)}

    def model(x):
        with numpyro.plate("rows", N, subsample_size=10) as idx:
            return x[idx + 1]

    found = subsample_rows(model, indices, [("rows", x, jnp.ones((10, 3)))])(x)
    np.testing.assert_array_equal(found, X32[1:11])


def test_rows_read_ahead_are_those_that_are_asked_for():
    array = Counting()
    reader = ReadAhead([array, array], [0, 0])
    for now, then in (([1, 2], [3, 4]), ([3, 4], [5, 6]), ([9, 9], [1, 1]), ([5, 6], [])):
        found = reader([now], [then] if then else [])
        np.testing.assert_array_equal(found[0], X32[now])
        np.testing.assert_array_equal(found[1], X32[now])
    assert reader.hits == 2


def test_the_arrays_that_follow_a_plate_are_found():
    x, y = on_disk(X32), on_disk(X32[:, 0].copy())
    assert set(ModelPotential.of(by_index, (x, y)).reads) == {("rows", x), ("rows", y)}
    assert set(ModelPotential.of(by_subsample, (x, y)).reads) == {("rows", x), ("rows", y)}
    assert ModelPotential.of(by_index, (X32, X32[:, 0])).reads == ()


# --------------------------------------------------------------------------- which arrays


@pytest.mark.parametrize("made", [of_memmap, of_zarr])
def test_arguments_stay_on_disk_if_they_are_large(made, tmp_path, monkeypatch):
    array = made(tmp_path)
    args, kwargs = with_stored(((array, 3), {"x": X}))
    np.testing.assert_array_equal(args[0], X)
    assert not isinstance(args[0], StoredArray)
    monkeypatch.setattr(arguments, "IN_MEMORY", 100)
    args, kwargs = with_stored(((array, 3), {"x": X}))
    assert isinstance(args[0], StoredArray)
    assert args[1:] == (3,)
    assert kwargs["x"] is X
    assert with_stored(args)[0] is args[0]
    # The same data, wrapped anew, so that nothing is compiled for them twice.
    assert with_stored((array,))[0] == args[0]


def test_copies_that_numpy_calls_memmap_lie_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(arguments, "IN_MEMORY", 100)
    assert type(with_stored(of_memmap(tmp_path).copy())) is np.ndarray


def test_other_data_are_told_by_some_of_their_rows():
    data, other = np.zeros((5000, 2), np.float32), np.zeros((5000, 2), np.float32)
    other[3::5] = 1
    sums = [checksum((on_disk(x),), {}) for x in (data, data.copy(), other)]
    assert sums[0] == sums[1] != sums[2]


def test_clusters_of_rows_are_not_looked_for():
    data = on_disk(X32), on_disk(X32[:, 0].copy())
    assert "stay on disk" in clusters_of(ModelPotential.of(by_index, data))


# --------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("source", "columns", "message"),
    [
        (np.array(3.0), None, r"`source` takes rows along the first axis, but its shape is \(\)"),
        (np.zeros((0, 3)), None, "takes rows along the first axis"),
        (np.array([{}, {}]), None, "`source` takes numbers, but it is of object"),
        (np.array(["a", "b"]), None, "`source` takes numbers, but it is of <U1"),
        (Dataset(), "z", "`columns` takes names among 'x', 'y', but got 'z'"),
        ("data.csv", None, "`source` takes a file .npy, .arrow, .feather or .parquet"),
        (7, None, "`source` takes an array with rows.* but got int"),
    ],
)
def test_unusable_sources_are_named(source, columns, message):
    with pytest.raises(ValueError, match=message):
        on_disk(source, columns)


def test_unusable_columns_of_arrow_and_parquet_are_named(tmp_path):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    table = pa.table({"a": [1.0, None], "b": ["u", "v"], "c": [1, 2]})
    with pytest.raises(ValueError, match=r"The column 'a' of `source` .* 1 of its rows are null"):
        on_disk(table, "a")
    with pytest.raises(ValueError, match=r"The column 'b' of `source` .* type string"):
        on_disk(table, "b")
    pq.write_table(table, tmp_path / "x.parquet")
    with pytest.raises(ValueError, match="1 rows of 'a' are null"):
        on_disk(tmp_path / "x.parquet", ["c", "a"])
    with pytest.raises(ValueError, match=r"columns of numbers, but got {'b': string}"):
        on_disk(tmp_path / "x.parquet", "b")
    with pytest.raises(ValueError, match="names among 'a', 'b', 'c', but got 'd'"):
        on_disk(tmp_path / "x.parquet", "d")


def test_an_unusable_argument_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(arguments, "IN_MEMORY", 100)
    words = np.memmap(tmp_path / "words", "U10", "w+", shape=(100,))
    with pytest.raises(ValueError, match=r"The argument \[0\]\[1\] of the model takes numbers"):
        with_stored(((X, words), {}))


@pytest.mark.parametrize(
    "use", [jnp.asarray, np.sum, lambda x: jnp.ones(3) @ x, lambda x: x[..., 0]]
)
def test_an_array_on_disk_is_read_by_rows_only(use):
    with pytest.raises((TypeError, IndexError), match="stays on disk"):
        use(on_disk(X32))


@pytest.mark.parametrize("model", [by_index, by_subsample])
def test_a_plate_with_more_rows_than_an_array_on_disk_is_refused(model):
    x, y = on_disk(X32[:100]), X32[:, 0].copy()
    with pytest.raises(ValueError, match=r"plate 'rows' .*200.*(`x` has 100|\(100, 3\))"):
        SGLD(model, step_size=0.01).init(jax.random.key(0), 0, None, (x, y), {})


def test_a_plate_with_fewer_rows_than_an_array_on_disk_is_named():
    x, y = on_disk(X32), X32[:100, 0].copy()
    with pytest.warns(UserWarning, match="`x`, which it indexes, has 200: the last 100"):
        SGLD(by_index, step_size=0.01).init(jax.random.key(0), 0, None, (x, y), {})


def test_a_large_array_is_not_read_whole_in_each_step(monkeypatch):
    def whole(y):
        mean = numpyro.sample("mean", dist.Normal(0, 1))
        with numpyro.plate("rows", len(y)) as idx:
            numpyro.sample("y", dist.Normal(mean, 1), obs=y[idx])

    import numpyro_contour.models.rows_ahead as rows_ahead

    monkeypatch.setattr(rows_ahead, "IN_MEMORY", 100)
    y = on_disk(X32[:, 0].copy())
    with pytest.raises(ValueError, match=r"reads 200 rows at once .* give `minibatch_size`"):
        SGLD(whole, step_size=0.01).init(jax.random.key(0), 0, None, (y,), {})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SGLD(whole, step_size=0.01, minibatch_size=5).init(jax.random.key(0), 0, None, (y,), {})
