"""Which two of 800 SNPs act only together?

The table has genotypes 0, 1 and 2 of 1200 samples. The risk is high for two alleles of one SNP with none of the other,
and for heterozygotes of both. Neither SNP alone changes the risk much.

To learn: use genotypes as they are. One pair of 320 000 stands out, and both partners are named.
"""

from pathlib import Path

import numpy as np

from randsel import InteractionScan, plots

rng = np.random.default_rng(11)
frequencies = rng.uniform(0.03, 0.5, 800)
X = rng.binomial(2, frequencies, (1200, 800))
first, second = 123, 456
X[:, [first, second]] = rng.binomial(2, 0.4, (1200, 2))
high = np.array([[0, 0, 1], [0, 1, 0], [1, 0, 0]])[X[:, first], X[:, second]]
y = rng.random(1200) < np.where(high, 0.7, 0.4)

scan = InteractionScan().fit(X, y)
best = scan.pairs_[0]
print(f"True pair: {first} and {second}. Best pair: {best['i']} and {best['j']}.")
print(f"Its corrected p: {best['p_corrected']:.1e}; of the next pair: {scan.pairs_[1]['p_corrected']:.2f}")
print(f"Selected at q ≤ 0.05: {scan.get_support(indices=True)}")
print(f"Functions that a SNP has at most: {scan.n_functions_}, but three genotypes have two.")
plots.figure_of(plots.pair_panels(X, y, scan, count=2)).savefig(Path("snp_pair.png"), dpi=110)
