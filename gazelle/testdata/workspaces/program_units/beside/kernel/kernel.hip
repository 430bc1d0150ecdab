#include "../util/timer.h"

__global__ void k() {}

void kernel() { k<<<1, 1>>>(); }
