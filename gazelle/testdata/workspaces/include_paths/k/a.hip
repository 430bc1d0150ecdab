#include "api/tile.h"
#include "shared.h"

__global__ void a() {}
