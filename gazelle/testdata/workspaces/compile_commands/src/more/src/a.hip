#include "scale.h"
__global__ void more() {}
void run_more() { more<<<1, 1>>>(); }
