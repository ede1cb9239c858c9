"""PLINK data sets: genotypes (.bed), variants (.bim) and samples (.fam)."""

from pathlib import Path

from randsel._utils.files import bytes_in, check_size
from randsel._utils.text import optional
from randsel.tables.formats._sheet import NAME_BYTES, ReadOptions, Sheet
from randsel.tables.formats._text import open_records

#: First bytes of a .bed file whose genotypes are stored variant by variant.
_MAGIC = b"\x6c\x1b\x01"


def read_plink(path: Path, options: ReadOptions) -> Sheet:
    """Read genotypes as counts of the first allele of the .bim file, and the phenotype of the .fam file."""
    bed_reader = optional("bed_reader", extra="files", purpose="Reading PLINK files")
    bed, bim, fam = (path.with_suffix(suffix) for suffix in (".bed", ".bim", ".fam"))
    for part in (bed, bim, fam):
        if not part.exists():
            raise ValueError(f"{part} is not there; a PLINK data set is a .bed, a .bim and a .fam file of one name.")
    samples, variants = _read_six_columns(fam, options.limit), _read_six_columns(bim, options.limit)
    # four samples share a byte
    expected, size = 3 + len(variants) * -(-len(samples) // 4), bed.stat().st_size
    with bed.open("rb") as file:
        magic = file.read(3)
    if magic != _MAGIC or size != expected:
        raise ValueError(
            f"{bed} should start with 6c 1b 01 and have {expected} bytes for {len(samples)} samples and "
            f"{len(variants)} variants, and starts with {magic.hex(' ')} and has {size}: it is cut off, or is not of "
            "these two files."
        )
    check_size(path, bytes_in((len(samples), len(variants)), 4), options.limit)
    with bed_reader.open_bed(bed, iid_count=len(samples), sid_count=len(variants), num_threads=1) as genotypes:
        # 0, 1 and 2 are exact in single precision
        values = genotypes.read(dtype="float32", order="C")
    notes = ["Genotypes are counts of the first allele of the .bim file."]
    names = [row[1] for row in variants]
    if len(set(names)) < len(names):
        names = [":".join((row[0], row[3], row[4], row[5])) for row in variants]
        notes.append("Names of variants are not unique, so they are called chromosome:position:alleles.")
    families, individuals, _, _, sexes, phenotypes = (list(cells) for cells in zip(*samples, strict=True))
    ids = individuals if len(set(individuals)) == len(individuals) else [f"{row[0]}:{row[1]}" for row in samples]
    # -9 is missing, and so is 0 if phenotypes are case (2) and control (1)
    missing_codes = {"-9", "0"} if set(phenotypes) <= {"-9", "0", "1", "2"} else {"-9"}
    phenotypes = ["" if cell in missing_codes else cell for cell in phenotypes]
    columns = {"fid": families, "iid": individuals, "sex": sexes, "phenotype": phenotypes}
    roles = {"target": "phenotype"}
    return Sheet(path, values, names, "PLINK", row_names=ids, named_columns=columns, roles=roles, notes=tuple(notes))


def _read_six_columns(path: Path, limit: int) -> list[list[str]]:
    """Read a .bim or .fam file."""
    rows: dict[int, list[str]] = {}
    with open_records(path, limit, []) as records:
        for line, text in records:
            check_size(path, (len(rows) + 1) * 2 * NAME_BYTES, limit)
            rows[line] = text.split(maxsplit=6)
    wrong = next((line for line, cells in rows.items() if len(cells) != 6), None)
    if wrong is not None or not rows:
        raise ValueError(f"{path} must have six columns in every line, and line {wrong or 1} has not.")
    return list(rows.values())
