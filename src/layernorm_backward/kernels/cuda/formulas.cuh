// What the results of a row are computed from, besides its elements.
#pragma once
#include "numbers.cuh"

// Forward. The mean is first + mean(x - first), exactly that in a row of equal numbers, kept as centre + rest; what
// it is still off by is delta = mean(z), with z = (x - centre) - rest. Rows of 16 bits have no rest: where their
// numbers differ at all, they do by far more than a rounding of the centre.
//     mean = centre + rest + delta     var = mean(z*z) - delta*delta     y = gamma*(z*rstd + offset) + beta
template <class T, class A = sum_t<T>>
struct Centre {
    A centre, rest;

    DEVICE Centre(A centre_, A rest_) : centre(centre_), rest(rest_) {}
    // Of the sum of x - first; share is 1/D.
    DEVICE Centre(A first, A sum, A share) {
        const A delta = rounded_product(sum, share);
        centre = first + delta;
        rest = sizeof(T) == 2 ? A(0) : delta - (centre - first);
    }
    DEVICE A z(A x) const { return sizeof(T) == 2 ? x - centre : (x - centre) - rest; }
};

template <class A>
struct Statistics {
    A mean, rstd, offset;

    // Of the sums of z and z*z.
    template <class T>
    DEVICE Statistics(const Centre<T, A>& about, const A* sums, A eps, A share) {
        const A delta = rounded_product(sums[0], share), var = multiply_add(-delta, delta, sums[1] * share);
        mean = about.centre + (about.rest + delta);
        rstd = 1 / square_root((var < 0 ? A(0) : var) + eps);  // NaN stays NaN
        offset = -delta * rstd;
    }
};

// Backward. With z = x - mean, and delta = mean(z) what the rounded mean is off by:
//     x_hat = z*rstd + offset            offset = -delta*rstd
//     dx    = rstd*(g + shift + slope*x_hat), g = gamma*dy rounded, so that D = 1 gives 0
//     shift = -sum(g)/D                  slope = (delta*sum(g) - sum(g*z))*rstd/D
template <class A>
struct Coefficients {
    A mean, rstd, offset, slope, shift;

    // Of the sums of z, g and g*z; share is 1/D.
    DEVICE Coefficients(A mean_, A rstd_, const A* sums, A share) : mean(mean_), rstd(rstd_) {
        const A delta = sums[0] * share;
        offset = -delta * rstd;
        slope = multiply_add(delta, sums[1], -sums[2]) * rstd * share;
        shift = -sums[1] * share;
    }
};
