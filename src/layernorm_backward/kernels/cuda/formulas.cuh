// The coefficients of a row, from which its results are computed element by element.
#pragma once
#include "numbers.cuh"

// Forward. With z = x - centre, where the centre is the mean of a few elements of the row (exact where all elements are
// equal), and delta = mean(z), the error of the centre:
//     mean = centre + delta     var = mean(z*z) - delta*delta     y = gamma*(z*rstd + offset) + beta
// Where delta exceeds one standard deviation (far), var would lose digits: the row is summed again about that mean.
template <class A>
struct Statistics {
    A delta, var;

    // From the sums of z and z*z; share is 1/D.
    DEVICE Statistics(const A* sums, A share) {
        delta = rounded_product(sums[0], share);
        var = multiply_add(-delta, delta, sums[1] * share);
    }
    DEVICE bool far() const { return delta * delta > var; }
    DEVICE A rstd(A eps) const { return 1 / square_root((var < 0 ? A(0) : var) + eps); }  // NaN stays NaN
};

// Backward. With z = x - mean, and delta = mean(z), the error of the rounded mean:
//     x_hat = z*rstd + offset            offset = -delta*rstd
//     dx    = scale*(gamma*dy + shift + slope*x_hat)
//     shift = -sum(g)/D, g = gamma*dy    slope = (delta*sum(g) - sum(g*z))*rstd/D
// scale is rstd, but 0 for D = 1, where dx is 0.
template <class A>
struct Coefficients {
    A mean, rstd, offset, slope, shift, scale;

    // From the sums of z, g and g*z; share is 1/D.
    DEVICE Coefficients(A mean_, A rstd_, const A* sums, A share) : mean(mean_), rstd(rstd_) {
        const A delta = sums[0] * share;
        offset = -delta * rstd;
        slope = multiply_add(delta, sums[1], -sums[2]) * rstd * share;
        shift = -sums[1] * share;
        scale = share == 1 ? A(0) : rstd;
    }
};
