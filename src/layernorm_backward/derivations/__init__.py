"""Independent derivations of dx, dgamma and dbeta, to be compared with each other.

A derivation is a function (x, gamma, beta, dy, eps) -> dx, dgamma, dbeta in float64, where x, dy, dx are
(..., D) and the others (D,). It raises ValueError where it is not available. `exact` is the reference.
`published` holds two formulas from the documentation of another implementation, one of them wrong.
"""
