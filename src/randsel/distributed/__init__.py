"""Work on a Dask cluster; the only subpackage that imports Dask."""
