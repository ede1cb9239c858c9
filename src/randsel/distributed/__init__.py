"""Computation on a Dask cluster: jobs, columns, rank functions and tables in blocks. Only this folder imports Dask.

Implements what other subpackages define: `RemoteTable` of `_numerics.arrays`, `ColumnSource` of `_numerics.columns`,
`RankFunctionSource` of `_numerics.rank_functions` and `JobRunner` of `_utils.jobs`. They import this folder when they
receive a Dask array or run with joblib's Dask backend. It may import `_utils` and `_numerics`; Dask is imported when
first needed.
"""

from randsel.distributed._client import ClusterJobRunner, ClusterLostError, on_cluster
from randsel.distributed._tables import read_blocks, remote_table

__all__ = ["ClusterLostError", "job_runner", "on_cluster", "read_blocks", "remote_table"]

job_runner = ClusterJobRunner
