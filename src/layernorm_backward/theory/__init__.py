"""Effects of rounding on layer normalization: error bounds of mean, variance, y, dx, dgamma; predictions.

exact_rows, magnitudes   exact quantities of rows; the largest sum of magnitudes in an algorithm
mean_bounds, variance_bounds, saving_bounds   errors of statistics: by algorithm, and by what was saved
result_bounds, identity   from errors of statistics to errors of results: bounds, and first-order predictions
bounds, kernel_bounds     error bounds of results: by algorithm of `passes`, and by kernel
"""
