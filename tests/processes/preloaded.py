"""Imports the service for forked processes and keeps its objects out of every later collection."""

import gc

import steward.app
import steward.cli.run
import steward.cli.serve  # noqa: F401

gc.collect()
gc.freeze()
