"""Measurements on a GPU: the code that the experiments ..._gpu share, and the command that runs a campaign.

A campaign measures the tables of all these experiments, within a time limit. Only numpy, pandas, PyYAML,
ml_dtypes and CuPy are imported, so that it runs where nothing else is installed; peers are imported when they
are timed.
"""
