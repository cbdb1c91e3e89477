"""These tests need all that pipelines can write; where something of it is not installed, they are left out."""

from importlib.util import find_spec

NEEDED = ("pyspark", "deltalake", "pyiceberg")

if not all(find_spec(name) for name in NEEDED):
    collect_ignore_glob = ["test_*.py"]
