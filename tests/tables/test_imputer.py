"""An estimator that scikit-learn's pipelines and other threads can use."""

import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

from glaim_stream import Imputer
from glaim_stream.core.errors import ModelError


def table(rows: int = 200, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    values = np.sin(np.arange(rows) / 5)[:, None] * [1.0, 2.0, 3.0] + rng.normal(size=(rows, 3)) / 9
    values[rng.random(values.shape) < 0.1] = np.nan
    return pd.DataFrame(values, columns=["a", "b", "c"], index=pd.date_range("2024", periods=rows, freq="h"))


@pytest.fixture(scope="module")
def fitted() -> Imputer:
    return Imputer().fit(table())


def test_check_estimator_passes():
    results = check_estimator(Imputer(), on_fail=None)
    assert len(results) > 40
    assert [each["check_name"] for each in results if each["status"] == "failed"] == []


def test_parameters_are_kept_by_clone_and_changed_by_set_params():
    imputer = Imputer(max_gap=5, columns=["a"])
    copy = clone(imputer).set_params(max_gap=7)
    assert copy.get_params() == imputer.get_params() | {"max_gap": 7}
    assert not hasattr(copy, "n_features_in_")


def test_answers_have_the_same_bits_from_threads_pickles_and_files(fitted, tmp_path):
    other = table(seed=1)
    expected = fitted.transform(other)
    fitted.save(tmp_path / "imputer.npz")
    copies = [pickle.loads(pickle.dumps(fitted)), Imputer.load(tmp_path / "imputer.npz")]
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda each: each.transform(other), [fitted, fitted, *copies]))
    for answer in answers:
        pd.testing.assert_frame_equal(answer, expected, check_exact=True)
    assert copies[1].expected_error_ == fitted.expected_error_
    assert copies[1].get_params() == fitted.get_params()


def test_names_decide_and_not_positions(fitted):
    other = table(seed=1)
    turned = fitted.transform(other[["c", "a", "b"]])
    pd.testing.assert_frame_equal(turned[["a", "b", "c"]], fitted.transform(other), check_exact=True)
    with pytest.raises(ValueError, match="found none named b"):
        fitted.transform(other[["a", "c"]])
    with pytest.raises(ValueError, match="d: columns with holes that the fit has not seen"):
        fitted.transform(other.assign(d=other["a"]))
    with pytest.raises(ValueError, match="in both the fit and the table"):
        fitted.transform(other.reset_index(drop=True))


def test_three_rows_are_filled_by_the_step_of_the_fit(fitted):
    rows = table().iloc[:3].copy()
    rows.iloc[1] = [np.nan, 0.4, np.nan]
    out = fitted.transform(rows)
    assert not out.isna().any(axis=None)
    shuffled = fitted.transform(rows.iloc[[2, 0, 1]])
    pd.testing.assert_frame_equal(shuffled.sort_index(), out, check_exact=True, check_freq=False)
    blank = table(seed=1)
    blank.iloc[1::2] = np.nan
    every_second = fitted.transform(blank.iloc[::2])
    assert blank.iloc[::2].isna().any(axis=None)
    pd.testing.assert_frame_equal(every_second, fitted.transform(blank).iloc[::2], check_freq=False)


def test_a_second_fit_forgets_the_first():
    imputer = Imputer().fit(table())
    imputer.fit(table().to_numpy()[:, :2])
    assert imputer.n_features_in_ == 2
    assert not hasattr(imputer, "feature_names_in_")
    assert set(imputer.expected_error_) == {"x0", "x1"}


def test_a_pipeline_is_validated_on_shuffled_rows():
    rows = table()
    target = np.sin(np.arange(len(rows)) / 5)
    pipeline = make_pipeline(Imputer(), Ridge())
    scores = cross_val_score(pipeline, rows, target, cv=KFold(3, shuffle=True, random_state=0))
    assert scores.min() > 0.9


def test_set_output_and_names_of_the_columns(fitted):
    values = table().to_numpy()
    out = Imputer().set_output(transform="pandas").fit_transform(values)
    assert list(out.columns) == ["x0", "x1", "x2"]
    assert Imputer().set_output(transform="polars").fit_transform(table()).columns == ["a", "b", "c"]
    assert fitted.get_feature_names_out().tolist() == ["a", "b", "c"]


def test_bands_hold_the_filled_values(fitted):
    rows = table(seed=1)
    out, bands = fitted.transform(rows), fitted.bands(rows)
    for name, band in bands.items():
        assert (band.lower <= out[name]).all()
        assert (out[name] <= band.upper).all()
        hole = rows[name].isna().to_numpy()
        assert (band.upper - band.lower)[hole].min() > 0
        assert np.array_equal(band.method != 0, hole)


def test_an_imputer_without_a_fit_and_a_damaged_file_are_sentences(tmp_path, fitted):
    with pytest.raises(ValueError, match="not fitted yet"):
        Imputer().transform(table())
    fitted.save(tmp_path / "imputer.npz")
    content = bytearray((tmp_path / "imputer.npz").read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "imputer.npz").write_bytes(content)
    for name in ("imputer.npz", "absent.npz"):
        with pytest.raises(ModelError, match=name):
            Imputer.load(tmp_path / name)


def test_it_works_without_scikit_learn():
    code = (
        "import sys; sys.modules['sklearn'] = sys.modules['sklearn.base'] = None\n"
        "import numpy as np\n"
        "from glaim_stream import Imputer\n"
        "rows = np.array([[1.0], [np.nan], [3.0]])\n"
        "imputer = Imputer().set_params(max_gap=3)\n"
        "assert imputer.get_params()['max_gap'] == 3\n"
        "assert imputer.fit_transform(rows).tolist() == [[1.0], [2.0], [3.0]]\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
