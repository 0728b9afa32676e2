"""What a forked process begins with: the service imported, its objects kept out of every later collection."""

import gc

import steward.app
import steward.cli.run
import steward.cli.serve  # noqa: F401

gc.collect()
gc.freeze()
