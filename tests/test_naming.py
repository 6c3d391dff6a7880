"""MLflow's names: every path has a legal one, and it turns back into the path."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shared import BUGS, needs_shared

from shiyan.naming import LONGEST, is_shortened, legal_name, original_path, uncut_name

TRICKY = st.sampled_from(list("-ux25./ %@()=→:,_诗浣溪沙纱\n")) | st.characters(codec="utf-8")
PATHS = st.lists(st.text(TRICKY, max_size=12), min_size=1, max_size=4).map(tuple)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (("fast_detectgpt", "auroc"), "fast_detectgpt/auroc"),
        (("ci", "浣溪沙", "structure"), "ci/浣溪沙/structure"),
        (("TPR@FPR=1%",), "TPR-u40-FPR-u3d-1-u25-"),
        (("a/b",), "a-u2f-b"),
        (("qwen-ultra",), "qwen-u2d-ultra"),
        (("..", "up"), "-u2e-./up"),
        (("../up",), "-u2e-.-u2f-up"),
        ((".9",), "-u2e-9"),
        (("", ""), "-u-/-u-"),
    ],
)
def test_a_path_has_this_name(path, name):
    assert legal_name(*path) == name
    assert original_path(name) == path


@settings(deadline=None)
@given(PATHS)
def test_every_name_is_legal_and_turns_back(path):
    from mlflow.utils.validation import _validate_metric_name

    name = legal_name(*path)
    _validate_metric_name(name)
    assert len(name) <= LONGEST
    # Escapes may make even these too long; a name that was cut needs its list.
    long_names = {name: uncut_name(*path)} if is_shortened(name) else {}
    assert original_path(name, long_names) == path


@given(PATHS, PATHS)
def test_two_paths_never_share_a_name(a, b):
    assert (legal_name(*a) == legal_name(*b)) == (a == b)


def test_a_name_that_is_too_long_turns_back_by_its_list():
    path = ("ci", "字" * 400, "x")
    name = legal_name(*path)
    assert len(name) <= LONGEST
    assert is_shortened(name)
    assert not is_shortened(legal_name("judge", "mae"))
    assert name != legal_name("ci", "字" * 401, "x")
    assert original_path(name, {name: uncut_name(*path)}) == path
    with pytest.raises(KeyError):
        original_path(name)


@needs_shared
def test_reported_names_stay_apart():
    names = (BUGS / "54-mlflow-names-and-params/names.txt").read_text(encoding="utf-8").splitlines()
    legal = {legal_name(name): name for name in names}
    assert len(legal) == len(names)
    full = {cut: uncut_name(name) for cut, name in legal.items()}
    assert all(original_path(cut, full) == (name,) for cut, name in legal.items())
