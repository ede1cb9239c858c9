"""How do I start from my own file?

Expression matrices mostly have genes in rows and samples in columns, and the diagnosis in another file. `tables.read`
detects the orientation of the table and says so in a note. Missing values are counted, and neutral by default. The two
files are simulated here: one gene differs between the groups, two act together.

To learn: read the notes first; they show whether a table was read correctly.
"""

from pathlib import Path

import numpy as np

from randsel import InteractionScan, plots, tables

rng = np.random.default_rng(4)
X = rng.standard_normal((200, 400)).round(3)
sick = 1.5 * X[:, 7] * X[:, 300] + 0.7 * X[:, 42] + 0.4 * rng.standard_normal(200) > 0
ids = [f"P{i:03d}" for i in range(200)]
rows = [["gene", *ids], *([f"GENE{j}", *map(str, X[:, j])] for j in range(400))]
Path("expression.tsv").write_text("\n".join("\t".join(row) for row in rows))
diagnosis = np.where(sick, "sick", "well")
Path("diagnosis.csv").write_text("id,status\n" + "\n".join(f"{i},{d}" for i, d in zip(ids, diagnosis, strict=True)))

table = tables.read("expression.tsv", target_file="diagnosis.csv")
for note in table.notes:
    print("Note:", note)
scan = InteractionScan().fit(table.X, table.y)
for j in scan.get_support(indices=True):
    print(f"{table.names[j]}: q = {scan.qvalues_[j]:.0e}, alone p = {scan.main_pvalues_[j]:.0e}")
for pair in scan.pairs_[scan.pairs_["p_corrected"] <= 0.05]:
    print(f"{table.names[pair['i']]} acts with {table.names[pair['j']]}: corrected p = {pair['p_corrected']:.0e}")
plots.figure_of(plots.pair_panels(table.X, table.y, scan, names=table.names, count=1)).savefig(
    Path("own_table.png"), dpi=110
)
