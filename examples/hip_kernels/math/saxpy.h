#pragma once

// Starts y = a * x + y on the GPU, and returns 0.
int saxpy(float a, const float *x, float *y, int n);

// Starts a sum of blocks on the GPU, and returns 0.
int block_sum(const float *x, float *sums, int n);
