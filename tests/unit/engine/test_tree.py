import numpy as np

from harness.engine.tree import prefix_keys, uniforms

KEYS = prefix_keys(np.arange(200 * 3).reshape(200, 3))


def _chi_square_z(counts: np.ndarray) -> float:
    """Standard deviations by which Pearson's statistic exceeds its mean, for equally likely cells."""
    expected, freedom = counts.sum() / counts.size, counts.size - 1
    return float((((counts - expected) ** 2 / expected).sum() - freedom) / np.sqrt(2 * freedom))


def test_uniforms_fill_the_unit_interval_evenly():
    values = uniforms(5, KEYS[:, None, None], np.arange(50)[:, None], np.arange(50))
    assert values.shape == (200, 50, 50) and values.dtype == np.float64
    assert values.min() >= 0 and values.max() < 1
    assert abs(_chi_square_z(np.histogram(values, 1000, (0, 1))[0])) < 5


def test_neighbours_in_every_argument_are_independent():
    values = uniforms(0, KEYS[:, None, None], np.arange(50)[:, None], np.arange(50))
    other_seed = uniforms(1, KEYS[:, None, None], np.arange(50)[:, None], np.arange(50))
    pairs = [
        (values[1:], values[:-1]),
        (values[:, 1:], values[:, :-1]),
        (values[:, :, 1:], values[:, :, :-1]),
        (values, other_seed),
        (values, values.transpose(0, 2, 1)[..., ::-1]),
    ]
    for first, second in pairs:
        joint = np.histogram2d(first.ravel(), second.ravel(), 20, ((0, 1), (0, 1)))[0]
        assert abs(_chi_square_z(joint)) < 5
        assert abs(np.corrcoef(first.ravel(), second.ravel())[0, 1]) < 0.01


def test_known_values_never_change():
    # A different generator would silently change the draws of a resumed run.
    keys = prefix_keys(np.array([[1, 2, 3], [4, 5, 6]]))
    assert keys.tolist() == KNOWN_KEYS
    assert uniforms(42, keys, np.array([0, 7]), 3).tolist() == KNOWN_UNIFORMS


def test_keys_depend_on_tokens_and_order_but_not_on_dtype():
    tokens = np.random.default_rng(0).integers(0, 5, (2000, 9))
    keys = prefix_keys(tokens)
    for dtype in (np.uint16, np.int32, np.uint32, np.int64):
        assert (prefix_keys(tokens.astype(dtype)) == keys).all()
    assert len(np.unique(keys)) == len(np.unique(tokens, axis=0))
    assert prefix_keys(np.array([[1, 2]])) != prefix_keys(np.array([[2, 1]]))
    assert prefix_keys(np.array([[1]])) != prefix_keys(np.array([[0, 1]]))
    assert prefix_keys(np.array([[0]])) != prefix_keys(np.array([[0, 0]]))


KNOWN_KEYS = [15020427595393229491, 7360738368462766452]
KNOWN_UNIFORMS = [0.8811748403455005, 0.7165527364382499]
