// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

/// exp, log, sin and cos in f64, built only from fused multiply-adds, additions, products and divisions, each
/// rounded as in IEEE 754: the same bits on every processor, with any compiler and C library (whose own
/// functions differ in the last place). Series: NIST Digital Library of Mathematical Functions, 4.2, 4.6,
/// 4.19.
namespace ventris {

/// e^x within 1 unit in the last place; 0, infinity and NaN as std::exp gives them.
double portable_exp(double x);

/// Natural logarithm within 1 unit in the last place; -infinity for 0, NaN below.
double portable_log(double x);
/// That of each of n numbers, several at a time. The arrays must not overlap.
void portable_logs(const double* x, int64_t n, double* logs);

/// log(1 + x) within 2 units in the last place for x >= 0.
double portable_log1p(double x);

/// x^y for x > 0, as e^(y log x): within 3 + 2 |y log x| units in the last place.
double portable_pow(double x, double y);

/// base^exponent by repeated squaring, for exponent >= 0.
double integer_power(double base, int64_t exponent);

/// Within 2^-52 of the sine and cosine for |x| < 2^20.
double portable_sin(double x);
double portable_cos(double x);

}  // namespace ventris
