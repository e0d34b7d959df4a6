"""What rounding can do to a layer norm: bounds of mean, variance, y, dx, dgamma, and first-order predictions.

exact_rows, magnitudes   exact quantities of the rows; the largest sums of magnitudes of a way
mean_bounds, variance_bounds, saving_bounds     statistics: by each way, and by what was saved
result_bounds, identity     from statistics to results: bounds and predictions
bounds, kernel_bounds     bounds of results by the name of a way of `passes`, or of a kernel
"""
