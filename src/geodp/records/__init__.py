"""Private records: in arrays, memory maps, chunks or Dask arrays, read as often as needed and never shown."""
