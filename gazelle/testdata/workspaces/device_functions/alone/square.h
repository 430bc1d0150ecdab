#pragma once
__device__ int square(int);
