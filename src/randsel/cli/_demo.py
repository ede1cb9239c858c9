"""`randsel demo` and `randsel completion`."""

# ruff: noqa: PLC0415 (slow imports are inside the commands, so that help and usage errors appear at once)
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import get_completion_class

from randsel.cli._main import main

if TYPE_CHECKING:
    from randsel._utils.typing import Array
    from randsel.culling import Round


@main.command()
@click.option("--samples", default=300, type=click.IntRange(8), help="Number of samples.")
@click.option("--features", default=200, type=click.IntRange(3), help="Number of features.")
@click.option("--seed", default=0, type=click.IntRange(0, 2**32 - 1), help="Seed of the data.")
@click.option(
    "--out",
    default="randsel-demo.png",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="File for the figure of the culling path.",
)
def demo(samples: int, features: int, seed: int, out: Path) -> None:
    """Find the two features whose XOR is the label among many noise features.

    Neither of the two is informative alone, so a filter that tests one feature at a time cannot find them.

    \b
    Examples:
      randsel demo
      randsel demo --features 1000 --seed 3 --out path.png
    """
    from randsel import RandSel, datasets, plots

    X, y, relevant = datasets.make_xor(samples, features, random_state=seed)
    names = [f"x{j}" for j in range(features)]
    click.echo(f"{samples} samples, {features} features; the label is the XOR of the signs of x0 and x1.\n")
    click.echo(f"{'left':>5} {'alignment':>10} {'score x0':>9} {'score x1':>9}   best noise feature")
    selector = RandSel(verbose=lambda r: click.echo(_line(r, relevant, names))).fit(X, y)
    click.echo(f"\nSelected: {', '.join(names[j] for j in selector.get_support(indices=True))}")
    try:
        title = f"XOR of two features among {features}: contributions as noise is culled"
        label = "the two relevant features"
        panels = plots.culling_path(selector.path_, highlight=relevant, names=names, title=title, label=label)
    except ImportError as error:
        click.echo(f"No picture: {error}", err=True)
        return
    plots.figure_of(panels).savefig(out, dpi=150)
    click.echo(f"The path, drawn: {out}")


def _line(r: "Round", relevant: "Array", names: list[str]) -> str:
    """Return the scores of the relevant features in a round, and the best score of the others."""
    score = dict(zip(r.features.tolist(), r.scores.tolist(), strict=True))
    true = " ".join(f"{score.pop(j):9.2f}" if j in score else f"{'culled':>9}" for j in relevant.tolist())
    best = max(score, key=lambda j: score[j], default=None)
    noise = "none left" if best is None else f"{score[best]:.2f} ({names[best]})"
    return f"{len(r.features):5d} {r.alignment:10.4f} {true}   {noise}"


@main.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a script that completes commands and options in a shell.

    Add the line for your shell to its start-up file (~/.bashrc, ~/.zshrc, ~/.config/fish/config.fish).

    \b
    Examples:
      eval "$(randsel completion bash)"
      eval "$(randsel completion zsh)"
      randsel completion fish | source
    """
    completion_class = get_completion_class(shell)
    if completion_class is None:
        raise click.ClickException(f"click knows no completion for {shell}; renew it: pip install --upgrade click.")
    click.echo(completion_class(main, {}, "randsel", "_RANDSEL_COMPLETE").source())
