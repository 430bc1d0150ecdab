#pragma once

#include "device/device.h"

struct complex {
  float re, im;
};

__device__ complex times(complex a, complex b);
