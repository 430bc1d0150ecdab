#pragma once

#ifdef __cplusplus
extern "C" {
#endif

// The mean of n numbers, computed on the device; *host_threads counts the parts that ran on the host instead.
double mean(const double *x, int n, int *host_threads);

// Scales n numbers on the device.
void scale(double *x, int n, double by);

#ifdef __cplusplus
}
#endif
