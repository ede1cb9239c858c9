"""Specifications of comparisons: what they may say, and what is refused."""

from pathlib import Path

import pytest
from comparisons import small_spec

from randsel.experiments import _specification
from randsel.experiments._specification import Spec


def test_a_specification_restricted_to_some_methods():
    spec = small_spec()
    assert [m["name"] for m in spec.only([spec.methods[-1]["name"]]).methods] == [spec.methods[-1]["name"]]
    assert spec.only([]) == spec
    with pytest.raises(ValueError, match="did you mean 'randSel'"):
        spec.only(["randsell"])
    with pytest.raises(ValueError, match="does not run 'RFE'"):
        spec.only(["RFE"])


def test_specifications_that_cannot_be_run(tmp_path):
    with pytest.raises(ValueError, match="a method is named twice"):
        small_spec(methods=({"name": "randSel"}, {"name": "randSel"}))
    with pytest.raises(ValueError, match="unknown method 'randsel', did you mean 'randSel'"):
        small_spec(methods=({"name": "randsel"},))
    path = tmp_path / "spec.toml"
    path.write_text('name = "x"\nfold = 3\n')
    with pytest.raises(ValueError, match="unknown entry 'fold'"):
        Spec.load(path)
    path.write_text('name = "x"\ntask = "clustering"\ndata = []\nmethods = []\n')
    with pytest.raises(ValueError, match="'task' is not as it must be: 'clustering'"):
        Spec.load(path)


@pytest.mark.parametrize("name", ["table1", "table2"])
def test_specifications_of_the_paper_can_be_read(name):
    spec = Spec.load(Path(_specification.__file__).parent / f"{name}.toml")
    assert spec.folds == 10
    assert spec.reshuffles == 3
    assert len(spec.data) >= 3
