"""Independent ways to dx, dgamma and dbeta, to be compared with each other.

A derivation is a function (x, gamma, beta, dy, eps) -> dx, dgamma, dbeta in float64, where x, dy, dx are
(..., D) and the others (D,). It raises ValueError where it cannot be had. `exact` is the judge; the two of
`published` are formulas that another implementation's documentation states, one of them wrong.
"""
