#include "deep/unique.h"

__global__ void b() {}
