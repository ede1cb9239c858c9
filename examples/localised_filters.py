"""Does sparse filtering find strokes and edges, or whole pictures?

Sparse filtering uses no labels and asks only for sparse features. On patches of photographs, less their means, most
filters become edges and bars in one place of the patch. On whole digits, filters become templates of a digit and are
not local. The locality of a filter is the root mean square distance of its energy from its centroid, in pixels, here
compared with random filters.

To learn: sparse filtering learns the sparsest causes of the data. These are strokes only in some data.
"""

import warnings
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_digits, load_sample_images
from sklearn.decomposition import PCA

from randsel import SparseFiltering

warnings.simplefilter("ignore")  # 200 iterations are enough to see what filters become
SIDE = 10


def radius(filters):
    """Root mean square distance, in pixels, of a filter's energy from its middle."""
    side = int(np.sqrt(filters.shape[1]))
    energy = filters**2 / np.sum(filters**2, axis=1, keepdims=True)
    rows, columns = np.divmod(np.arange(side * side), side)
    return np.sqrt(sum(energy @ at**2 - (energy @ at) ** 2 for at in (rows, columns)))


def show(figure, filters, title):
    """Draw 64 filters, the most local first."""
    axes = figure.subplots(8, 8)
    for ax, one in zip(axes.ravel(), filters[np.argsort(radius(filters))], strict=True):
        side = int(np.sqrt(len(one)))
        largest = np.abs(one).max()
        ax.imshow(one.reshape(side, side), cmap="gray", vmin=-largest, vmax=largest)
        ax.set_axis_off()
    figure.suptitle(title, fontsize="medium")


rng = np.random.default_rng(0)
patches = []
for picture in load_sample_images().images:
    grey = picture.mean(axis=2) / 255
    corners = rng.integers(0, np.array(grey.shape) - SIDE, (6000, 2))
    patches += [grey[i : i + SIDE, j : j + SIDE].ravel() for i, j in corners]
patches = np.array(patches) - np.mean(patches, axis=1, keepdims=True)
patches = patches[patches.std(axis=1) > 0.02]  # sky and background hold nothing to learn from
edges = SparseFiltering(64, random_state=0).fit(patches).components_

digits = load_digits().data
whitening = PCA(0.99, whiten=True).fit(digits)
learned = SparseFiltering(64, random_state=0).fit(whitening.transform(digits)).components_
drawn = whitening.components_ * np.sqrt(whitening.explained_variance_)[:, None]  # as pictures, of 8 by 8 pixels
templates = learned @ drawn

for name, found, back in (("patches of photographs", edges, np.eye(SIDE**2)), ("whole digits", templates, drawn)):
    start = radius(rng.standard_normal((1000, len(back))) @ back)
    local = np.mean(radius(found) < start.min())
    print(f"{name}: radius {np.median(radius(found)):.1f} pixels (median), at the start {np.median(start):.1f};")
    print(f"  {local:.0%} of the filters are more local than any of 1000 random ones")

figure = Figure(figsize=(9, 4.8))
left, right = figure.subfigures(1, 2)
show(left, edges, "patches of photographs: edges and bars")
show(right, templates, "whole digits: templates")
figure.savefig(Path("localised_filters.png"), dpi=110)
