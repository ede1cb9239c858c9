"""`randsel interactions`: tests of all features and pairs of a table."""

# ruff: noqa: PLC0415 (slow imports are inside the commands, so that help and usage errors appear at once)
import shutil
import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from randsel._utils.text import ProgressLine, as_csv, as_markdown, collect_warnings, format_exact, make_printable
from randsel.cli._main import NOTHING, RATE, main, read_table, say, table_options, task_option, write_command

if TYPE_CHECKING:
    from randsel.tables import Table


@main.command()
@table_options
@click.option("--out", required=True, type=click.Path(file_okay=False, path_type=Path), help="Result folder.")
@click.option("--top", "n_features_to_select", type=click.IntRange(1), help="Select this many features.")
@click.option(
    "--fdr",
    "alpha",
    type=RATE,
    help="Select features with a q-value (false discovery rate) of at most this, such as 0.1.",
)
@task_option
@click.option(
    "--pairs",
    "n_pairs",
    type=click.IntRange(1),
    help="Number of pairs to write; 1000, or all if there are fewer, by default.",
)
@click.option(
    "--order",
    default=2,
    type=click.IntRange(1, 3),
    help="Test sets of up to this many features: 2 for pairs, 3 for triples too.",
)
@click.option("--with-covariates", is_flag=True, help="Also test every feature together with every covariate.")
@click.option("--jobs", "n_jobs", type=int, help="Number of threads.")
def interactions(file: Path, reading: dict[str, Any], out: Path, task: str, **how: Any) -> None:
    """Test every feature alone, and in pairs with every other feature.

    FILE is a table in any format of docs/reference/formats.md. Samples are compared within batches only; with
    --groups, between groups or within them, as the target allows. Missing values are neutral; --missing median takes
    medians of all samples. The folder gets report.html, features.csv (best first: p- and q-values, partner) and
    pairs.csv, and heatmap.png and pairs.png if any pair holds after correction for all pairs; --with-covariates adds
    covariate-pairs.csv. Without --top and --fdr, features with a q-value of at most 0.05 are selected. Run the command
    again to resume after an interruption. The exit status is 3 if no q-value is at most 0.05
    (or the level of --fdr) and no pair holds.

    \b
    Examples:
      randsel interactions expression.csv --target status --out results
      randsel interactions genes.tsv.gz --target-file samples.csv --target status --batch study --out results
      randsel interactions snps.bed --top 20 --out results
    """
    import numpy as np

    from randsel import InteractionScan
    from randsel._utils import files
    from randsel.analysis import check_pairs
    from randsel.interactions import LEVEL
    from randsel.report import MEANING_OF_Q, say_whether_pairs_hold, significant_pairs
    from randsel.tables import imputer
    from randsel.targets import find_kind

    if how["with_covariates"] and not reading["covariates"]:
        raise click.UsageError("--with-covariates needs --covariates.")
    _check_folder(out)
    table = read_table(file, reading, task)
    if table.missing == "median" and np.isnan(table.X).any():
        click.echo("Note: there are no folds here, so medians are those of all samples.", err=True)
        table = replace(table, X=imputer().fit_transform(table.X))
    line = ProgressLine()
    how |= {"checkpoint": out / "so-far", "verbose": partial(line, "testing pairs")}
    how["target"] = find_kind(table.y, task).name
    scan = InteractionScan(categorical_features=list(table.nominal) or None, **how)
    try:
        with collect_warnings() as remarks:
            annotations = {"groups": table.groups, "batch": table.batch, "covariates": table.covariates or None}
            scan.fit(table.X, table.y, **annotations)
    finally:
        line.end()
    for remark in remarks:
        click.echo(f"Note: {remark}", err=True)
    warned = [*check_pairs(table, scan.pairs_)]
    say("Warning", warned)
    features, pair_rows = features_tested(scan, table.names), pairs_tested(scan, table.names)
    files.write_atomically(out / "features.csv", as_csv(features))
    files.write_atomically(out / "pairs.csv", as_csv(pair_rows))
    if scan.with_covariates:
        by_covariate = covariate_pairs_tested(scan, table.names)
        files.write_atomically(out / "covariate-pairs.csv", as_csv(by_covariate))
    click.echo(f"{len(table.X)} samples, {len(table.names)} features; {scan.n_features_} selected.")
    click.echo(say_whether_pairs_hold(scan, table.names) + "\n")
    tables = [features[: max(5, min(20, scan.n_features_))], pair_rows[: len(scan.pairs_)][:5]]
    tables += [pair_rows[len(scan.pairs_) :][:5], by_covariate[:5] if scan.with_covariates else []]
    click.echo("\n\n".join(make_printable(as_markdown([_shorten_numbers(row) for row in t])) for t in tables if t))
    click.echo("\n" + MEANING_OF_Q)
    about = {"kind": how["target"], "target": reading.get("target") or "target", "data": file.name}
    about["command"] = write_command()
    _write_report(scan, table, out, warnings=[*remarks, *warned], notes=table.notes, **about)
    shutil.rmtree(out / "so-far", ignore_errors=True)
    click.echo(f"\nAll results: {out}")
    has_significant_features = bool((scan.qvalues_ <= (scan.alpha or LEVEL)).any())
    if not has_significant_features and not len(significant_pairs(scan)):
        click.get_current_context().exit(NOTHING)


def _check_folder(out: Path) -> None:
    """Raise an error if files of another run would be lost, or if the folder cannot be made."""
    from randsel._utils import files

    if (out / files.IDENTITY).exists():
        raise click.ClickException(
            f"{out} holds a run of randsel select or compare, whose files would be lost; give another folder (--out)."
        )
    files.check_folder(out)


def _write_report(scan: Any, table: "Table", out: Path, *, kind: str, **about: Any) -> None:
    """Write the report, and figures of the pairs if any is significant; print a message if that is not possible."""
    from randsel import plots
    from randsel._utils import files
    from randsel.report import interaction_contents, render_interactions, significant_pairs
    from randsel.targets import KINDS

    names = ("heatmap.png", "pairs.png")
    for name in names:
        (out / name).unlink(missing_ok=True)  # of an earlier run
    with warnings.catch_warnings(action="ignore"):  # missing glyphs of a font
        try:
            if n_significant := len(significant_pairs(scan)):
                figure = plots.new_figure(2.4 + 0.36 * len(scan.top_), 1.4 + 0.36 * len(scan.top_))
                plots.interaction_heatmap(scan, names=table.names, ax=figure.subplots())
                # survival is coloured by its martingale residuals
                y, categories = KINDS[kind].to_numbers(table.y)[0], KINDS[kind].has_classes
                options: dict[str, Any] = {"names": table.names, "categories": categories}
                panels = plots.figure_of(plots.pair_panels(table.X, y, scan, count=min(6, n_significant), **options))
                for name, drawn in zip(names, (figure, panels), strict=True):
                    files.write_figure(out / name, drawn, 120)
            content = interaction_contents(scan, table, kind=kind, **about)
            files.write_atomically(out / "report.html", render_interactions(content))
        except (ImportError, ArithmeticError, ValueError) as error:
            click.echo(f"No report and no figures: {error}", err=True)


def _shorten_numbers(row: dict[str, str]) -> dict[str, str]:
    """Return a row of a CSV file for the terminal: p-values and statistics with three digits."""
    numbers = ("p", "q", "main_p", "corrected_p", "statistic")
    return {title: f"{float(value):.3g}" if title in numbers and value else value for title, value in row.items()}


def features_tested(scan: Any, names: tuple[str, ...]) -> list[dict[str, str]]:
    """Return the features of a fitted `InteractionScan`, best first, with p- and q-values.

    A partner is named only if the pair is significant after correction for all pairs.
    """
    from randsel.analysis import FeatureTests

    partner = FeatureTests.from_scan(scan).partner
    return [
        {
            "feature": names[j],
            "rank": str(rank),
            "selected": "yes" if scan.support_[j] else "no",
            "p": format_exact(scan.pvalues_[j]),
            "q": format_exact(scan.qvalues_[j]),
            "main_p": format_exact(scan.main_pvalues_[j]),
            "partner": names[partner[j]] if partner[j] >= 0 else "",
        }
        for rank, j in enumerate(scan.order_.tolist(), start=1)
    ]


def covariate_pairs_tested(scan: Any, names: tuple[str, ...]) -> list[dict[str, str]]:
    """Return the best pairs of a covariate and a feature."""
    return [
        {
            "covariate": str(row["covariate"]),
            "feature": names[row["j"]],
            "p": format_exact(row["p"]),
            "corrected_p": format_exact(row["p_corrected"]),
        }
        for row in scan.covariate_pairs_
    ]


def pairs_tested(scan: Any, names: tuple[str, ...]) -> list[dict[str, str]]:
    """Return the best pairs of a fitted `InteractionScan`, and the best triples if it tested them."""
    has_triples = hasattr(scan, "triples_")
    return [
        {
            "feature": names[row["i"]],
            "partner": names[row["j"]],
            **({"third": names[row["k"]] if "k" in row.dtype.names else ""} if has_triples else {}),
            "statistic": format_exact(row["statistic"]),
            "p": format_exact(row["p"]),
            "corrected_p": format_exact(row["p_corrected"]),
            "step": str(row["step"]) if row["step"] else "",
        }
        for row in (*scan.pairs_, *(scan.triples_ if has_triples else ()))
    ]
