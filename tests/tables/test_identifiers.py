"""Identifiers, clinical columns and survival times are recognised; features that only look like them stay features."""

import numpy as np
import pytest
from table_files import has_note

from randsel.tables import _read as tables
from randsel.tables._identifiers import is_clinical
from randsel.tables._remarks import describe_donors
from randsel.tables.formats import is_id_name

N = 12


def table_of(rng, n_features=24, **extra):
    """Return the text of a table of normal numbers sorted by class, with extra columns at the front."""
    X = rng.standard_normal((N, n_features)).round(4)
    header = [*extra, *(f"g{j}" for j in range(n_features)), "status"]
    columns = [[str(cell) for cell in cells] for cells in extra.values()]
    lines = [",".join(header)]
    for i in range(N):
        lines.append(
            ",".join([*(c[i] for c in columns), *map(str, X[i].tolist()), "case" if i < N // 2 else "control"])
        )
    return "\n".join(lines) + "\n"


SHUFFLED = [7, 3, 11, 1, 9, 5, 12, 2, 8, 4, 10, 6]
COUNTS = [5, 2, 9, 9, 4, 1, 7, 7, 3, 8, 6, 6]
RISING = [1001, 1003, 1004, 1008, 1011, 1012, 1020, 1021, 1029, 1030, 1041, 1042]


@pytest.mark.parametrize("log2", [False, True])
@pytest.mark.parametrize(
    ("name", "cells", "reason"),
    [
        ("patient_id", range(1, N + 1), "its name says that it holds ids"),
        ("SampleId", SHUFFLED, "its name says that it holds ids"),
        ("Unnamed: 0", range(N), "its name says that it holds ids"),
        ("Sample No.", [x + 5000 for x in SHUFFLED], "its name says that it holds ids"),
        ("what", SHUFFLED, "is the first and holds a different whole number in every row"),
        ("scan", [0.5 * x for x in range(N)], "changes by 0.5 from row to row, as numbers of rows do"),
        ("backwards", range(2 * N, 0, -2), "changes by 2 from row to row, as numbers of rows do"),
    ],
)
def test_identifiers_are_not_features(file, rng, name, cells, reason, log2):
    path = file(table_of(rng, **{name: cells}))
    table = tables.read(path, target="status", log2=log2)
    assert name not in table.names
    assert len(table.names) == 24
    assert has_note(table, f"Column {name!r}")
    assert has_note(table, reason)
    assert has_note(table, f"--features {name!r}")
    assert table.ids.tolist() == [str(cell) for cell in cells]
    assert tables.read(path, target="status", features=[name]).names[0] == name


def test_ids_keep_leading_zeros(file, rng, engine):
    for cells in ([f"{i:03d}" for i in SHUFFLED], [f"{i}.0" for i in SHUFFLED]):
        for name in ("patient_id", "what"):
            table = tables.read(file(table_of(rng, **{name: cells})), target="status")
            assert table.ids.tolist() == cells
        table = tables.read(file(table_of(rng, dose=rng.standard_normal(N), patient_id=cells)), target="status")
        assert table.ids.tolist() == cells
        assert table.names[:2] == ("dose", "g0")


def test_an_identifier_that_is_not_the_first_column(file, rng):
    path = file(table_of(rng, dose=rng.standard_normal(N), patient_id=SHUFFLED, row=range(100, 100 + N)))
    table = tables.read(path, target="status")
    assert table.names[:2] == ("dose", "g0")
    assert table.ids.tolist() == list(map(str, SHUFFLED))


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("ID1", COUNTS),  # a gene
        ("ID3", [0.5 + x for x in SHUFFLED]),
        ("rs1234", [0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2]),
        ("BID", COUNTS),
        ("NAD", COUNTS),
        ("IDS", COUNTS),  # a gene
        ("age", [31, 45, 52, 60, 38, 41, 70, 66, 29, 55, 47, 63]),  # different in every row, and first
        ("hippuric acid", [x + 0.25 for x in RISING]),  # a measurement by which the table is sorted
    ],
)
def test_features_that_look_like_identifiers_stay(file, rng, name, cells):
    table = tables.read(file(table_of(rng, **{name: cells})), target="status")
    assert table.names[0] == name


def test_counts_that_are_different_in_all_rows_stay(file, rng):
    counts = {f"ENSG{j}": rng.permutation(5000)[:N] for j in range(6)}
    text = table_of(rng, n_features=1, **counts)
    assert tables.read(file(text), target="status").names[:6] == tuple(counts)


def test_few_rows_in_order_stay(file):
    table = tables.read(file("a,b,y\n1,0.5,p\n2,0.25,q\n3,1.5,p\n4,3.5,q\n"), target="y")
    assert table.names == ("a", "b")


def test_whole_numbers_in_the_order_of_rows_are_asked_about(file, rng):
    options = {"target": "status"}
    path = file(table_of(rng, g=rng.standard_normal(N), stamp=RISING))
    with pytest.raises(
        ValueError, match=r"'stamp' rises from row to row, .*--drop-columns 'stamp'.*--features 'stamp'"
    ):
        tables.read(path, **options)
    assert "stamp" in tables.read(path, **options, features=["stamp"]).names
    assert "stamp" not in tables.read(path, **options, drop_columns=["stamp"]).names


def test_many_columns_in_order_are_the_nature_of_the_data(file):
    rows = [",".join(map(str, [i, i * i, i**3, 2 * i, "ab"[i % 2]])) for i in range(1, 10)]
    assert tables.read(file("a,b,c,d,y\n" + "\n".join(rows)), target="y").names == ("a", "b", "c", "d")


@pytest.mark.parametrize("name", ["patient", "donor_id", "SubjectID"])
def test_donors_with_several_samples_are_asked_about(file, rng, name):
    path = file(table_of(rng, **{name: [1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6]}))
    with pytest.raises(
        ValueError, match=f"column '{name}' has the name of an identifier, and 6 values.*--groups '{name}'"
    ):
        tables.read(path, target="status")
    assert tables.read(path, target="status", groups=name).groups.tolist()[:3] == ["1", "1", "2"]
    assert tables.read(path, target="status", features=[name]).names[0] == name
    path = file(table_of(rng, pair=[0.5] * N, **{name: [1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6]}))
    table = tables.read(path, target="status", groups="pair", drop_columns=["g0"])
    assert name not in table.names


def test_donors_in_a_column_without_a_role_are_noted():
    note = "Column 'donor' has 2 values for 3 samples. If samples with the same value belong together, as those of one"
    assert describe_donors({"age": [30, 30, 31], "donor": ["a", "b", "a"]})[0].startswith(note)
    assert not describe_donors({"site": ["a", "b", "a"], "donor": ["a", "b", "c"], "subject": ["a", "a", "a"]})
    assert not describe_donors({"donor": ["a", "b", "", ""]})  # missing names are not the name of a donor


def test_names():
    ids = ["id", "ID", "Id", "sample_id", "SampleId", "PatientID", "patient.no", "Unnamed: 0", "donor", "row names"]
    ids += ["SUBJID", "USUBJID", "IID", "level_0", "id_patient", "Sample IDs"]
    genes = [
        "ID1",
        "ID2",
        "ID3",
        "ID4",
        "ID",
        "BID",
        "HID1",
        "MID1",
        "IDO1",
        "PIDD1",
        "IDH1",
        "NODAL",
        "DONSON",
        "NAME",
    ]
    assert all(map(is_id_name, ids))
    assert [name for name in genes if is_id_name(name)] == ["ID"]
    assert not any(
        map(is_id_name, ["valproic acid", "lipid", "PC(34:1)", "glucose index", "cell number", "1-methylnicotinamide"])
    )
    assert is_clinical("Age")
    assert is_clinical("BMI (kg/m2)")
    assert is_clinical("year of surgery")
    assert not is_clinical("AGER")
    assert not is_clinical("RACE_at")  # a probe set
    assert not is_clinical("3-hydroxy week acid")


def test_clinical_columns_are_named_in_a_note(file, rng):
    ages, bmi = [31, 45, 52, 60, 38, 41, 70, 66, 29, 55, 47, 63], (20 + 5 * rng.random(N)).round(2)
    path = file(
        table_of(rng, n_features=60, g=rng.standard_normal(N), age=ages, bmi=bmi, platelets=[1e5 * a for a in ages])
    )
    table = tables.read(path, target="status")
    assert has_note(table, "3 features are unlike the others in name, scale or kind: age, bmi, platelets")
    assert has_note(table, "--covariates age,bmi,platelets")
    table = tables.read(path, target="status", covariates=["age", "bmi"], features=["platelets"])
    assert not has_note(table, "unlike")
    assert not has_note(tables.read(file(table_of(rng, n_features=60)), target="status"), "unlike")


def test_fractions_among_whole_numbers_are_named_in_a_note(file, rng):
    counts = {f"ENSG{j}": rng.integers(0, 90, N) for j in range(60)}
    path = file(table_of(rng, n_features=1, **counts, blasts=[f"{x}.5%" for x in SHUFFLED]))
    table = tables.read(path, target="status", drop_columns=["g0"])
    assert has_note(table, "1 feature is unlike the others in name, scale or kind: blasts.")


@pytest.mark.parametrize(
    ("target", "other"),
    [
        ("event", "time"),
        ("OS_event", "OS_months"),
        ("status", "time"),
        ("death", "days to death"),
        ("metastasis", "days to metastasis or last visit"),
    ],
)
def test_survival_times_and_events_are_no_features_of_each_other(file, rng, target, other):
    times, events = rng.random(N).round(3) * 100 + 1, [0, 1] * (N // 2)
    rows = [f"{t:.3f},{e},{x:.4f}" for t, e, x in zip(times, events, rng.standard_normal(N), strict=True)]
    path = file(f"{other},{target},g\n" + "\n".join(rows) + "\n")
    message = f"'{target}' and '{other}' look like the event and the time .* --event '{target}' --time '{other}'"
    for named in (target, other):
        if named == other and target == "status":
            continue
        with pytest.raises(ValueError, match=message):
            tables.read(path, target=named)
    assert tables.read(path, target=target, features=[other]).names == (other, "g")
    assert tables.read(path, target=target, drop_columns=[other]).names == ("g",)
    assert tables.read(path, event=target, time=other).names == ("g",)


def test_a_time_whose_event_is_text_is_asked_about(file, rng):
    header = ",".join([*(f"g{j}" for j in range(20)), "OS_STATUS", "OS_MONTHS"])
    rows = [",".join(map(str, [*rng.random(20), "0:LIVING" if i % 2 else "1:DECEASED", i + 0.5])) for i in range(12)]
    path = file("\n".join([header, *rows]) + "\n")
    with pytest.raises(ValueError, match=r"'OS_STATUS' and 'OS_MONTHS' .* --event 'OS_STATUS' --time 'OS_MONTHS'"):
        tables.read(path, target="OS_MONTHS")
    assert len(tables.read(path, event="OS_STATUS", time="OS_MONTHS").names) == 20
    assert len(tables.read(path, target="OS_MONTHS", drop_columns=["OS_STATUS"]).names) == 20
    path = file("\n".join([header.replace("OS_MONTHS", "weight"), *rows]) + "\n")
    assert has_note(tables.read(path, target="weight"), "1 column of text is left out: 'OS_STATUS'.")


def test_the_event_of_a_time_shares_a_word_with_it(file, rng):
    genes = ",".join(f"g{j}" for j in range(20))
    texts = [f"{'Positive' if i % 2 else 'Negative'},{'Dead' if i % 3 else 'Alive'},{i + 1.5}" for i in range(12)]
    rows = [",".join(map(str, [*rng.random(20), text])) for text in texts]
    path = file(f"{genes},ER_STATUS,OS_STATUS,OS_MONTHS\n" + "\n".join(rows) + "\n")
    with pytest.raises(ValueError, match=r"'OS_STATUS' and 'OS_MONTHS' .* --event 'OS_STATUS'"):
        tables.read(path, target="OS_MONTHS")
    path = file(f"{genes},ER_STATUS,PR_STATUS,OS_MONTHS\n" + "\n".join(rows) + "\n")
    with pytest.raises(ValueError, match=r"'ER_STATUS' \(or 'PR_STATUS'\) and 'OS_MONTHS'"):
        tables.read(path, target="OS_MONTHS")


def test_a_time_that_shares_a_word_with_the_target_is_not_a_feature(file, rng):
    rows = [f"{t:.3f},{'yn'[i % 2]},{x:.4f}" for i, (t, x) in enumerate(100 * rng.random((N, 2)))]
    path = file("days to transplantation,transplantation,g\n" + "\n".join(rows) + "\n")
    with pytest.raises(ValueError, match="'transplantation' and 'days to transplantation' look like the event"):
        tables.read(path, target="transplantation")


def test_other_times_are_features(file, rng):
    rows = [f"{t},{x:.4f},{'ab'[i % 2]}" for i, (t, x) in enumerate(zip(SHUFFLED, rng.standard_normal(N), strict=True))]
    table = tables.read(file("g,time,kind\n" + "\n".join(row for row in rows)), target="kind", features=["g"])
    assert table.names == ("g", "time")


def test_skewed_features(file, rng):
    raw = {f"p{j}": np.exp(2 * rng.standard_normal(N)).round(3) for j in range(40)}
    path = file(table_of(rng, n_features=1, **raw))
    note = "% of the features are strongly skewed, as raw intensities and counts are. randSel uses the ranks"
    assert has_note(tables.read(path, target="status", drop_columns=["g0"]), note)
    assert not has_note(tables.read(path, target="status", drop_columns=["g0"], log2=True), note)
    assert not has_note(tables.read(file(table_of(rng, n_features=40)), target="status"), note)


def test_names_that_excel_changed(file, rng):
    names = ["1-Mar", "2-Sep", "Sep-02", "2021-03-01", "39873", "2.31E+13", "1. Mrz"]
    table = tables.read(file(table_of(rng, **{name: rng.standard_normal(N) for name in names})), target="status")
    assert has_note(
        table, "7 names of features look like genes that Excel changed to dates or numbers: 1-Mar, 2-Sep, Sep-02,"
    )
    assert has_note(table, "… (39873 is the number of the day 1-Mar). Excel turns MARCHF1 into 1-Mar")
    table = tables.read(file(table_of(rng, **{"39873": rng.standard_normal(N)})), target="status")
    assert has_note(table, "numbers: 39873 (39873 is the number of the day 1-Mar).")
    others = ["39873.1", "SEPT2", "MARCH1", "X - 12063", "1-methylurea", "10-Sept-like", "123"]
    table = tables.read(file(table_of(rng, **{name: rng.standard_normal(N) for name in others})), target="status")
    assert not has_note(table, "Excel")
    probes = {str(39000 + 3 * j): rng.standard_normal(N) for j in range(30)}
    assert not has_note(tables.read(file(table_of(rng, n_features=1, **probes)), target="status"), "Excel")


@pytest.mark.parametrize(("name", "ids"), [("Patient", ["12", "5", "7"]), ("age", None)])
def test_some_features_of_a_table_come_with_the_ids_of_its_samples(tmp_path, name, ids):
    path = tmp_path / "new.csv"
    path.write_text(f"gene1,{name},gene2\n0.5,12,1.5\n0.7,5,2.5\n0.1,7,0.5\n")
    table = tables.read(path, only=["gene1", "gene2"])
    assert list(table.names) == ["gene1", "gene2"]
    assert (None if table.ids is None else table.ids.tolist()) == ids
