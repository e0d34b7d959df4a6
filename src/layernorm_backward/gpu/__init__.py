"""Measuring on a GPU: what the experiments ..._gpu share, and the command that runs them all in one campaign.

On this path only numpy, pandas, PyYAML, ml_dtypes and CuPy are imported, so that it runs where nothing else
is installed; peers are imported when they are timed.
"""
